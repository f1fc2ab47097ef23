"""`dpw sweep` on the command line, without a cluster."""

import json

from dpw.cli.sweep import _command, _lines
from dpw.cluster.sweep import SweepSpec
from tests.helpers.command_line import dpw


def test_a_plan_says_what_it_costs(capsys, toy, tmp_path):
    spec = {"benchmark": str(toy / "toy.yaml"), "model": str(toy / "clip"), "methods": ["rail"]}
    (tmp_path / "s.yaml").write_text(
        json.dumps(spec | {"settings": {"width": [20, 40]}, "halving": {"first": 1}})
    )
    code, out, _ = dpw(capsys, "sweep", tmp_path / "s.yaml", "--plan")
    assert code == 0 and "2 points: about" in out and "at most" in out


def test_a_wrong_description_is_one_sentence(capsys, tmp_path):
    (tmp_path / "s.yaml").write_text("benchmark: nowhere\n")
    code, _, err = dpw(capsys, "sweep", tmp_path / "s.yaml", "--plan")
    assert code == 2 and "which CLIP" in err and err.count("\n") == 1


def test_the_table_and_the_command_of_the_best_point():
    row = {
        "point": 3,
        "method": "dpw",
        "preset": "official",
        "seed": 1,
        "shots": 5,
        "tasks": 2,
        "score": 61.5,
    }
    row |= {"settings": {"training.learning_rate": 0.1}, "error": None}
    assert "61.50" in _lines([row])[-1]
    command = _command(row, SweepSpec(benchmark="mini", model="mini"))
    assert command.endswith("--shots 5 --set training.learning_rate=0.1") and "--preset official" in command
    wanted = SweepSpec(benchmark="mtil", model="c", data_root="my data", protocol="zscl", order=["a", "b"])
    assert "--data-root 'my data' --protocol zscl --order a,b" in _command(row, wanted), "it can be pasted"
