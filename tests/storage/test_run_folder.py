"""One module knows what a run folder holds; what it writes it reads back, and half a line costs nothing."""

import json
import re

import pytest

from dpw.errors import DamagedFileError, InputError
from dpw.runs.run import resume_run
from dpw.storage import files, run_folder
from dpw.storage.run_folder import RunFolder, Step
from tests.helpers.toy_runs import make_toy, run

LISTED = re.findall(r"^(\S+)  ", run_folder.__doc__, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return make_toy(tmp_path_factory.mktemp("toy"))


def test_a_finished_run_holds_what_the_module_lists_and_nothing_else(toy, tmp_path):
    run(toy, tmp_path / "run", method="zero-shot", settings={}, order=("birds", "metals"))
    wanted = {name for name in LISTED if name not in ("figures/", "progress/", "rows/NNN.json")}
    found = {path.relative_to(tmp_path / "run").as_posix() for path in (tmp_path / "run").rglob("*")}
    assert {name.rstrip("/") for name in wanted} | {"rows/000.json", "rows/001.json"} <= found
    assert {name.split("/")[0] for name in found} <= {name.split("/")[0] for name in LISTED}


def test_rows_and_results_are_read_back_and_other_kinds_refused(tmp_path):
    folder = RunFolder(tmp_path)
    assert (folder.started, folder.finished, folder.read_rows(), folder.read_zero_shot()) == (
        False,
        False,
        [],
        None,
    )
    folder.write_run({"settings": {"seed": 0}})
    folder.write_row(0, {"after": "birds"})
    folder.write_zero_shot([50.0, None])
    assert folder.read_run()["settings"] == {"seed": 0}
    assert [row["after"] for row in folder.read_rows()] == ["birds"]
    assert folder.read_zero_shot() == [50.0, None]
    with pytest.raises(InputError, match="seed: was 0, now 1"):
        folder.refuse_other({"seed": 1})
    with pytest.raises(InputError, match="not finished"):
        folder.read_results()
    folder.write_results({"tasks": ["birds"], "zero_shot": [50.0], "accuracy": [[60.0]]})
    assert folder.read_results()["accuracy"] == [[60.0]]
    assert (tmp_path / "accuracy.csv").read_text() == "after,birds\nzero-shot,50.0\nbirds,60.0\n"
    files.write_json(tmp_path / "results.json", {"format": files.FORMAT, "kind": "dpw-model"})
    with pytest.raises(DamagedFileError, match="not the results of a run"):
        folder.read_results()


def test_a_line_of_the_timings_that_a_kill_cut_off_is_passed_over(tmp_path):
    folder = RunFolder(tmp_path)
    folder.timings.write(event="learn", task="birds", seconds=1.5)
    with (tmp_path / "timings.jsonl").open("a") as file:
        file.write('[1]\n{"event": "measure"}\n{"event": "measure", "ta')
    assert folder.read_steps() == [Step("learn", "birds", 1.5)]


def test_a_run_goes_on_with_the_settings_of_its_method_that_it_began_with(toy, tmp_path):
    """Also where this version would choose others, as for runs on `mini` with another CLIP."""
    run(toy, tmp_path / "run", method="diki", settings={"training.epochs": 1, "prefix_length": 2})
    stored = RunFolder(tmp_path / "run").read_run()
    config = {**stored["method_config"], "prefix_length": 3}
    other = RunFolder(tmp_path / "other")
    other.write_run({**stored, "method_config": config})
    assert resume_run(other.path)["method_config"]["prefix_length"] == 3
    assert json.loads((other.path / "model" / "model.json").read_text())["method"]["config"] == config
