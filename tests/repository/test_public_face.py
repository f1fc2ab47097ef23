"""What `import dpw` gives: typed names, nothing heavy before it is used, errors that can be told apart."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpw
from dpw import errors

SOURCE = Path(dpw.__file__).parents[1]
HOMES = {
    "Backbone": "dpw.clip.backbone",
    "ContinualCLIP": "dpw.learner",
    "Prediction": "dpw.learner",
    "Task": "dpw.data.task",
    "TrainingCallback": "dpw.engine.callbacks",
    "load_benchmark": "dpw.benchmarks",
    "run_benchmark": "dpw.runs.run",
}
CLIENT = """
import dpw

learner = dpw.ContinualCLIP.from_pretrained("mini", "dpw", settings={"gate": 0.8})
task = dpw.Task.from_folder("birds")
learner.learn(task, callback=dpw.TrainingCallback())
reveal_type(learner)
reveal_type(learner.predict("photo.jpg"))
reveal_type(learner.predict(["photo.jpg"]))
reveal_type(task)
reveal_type(dpw.Backbone.from_pretrained("mini"))
reveal_type(dpw.load_benchmark("mini"))
reveal_type(dpw.run_benchmark("mini", output="run"))
try:
    learner.save_pretrained("model")
except dpw.StorageError as error:
    reveal_type(error.errno)
except (dpw.DamagedFileError, dpw.InputError, dpw.Interrupted, dpw.DpwError):
    pass
dpw.Classifier
learner.learn("birds")
"""
REVEALED = [
    "dpw.learner.ContinualCLIP",
    "dpw.engine.prediction.Prediction",
    "list[dpw.engine.prediction.Prediction]",
    "dpw.data.task.Task",
    "dpw.clip.backbone.Backbone",
    "dpw.benchmarks.benchmark.LoadedBenchmark",
    "dict[str, Any]",
    "int | None",
]
# What is below `dpw` is not what is tested, and following it would take a minute.
SETTINGS = """
[mypy]
strict = True
warn_unused_configs = False
[mypy-dpw.*]
follow_imports = silent
[mypy-torch.*,transformers.*,numpy.*,pydantic.*,accelerate.*,datasets.*]
follow_imports = skip
ignore_missing_imports = True
"""


def test_a_client_is_type_checked_strictly(tmp_path):
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "client.py"]
    environment = {"MYPYPATH": str(SOURCE), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    revealed = [re.sub(r"builtins\.", "", found) for found in re.findall(r'is "(.*)"', done.stdout)]
    assert [found.replace("Union[int, None]", "int | None") for found in revealed] == REVEALED, done.stdout
    mistakes = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(mistakes) == 2, done.stdout
    assert 'Module has no attribute "Classifier"' in mistakes[0]
    assert 'Argument 1 to "learn"' in mistakes[1]


@pytest.mark.parametrize(("name", "home"), HOMES.items())
def test_public_names_are_those_of_their_modules(name, home):
    assert getattr(dpw, name) is getattr(importlib.import_module(home), name)


def test_all_names_are_public_documented_and_listed():
    assert set(HOMES) < set(dpw.__all__) <= set(dir(dpw))
    for name in set(dpw.__all__) - {"__version__"}:
        assert getattr(dpw, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'Classifier'"):
        dpw.Classifier  # noqa: B018


def test_a_full_disk_is_an_os_error_and_a_damaged_file_a_value_error():
    assert issubclass(errors.StorageError, OSError)
    assert not issubclass(errors.StorageError, ValueError)
    assert issubclass(errors.DamagedFileError, errors.InputError)
    assert issubclass(errors.InputError, ValueError)
    assert errors.StoreError is errors.DamagedFileError
    error = errors.StorageError("the disk is full", 28)
    assert (str(error), error.errno) == ("the disk is full", 28)
