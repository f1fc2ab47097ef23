"""`dpw run` and `dpw resume`: results, several methods and seeds, and stopping by a signal."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.command_line import dpw

SMALL = ["--set", "training.epochs=1", "--set", "training.batch_size=8"]


@pytest.mark.usefixtures("no_network")
def test_a_run_leaves_results_and_a_table(capsys, toy, tmp_path):
    base = ["run", toy / "toy.yaml", "--model", toy / "clip", "--output", tmp_path / "run"]
    code, out, _ = dpw(capsys, *base, *SMALL)
    assert code == 0
    assert "transfer" in out
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    for key in (
        "method",
        "benchmark",
        "protocol",
        "seed",
        "versions",
        "method_config",
        "parameters",
        "seconds",
    ):
        assert results[key] is not None
    assert len(results["accuracy"]) == 3
    assert len(results["task_identification"]["confusion"]) == 3
    rows = (tmp_path / "run" / "accuracy.csv").read_text().splitlines()
    assert rows[0] == "after,birds,metals,signs"
    assert len(rows) == 5
    code, out, _ = dpw(capsys, "resume", tmp_path / "run", "--json")
    assert json.loads(out)["metrics"] == results["metrics"]
    code, _, err = dpw(capsys, *base, "--seed", "3", *SMALL)
    assert code == 2
    assert "seed: was 0, now 3" in err


def test_several_methods_and_seeds_get_a_folder_each(capsys, toy, tmp_path):
    code, out, _ = dpw(
        capsys,
        *[
            "run",
            toy / "toy.yaml",
            "--model",
            toy / "clip",
            "--output",
            tmp_path,
            "--method",
            "zero-shot,diki",
        ],
        *["--seeds", "1,2", "--order", "birds,metals", *SMALL],
    )
    assert code == 0, out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "diki-seed1",
        "diki-seed2",
        "zero-shot-seed1",
        "zero-shot-seed2",
    ]


def test_class_incremental_evaluation(capsys, toy, tmp_path):
    text = (toy / "toy.yaml").read_text().replace("task-incremental", "class-incremental")
    (toy / "all.yaml").write_text(text)
    code, out, _ = dpw(
        capsys, *["run", toy / "all.yaml", "--model", toy / "clip", "--output", tmp_path / "run", *SMALL]
    )
    assert code == 0
    assert "class-incremental" in out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_names_the_command_to_go_on(toy, tmp_path, number, code):
    output = tmp_path / "run"
    command = [sys.executable, "-m", "dpw", "run", toy / "toy.yaml", "--model", toy / "clip"]
    command += ["--output", output, "--set", "training.epochs=2000", "--set", "training.select=last"]
    process = subprocess.Popen(
        [str(word) for word in command],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while not (output / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"continue with: dpw resume {output}" in err
    assert (output / "progress" / "progress.json").exists()


def test_a_run_takes_published_shot_lists_and_rebuilt_splits(toy, data_root, tmp_path, capsys):
    path = tmp_path / "lists" / "dtd" / "shot_1-seed_1.json"
    path.parent.mkdir(parents=True)
    entry = {"impath": "data/dtd/images/banded/banded_0003.jpg", "label": 0, "classname": "banded"}
    path.write_text(json.dumps({"train": [entry], "val": []}))
    options = ["--shot-lists", tmp_path / "lists", "--shots", "1", "--seed", "1", "--order", "dtd"]
    clip = ["--model", toy / "clip", "--method", "zero-shot", "--data-root", data_root]
    found = []
    for name, chosen in (("listed", options), ("rebuilt", ["--rebuild-splits", "--order", "dtd"])):
        code, _, err = dpw(capsys, "run", "mtil", *clip, *chosen, "--output", tmp_path / name)
        assert code == 0, err
        found.append(json.loads((tmp_path / name / "run.json").read_text())["settings"])
    assert [settings["shot_lists"] for settings in found] == [str(tmp_path / "lists"), None]
    assert [settings["rebuild_splits"] for settings in found] == [False, True]
    code, _, err = dpw(capsys, "run", "mtil", *clip, *options[:-1], "food", "--output", tmp_path / "none")
    assert (code, err.count("\n")) == (2, 1)
    assert "for any task" in err


def test_what_does_not_compare_is_said_before_the_run_also_off_a_terminal(toy, data_root, tmp_path, capsys):
    clip = ["--model", toy / "clip", "--method", "zero-shot", "--data-root", data_root]
    code, _, err = dpw(capsys, "run", "mtil", *clip, "--order", "dtd", "--output", tmp_path / "run")
    assert code == 0, err
    assert "the published figures of zero-shot are of mtil under protocol zscl" in err
    assert "--protocol zscl" in err
    code, _, err = dpw(capsys, "run", "mtil", *clip, "--order", "dtd", "--output", tmp_path / "run")
    assert (code, err) == (0, ""), "said again of a finished run"


def test_several_shots_draw_a_curve(capsys, toy, tmp_path):
    words = ["run", toy / "toy.yaml", "--model", toy / "clip", "--output", tmp_path]
    words += ["--method", "zero-shot,linear-probe", "--order", "birds,metals", "--shots", "1,2"]
    code, out, _ = dpw(capsys, *words)
    assert code == 0
    assert "accuracy over images per class" in out
    for name in ("zero-shot", "linear-probe"):
        for shots in (1, 2):
            folder = tmp_path / f"{name}-shots{shots}-seed0"
            assert json.loads((folder / "results.json").read_text())["shots"] == shots
    rows = (tmp_path / "shots.csv").read_text().splitlines()
    assert rows[0] == "method,shots,last,transfer,last_deviation,transfer_deviation"
    assert [row.split(",")[:2] for row in rows[1:]] == [
        ["zero-shot", "1"],
        ["zero-shot", "2"],
        ["linear-probe", "1"],
        ["linear-probe", "2"],
    ]
    assert (tmp_path / "shots.png").stat().st_size > 1000
    code, again, err = dpw(capsys, *words)
    assert code == 0, err
    assert again == out
