"""Which points a sweep has, how one is judged, and what is wrong in a description."""

import json

import pytest
import yaml

from dpw.cluster.sweep import Point, SweepSpec, cost, points_of, read_spec, table, write_table
from dpw.errors import InputError
from dpw.runs.estimate import Measured

SMALL = {"method": "rail"}


def spec(toy, **changes):
    """A sweep over the toy benchmark."""
    where = {"benchmark": str(toy / "toy.yaml"), "model": str(toy / "clip"), "methods": ["rail"]}
    values = {"settings": {"width": [20, 40], "penalty": [0.1, 1.0]}, "seeds": [0, 1]}
    return SweepSpec(**(where | values | changes))


def test_a_grid_has_every_combination_once(toy):
    found = points_of(spec(toy))
    assert len(found) == 8
    assert len({json.dumps(one.model_dump(mode="json")) for one in found}) == 8


def test_random_points_depend_on_the_seed_alone(toy):
    drawn = {"width": [20, 40], "penalty": {"low": 0.01, "high": 10, "log": True}}
    wanted = {"search": "random", "points": 5, "settings": drawn}
    first, again, other = (points_of(spec(toy, seed=seed, **wanted)) for seed in (3, 3, 4))
    assert first == again != other and len(first) == 5
    assert all(0.01 <= one.settings["penalty"] <= 10 for one in first)


def test_a_point_is_judged_after_every_task_on_validation_images(toy, tmp_path, monkeypatch):
    seen = []
    found = points_of(spec(toy))
    Point(found[0], tmp_path, 0).learn(seen.append)
    assert [one["tasks"] for one in seen] == [1, 2, 3]
    again = []
    monkeypatch.setattr("dpw.engine.evaluation.Evaluator.row", None)  # nothing is measured twice
    Point(found[0], tmp_path, 0).learn(again.append)
    assert again == seen
    with pytest.raises(InputError, match="another sweep"):
        Point(found[1], tmp_path, 0).scores()


def test_the_best_of_those_that_learned_most_is_first(toy, tmp_path):
    wanted, folder = spec(toy, seeds=[0]), tmp_path
    for number, scores in enumerate([[50.0, 60.0], [90.0], [40.0, 70.0]]):
        Point(points_of(wanted)[number], folder, number)._keep(scores)
    rows = table(wanted, folder)
    assert [row["point"] for row in rows] == [2, 0, 1, 3]
    lines = write_table(rows, folder).read_text().splitlines()
    assert lines[0].startswith("point,method") and len(lines) == 5


def test_tasks_without_validation_images_are_refused(toy, tmp_path):
    text = yaml.safe_load((toy / "toy.yaml").read_text())
    text["tasks"] = [{"folder": str(toy / "data" / "birds" / "train"), "name": "birds", "val": 0}]
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(text))
    with pytest.raises(InputError):
        Point(points_of(spec(toy, benchmark=str(tmp_path / "b.yaml")))[0], tmp_path, 0).learn(print)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[1, 2]", "mapping with the description of a sweep"),
        ("benchmark: [", "not valid YAML"),
        ("benchmark: mini\nmethod: dpw", "method"),
        ("methods: [dpw]", "benchmark"),
    ],
)
def test_a_wrong_description_is_one_sentence(tmp_path, content, sentence):
    (tmp_path / "s.yaml").write_text(content)
    with pytest.raises(InputError, match=sentence) as raised:
        read_spec(tmp_path / "s.yaml")
    assert "\n" not in str(raised.value)


def test_wrong_points_are_found_before_anything_runs(toy, tmp_path):
    with pytest.raises(InputError, match="nonsense"):
        points_of(spec(toy, settings={"nonsense": [1]}))
    with pytest.raises(InputError, match="is a range"):
        points_of(spec(toy, settings={"penalty": {"low": 1, "high": 2}}))
    with pytest.raises(InputError, match="which CLIP"):
        points_of(spec(toy, model=None))
    with pytest.raises(InputError, match="there is no file"):
        read_spec(tmp_path / "nowhere.yaml")


def test_a_plan_says_what_every_point_costs(toy):
    found = cost(spec(toy, seeds=[0], settings={"width": [20]}))
    assert [one["point"] for one in found] == [0] and found[0]["seconds"] > 0


def test_a_plan_measures_again_what_makes_steps_longer(toy, monkeypatch):
    measured = []

    def measure(name, config, backbone, classes):
        measured.append(config.width)
        return Measured(0.0, float(config.width), None)

    monkeypatch.setattr("dpw.cluster.sweep.measure", measure)
    found = cost(spec(toy, seeds=[0], settings={"width": [20, 40], "penalty": [0.1, 1.0]}))
    assert measured == [20, 40]
    assert found[2]["seconds"] == 2 * found[0]["seconds"] > 0
