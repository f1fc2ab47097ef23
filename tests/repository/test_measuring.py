"""The measuring itself: ways take turns, a first round never counts, targets are judged, results are kept."""

import json

import pytest
from benchmarks.growth import plot, slope
from PIL import Image

from benchmarks import bench, measure


def test_ways_take_turns_after_a_round_that_is_not_counted(monkeypatch):
    order = []
    ways = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    found = measure.in_turn(ways, 3)
    assert order == ["a", "b"] * 4
    assert {name: len(times) for name, times in found.items()} == {"a": 3, "b": 3}
    monkeypatch.setattr(measure, "BUDGET", -1.0)
    assert len(measure.in_turn(ways, 3)["a"]) == 1  # one counted round, whatever it costs


def test_a_figure_is_the_median_of_the_ratios_and_knows_its_target():
    found = measure.figure("tiny", "slow / fast", [4.0, 9.0, 2.0], [1.0, 1.0, 1.0], least=4.0)
    assert (found.ratio, found.lowest, found.highest, found.repeats) == (4.0, 2.0, 9.0, 3)
    assert found.reached is True
    assert found.line() == "| tiny | slow / fast | 4.00 | 2.00–9.00 | ≥ 4 | yes |"
    assert measure.figure("tiny", "x", [1.2], [1.0], most=1.1).reached is False
    assert measure.figure("tiny", "x", [2.0], [1.0], factor=3.0).ratio == 6.0
    assert measure.figure("tiny", "x", [2.0], [1.0]).reached is None


def test_what_a_figure_belongs_to_is_told(monkeypatch, tmp_path):
    told = tmp_path / "cpuinfo"
    told.write_text("model name\t: Some Chip\ncpu family\t: 6\nmodel\t\t: 7\nflags\t\t:\n\n")
    monkeypatch.setattr(measure, "CPUINFO", told)
    assert "on Some Chip (family 6, model 7), " in measure.measured_on()
    monkeypatch.setattr(measure, "CPUINFO", tmp_path / "there-is-none")
    assert measure.measured_on().startswith("Measured on ")


def test_growth_is_a_share_of_the_first_point_per_unit(tmp_path):
    points = [(10.0, 2.0), (20.0, 3.0), (40.0, 5.0)]
    assert slope(points) == pytest.approx(0.05)
    for shape in ("tiny", "vit-b-32"):
        told = {"shape": shape, "growth": {"classes": {"points": points}, "tasks": {"points": points}}}
        (tmp_path / f"growth-{shape}.json").write_text(json.dumps(told))
    plot(tmp_path)
    with Image.open(tmp_path / "growth.png") as picture:
        assert picture.width > 400


def test_one_section_of_the_bench_prints_and_keeps_its_figures(monkeypatch, tmp_path, capsys):
    wanted = ["--shapes", "tiny", "--only", "flatness", "--budget", "0.1", "--output", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["bench", *wanted])
    monkeypatch.setattr(measure, "BUDGET", measure.BUDGET)  # the option changes it
    assert bench.main() == 0
    assert "50 learned tasks / 1" in capsys.readouterr().out
    kept = json.loads((tmp_path / "tiny.json").read_text())
    assert [one["what"] for one in kept["figures"]] == [
        "image in a batch of 16, texts cached: 50 learned tasks / 1"
    ]


def test_peak_memory_is_that_of_a_process_of_its_own():
    assert measure.peak_memory("tower", "plain", "tiny", 2) > 50_000_000
