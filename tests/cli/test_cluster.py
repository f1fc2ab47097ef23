"""`--cluster`, `--reuse` and `dpw status` on the command line."""

import json
import time

import pytest

from dpw.cli.cluster import cluster_lines
from tests.helpers.command_line import dpw

SHORT = ["--set", "training.iterations=2", "--set", "training.batch_size=4", "--set", "prefix_length=2"]


def run(capsys, toy, output, *more):
    """A short run of the toy benchmark."""
    where = ["run", toy / "toy.yaml", "--model", toy / "clip", "--output", output]
    return dpw(capsys, *where, *SHORT, *more)


def test_learned_tasks_are_reused_in_another_order(capsys, toy, tmp_path):
    store = ["--reuse", tmp_path / "store"]
    assert run(capsys, toy, tmp_path / "a", *store, "--order", "birds,signs")[0] == 0
    before = sorted(path.stat().st_mtime_ns for path in tmp_path.glob("store/learned/*/task.json"))
    assert run(capsys, toy, tmp_path / "b", *store, "--order", "signs,birds")[0] == 0
    after = sorted(path.stat().st_mtime_ns for path in tmp_path.glob("store/learned/*/task.json"))
    assert before == after and len(after) == 2
    code, out, _ = dpw(capsys, "status", tmp_path / "b")
    assert code == 0 and "finished" in out and "2 of 2 tasks learned" in out
    code, out, _ = dpw(capsys, "status", tmp_path, "--json")
    assert [one["stage"] for one in json.loads(out)["runs"]] == ["finished", "finished"]


@pytest.mark.parametrize("option", ["--threads", "--processes"])
def test_options_without_a_cluster_are_refused(capsys, toy, tmp_path, option):
    code, _, err = run(capsys, toy, tmp_path / "run", option, "2")
    assert code == 2 and "has no effect without --cluster" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--jobs", "2"], "--jobs 2 has no effect with --cluster"),
        (["--track", "tensorboard"], "--track tensorboard has no effect with --cluster"),
        (["--method", "dpv"], "dpv"),
        (["--set", "nonsense=1"], "nonsense"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused_before_it_starts(capsys, toy, tmp_path, given, sentence):
    code, _, err = run(capsys, toy, tmp_path / "run", "--cluster", "local", *given)
    assert code == 2 and sentence in err and err.count("\n") == 1


def test_no_number_of_local_workers_is_one_sentence(capsys, toy, tmp_path):
    code, _, err = run(capsys, toy, tmp_path / "run", "--cluster", "local:many")
    assert code == 2 and "such as local:2" in err and err.count("\n") == 1


def test_status_shows_what_a_cluster_says(capsys, tmp_path):
    job = {
        "kind": "learn",
        "part": "birds",
        "run": "dpw-seed0",
        "node": "n7",
        "pid": 12,
        "step": 3,
        "steps": 9,
    }
    run = {"folder": "runs/dpw-seed0", "stage": "learning", "parts": {"learning": [1, 3]}, "why": None}
    said = {"at": time.time(), "slots": 4, "runs": [run], "jobs": [job, {"kind": "learn"}], "left": 90.0}
    (tmp_path / ".dpw-cluster.json").write_text(json.dumps(said))
    code, out, _ = dpw(capsys, "status", tmp_path)
    assert code == 0
    assert out.splitlines()[0] == "0 of 1 runs ended, 4 workers, about 1.5 min left"
    assert "n7 (12): learn birds of dpw-seed0 step 3/9" in out
    assert cluster_lines({**said, "runs": [{**run, "stage": "failed", "why": "no luck"}]})[1].endswith(
        "no luck"
    )


def test_status_of_nothing_is_one_sentence(capsys, tmp_path):
    code, _, err = dpw(capsys, "status", tmp_path)
    assert code == 2 and "holds no run" in err
