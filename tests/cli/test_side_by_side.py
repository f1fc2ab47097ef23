"""Runs and tasks side by side give the bytes of one process; errors, notices and signals reach the user."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from dpw.cli import side_by_side, terminal
from tests.helpers.command_line import dpw
from tests.helpers.toy_runs import outcome

SHORT = ["prefix_length=2", "adapter_rank=4", "training.batch_size=4"]


@pytest.fixture
def command(toy, monkeypatch):
    """A benchmark of three small tasks; every process has one thread."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def words(*more, iterations=3):
        settings = [word for one in (*SHORT, f"training.iterations={iterations}") for word in ("--set", one)]
        given = ["run", toy / "toy.yaml", "--model", toy / "clip", *settings, *more]
        return list(map(str, given))

    return words


def decided(folder):
    """Everything a run decides, byte for byte; only the command that asked for it differs."""
    found = outcome(folder)
    results = json.loads(found.pop("results.json"))
    assert results["provenance"].pop("command")
    return found | {"results": results}


def left(folder):
    """What lies in a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def test_two_runs_at_once_are_two_runs(capsys, command, tmp_path):
    for jobs in (1, 2):
        place = tmp_path / str(jobs) / "runs"
        code, out, err = dpw(capsys, *command("--seeds", "1,2", "--jobs", jobs, "--output", place))
        assert code == 0, err
        assert out.count("results.json") == 2
        assert left(place) == ["dpw-seed1", "dpw-seed2"]
        assert left(place.parent) == ["runs"]  # what the processes shared is gone
    for seed in (1, 2):
        one, two = (decided(tmp_path / str(jobs) / "runs" / f"dpw-seed{seed}") for jobs in (1, 2))
        assert one == two


def test_the_tasks_of_a_single_run_are_learned_side_by_side(capsys, command, tmp_path, monkeypatch):
    import dpw.cluster.grid as grid

    kinds = []
    ends = grid.Grid._ended

    def noted(self, job, run, found):
        kinds.append((job.kind, job.part))
        ends(self, job, run, found)

    monkeypatch.setattr(grid.Grid, "_ended", noted)
    for jobs in (1, 2):
        code, _, err = dpw(capsys, *command("--jobs", jobs, "--output", tmp_path / str(jobs)))
        assert code == 0, err
    assert {part for kind, part in kinds if kind == "learn"} == {"birds", "metals", "signs"}
    assert decided(tmp_path / "1") == decided(tmp_path / "2")


def test_learned_tasks_stay_where_a_folder_for_them_is_named(capsys, command, tmp_path):
    code, _, err = dpw(
        capsys, *command("--jobs", 2, "--output", tmp_path / "out", "--reuse", tmp_path / "kept")
    )
    assert code == 0, err
    assert len(list((tmp_path / "kept" / "learned").iterdir())) == 3


def test_what_is_not_ours_stays(capsys, command, tmp_path):
    others = tmp_path / ".out-parts" / "learned"
    others.mkdir(parents=True)
    (others / "letter.txt").write_text("not ours")
    code, _, err = dpw(capsys, *command("--jobs", 2, "--output", tmp_path / "out"))
    assert code == 0, err
    assert left(tmp_path / ".out-parts") == ["learned"]
    assert left(others) == ["letter.txt"]


def test_what_goes_wrong_in_one_is_said_once_and_the_other_ends(capsys, command, tmp_path):
    (tmp_path / "dpw-seed2").mkdir()
    (tmp_path / "dpw-seed2" / "letter.txt").write_text("not ours")
    code, _, err = dpw(capsys, *command("--seeds", "1,2", "--jobs", 2, "--output", tmp_path))
    assert code == 2
    assert err.count("dpw-seed2") == 1
    assert "1 of 2 runs failed" in err
    assert (tmp_path / "dpw-seed1" / "results.json").is_file()
    assert left(tmp_path / "dpw-seed2") == ["letter.txt"]


def test_what_somebody_should_know_is_said_once(capsys, toy, tmp_path):
    words = ["run", toy / "toy.yaml", "--model", toy / "clip", "--method", "moe-adapters"]
    words += ["--set", "training.iterations=2", "--seeds", "1,2", "--jobs", "2", "--output", tmp_path]
    code, _, err = dpw(capsys, *words)
    assert code == 0, err
    assert err.count("moe-adapters has no reference images") == 1


def test_a_signal_stops_all_and_the_same_command_or_resume_goes_on(capsys, command, tmp_path):
    whole = command("--jobs", 1, "--output", tmp_path / "whole", iterations=300)
    assert dpw(capsys, *whole)[0] == 0
    halved = command("--jobs", 2, "--output", tmp_path / "halved", iterations=300)
    halved += ["--checkpoint-seconds", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dpw", *halved], stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    store = tmp_path / ".halved-parts"
    until = time.monotonic() + 60
    while not list(store.glob("unfinished/*/progress.json")) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "the same command goes on" in said
    assert not (tmp_path / "halved" / "results.json").exists()
    code, _, err = dpw(capsys, "resume", tmp_path / "halved")
    assert code == 0, err
    assert decided(tmp_path / "halved") == decided(tmp_path / "whole")


def test_a_terminal_shows_how_far_every_run_is(capsys, toy, tmp_path, monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, legacy_windows=False)
    monkeypatch.setattr(terminal, "console", screen)
    monkeypatch.setattr(side_by_side, "console", screen)
    words = ["run", toy / "toy.yaml", "--model", toy / "clip", "--method", "zero-shot,finetune"]
    code, _, err = dpw(capsys, *words, "--set", "training.iterations=3", "--jobs", "2", "--output", tmp_path)
    assert code == 0, err
    drawn = screen.file.getvalue()
    assert "zero-shot-seed0" in drawn
    assert drawn.count("finished") >= 2
