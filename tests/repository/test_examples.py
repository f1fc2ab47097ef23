"""The examples of the docs pages are complete: a reader who copies one gets something that works."""

import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpw
from dpw.methods import METHODS, PRESETS, configure
from tests.helpers.tiny_clip import save_tiny
from tests.helpers.toy_methods import learn, toy_method, toy_task
from tests.methods import test_battery as battery

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = "bias-tuning"
CHECKS = [
    check
    for name, check in vars(battery).items()
    if name.startswith("test_") and battery.mixed_methods.mark not in check.pytestmark
]


def code(page: str) -> str:
    """The one Python block of a page."""
    (found,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    return found


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The example as a file that is imported, and taken out again for the other tests."""
    path = tmp_path_factory.mktemp("methods") / "bias_tuning.py"
    path.write_text(code("adding-a-method.md"))
    spec = importlib.util.spec_from_file_location("bias_tuning", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    yield battery.LearnedMethods()
    del METHODS[EXAMPLE], PRESETS[EXAMPLE]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("test_"))
def test_the_example_method_passes_the_battery_of_all_methods(check, learned):
    wanted = inspect.signature(check).parameters
    check(EXAMPLE, learned) if "learned" in wanted else check(EXAMPLE)


@pytest.mark.usefixtures("learned")
def test_the_example_method_has_its_preset_and_its_size():
    assert METHODS[EXAMPLE].isolated  # the battery's checks for mixed methods are left out above
    assert METHODS[EXAMPLE].zero_shot
    assert configure(EXAMPLE, "careful").training.learning_rate == 0.1
    method = learn(toy_method(EXAMPLE), toy_task("aircraft"))
    assert method.parameter_count() == 2 * (48 + 32)


def test_the_example_method_is_known_to_the_commands_once_its_file_is_there(tmp_path):
    """As the page says: saved among the methods, and nothing else done."""
    package, copy = Path(dpw.__file__).parent, tmp_path / "dpw"
    copy.mkdir()
    for path in package.iterdir():
        if path.name != "methods":
            (copy / path.name).symlink_to(path)
    shutil.copytree(package / "methods", copy / "methods", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "methods" / "bias_tuning.py").write_text(code("adding-a-method.md"))
    command = [sys.executable, "-m", "dpw", "run", "mini", "--method", EXAMPLE, "--order", "signs,flags"]
    command += ["--shots", "1", "--set", "training.epochs=1"]
    place = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=place, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert EXAMPLE in done.stdout


def test_the_example_method_is_about_fifty_lines():
    lines = [line.strip() for line in code("adding-a-method.md").splitlines()]
    working = [line for line in lines if line and not line.startswith('"""')]
    assert len(working) <= 50


def test_the_example_dataset_is_learned(tmp_path, capsys):
    clip = save_tiny(tmp_path / "clip")
    exec(code("adding-a-dataset.md").replace('"mini"', repr(str(clip))), {"__name__": "example"})
    assert "task='stripes'" in capsys.readouterr().out
