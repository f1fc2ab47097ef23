"""A checkpoint goes on with its own training only, and with values that such a training leaves behind."""

import json
import math
from pathlib import Path

import pytest

from dpw.errors import DamagedFileError, InputError, Interrupted
from dpw.storage import files
from dpw.storage.checkpoint import FILE, PLAN_FILE, TrainingCheckpoint, refuse_differences
from dpw.storage.lock import writing
from tests.helpers.toy_learner import fresh, task

CLIP = {"image_mean": [0.48, 0.46, 0.41], "size": {"shortest_edge": 224}}


def test_of_a_group_of_settings_only_what_differs_is_named():
    other = {"CLIP settings": {**CLIP, "size": {"shortest_edge": 336}}, "task": "birds"}
    with pytest.raises(InputError) as caught:
        refuse_differences(Path("x.json"), {"CLIP settings": CLIP, "task": "birds"}, other)
    found = str(caught.value)
    assert "(CLIP settings.size.shortest_edge: was 224, now 336)" in found
    assert "image_mean" not in found


def test_long_values_are_cut_and_equal_ones_pass():
    refuse_differences(Path("x.json"), {"clip": CLIP}, {"clip": CLIP})
    with pytest.raises(InputError, match=r"classes: was 'a{59}\.\.\., now None"):
        refuse_differences(Path("x.json"), {"classes": "a" * 5000}, {})


@pytest.fixture
def interrupted(toy, tmp_path):
    """The checkpoint of a training that was stopped after some steps, and the command's way to go on."""
    folder = tmp_path / "learning"

    def learn(stop_after=10**6):
        steps = iter(range(10**6))
        model = fresh(toy, **{"training.optimizer": "adam"})
        model.learn(task(toy, "birds"), checkpoint=folder, should_stop=lambda: next(steps) >= stop_after)

    with pytest.raises(Interrupted):
        learn(stop_after=2)
    return folder, learn


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("position", "batch"), None),
        (("position", "step"), {}),
        (("position", "step"), 10**30),
        (("position", "epoch"), -1),
        (("position", "validation"), ["x"]),
        (("position",), None),
        (("tensors",), []),
        (("tensors", "now"), "x"),
        (("log_bytes",), "x"),
        (("log_bytes",), -1),
    ],
)
def test_a_state_with_a_right_checksum_and_wrong_values_is_refused(interrupted, where, value):
    folder, learn = interrupted
    content = json.loads((folder / FILE).read_text())
    inner = content
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    files.write_json(folder / FILE, content)
    with pytest.raises(DamagedFileError, match=FILE):
        learn()
    TrainingCheckpoint(folder, {}).clear()
    assert not (folder / FILE).exists()


@pytest.mark.parametrize("change", ["shape", "missing", "number", "name"])
def test_tensors_that_do_not_fit_the_training_are_refused(interrupted, change):
    folder, learn = interrupted
    content = json.loads((folder / FILE).read_text())
    tensors = files.read_tensors(folder, content["tensors"]["now"])
    of_optimizer = next(name for name in tensors if name.startswith("optimizer/") and tensors[name].ndim)
    if change == "shape":
        tensors[of_optimizer] = tensors[of_optimizer].flatten()[:1]
    elif change == "number":
        tensors["optimizer/999.exp_avg"] = tensors.pop(of_optimizer)
    elif change == "name":
        tensors["optimizer/x"] = tensors.pop(of_optimizer)
    else:
        tensors["method/nothing"] = tensors.pop(next(name for name in tensors if name.startswith("method/")))
    with writing(folder):
        content["tensors"]["now"] = files.write_tensors(folder, "now", tensors)
        files.commit(folder / FILE, content, [content["tensors"]["now"]], [])
    with pytest.raises(DamagedFileError, match="does not fit the training"):
        learn()


@pytest.mark.parametrize(
    "content",
    [
        {"identity": None, "plan": {}},
        {"identity": {}, "plan": None},
        {"identity": {}, "plan": {"learning_rate": 0.1, "steps": 2, "batch_size": 2, "tried": {"a": 1}}},
        {"identity": {}, "plan": {"learning_rate": math.nan, "steps": 2, "batch_size": 2, "tried": []}},
    ],
)
def test_a_plan_with_a_right_checksum_and_wrong_values_is_refused(tmp_path, content):
    files.write_json(tmp_path / PLAN_FILE, {"format": 1, "kind": "dpw-plan", **content})
    with pytest.raises(DamagedFileError, match=PLAN_FILE):
        TrainingCheckpoint(tmp_path, {}).read_plan()
