"""Wrong types and values given to public functions are one sentence, whatever they are."""

import contextlib
import inspect
from pathlib import Path

import numpy as np
import pytest

import dpw
from dpw.data.task import Split
from dpw.errors import InputError, a_number, a_whole_number, some_texts
from tests.helpers.toy_learner import fresh, task

ODD = [None, True, -1, 1.5, float("nan"), 10**30, "", "nowhere", "\0", b"x", [], [None], ["a", 1], {}, {1: 2}]
ODD += [object(), int, len, np.zeros(3), [[]], range(3), Ellipsis, "\x1b[31m"]


def attack(function, good, skip=()):
    """Call with every argument in turn replaced by every odd thing; only sentences may come of it."""
    for name in inspect.signature(function).parameters:
        for value in ODD if name not in skip else []:
            try:
                function(**{**good, name: value})
            except dpw.DpwError as error:
                assert "\n" not in str(error), (name, value)


def test_tasks_and_benchmarks(toy, tmp_path):
    signs, table = toy / "data" / "signs", tmp_path / "t.csv"
    table.write_text("path,label\ndata/signs/train/stop/0.png,stop\ndata/signs/train/yield/0.png,yield\n")
    attack(dpw.Task.from_folder, {"path": signs})
    attack(dpw.Task.for_testing, {"path": signs})
    attack(dpw.Task.from_table, {"path": table, "root": toy})
    given = dpw.Task.from_folder(signs)
    attack(dpw.Task, {"name": "a", "classes": given.classes, "templates": ["a {}"], "train": given.train})
    attack(dpw.load_benchmark, {"name_or_yaml": toy / "toy.yaml", "order": ["signs"]})
    for shots in ODD:
        with contextlib.suppress(dpw.DpwError):
            assert dpw.load_benchmark(toy / "toy.yaml", shots=shots).tasks[0]
    attack(Split.from_files, {"paths": ["a"], "labels": [0]})
    attack(Split.from_arrays, {"images": np.zeros((1, 2, 2), np.uint8), "labels": [0], "name": "x"})


def test_models(toy, saved, tmp_path, picture, monkeypatch):
    monkeypatch.chdir(tmp_path)
    attack(dpw.ContinualCLIP.from_pretrained, {"source": toy / "clip", "method": "dpw"}, skip=("source",))
    learner = saved[0]
    attack(learner.forget, {"name": "nothing"})
    attack(learner.predict, {"images": picture})
    attack(learner.evaluate, {"tasks": [task(toy, "birds")]}, skip=("accelerator",))
    attack(learner.evaluate_folder, {"folder": toy / "data" / "birds" / "test"})
    attack(learner.embed_images, {"images": picture})
    attack(learner.embed_texts, {"texts": "a cat"})
    attack(learner.save_pretrained, {"folder": tmp_path / "m"}, skip=())
    attack(learner.to, {"device": "cpu"})


def test_learning(toy, monkeypatch):
    model = fresh(toy)
    model.learn(task(toy, "birds"))
    again = {"task": task(toy, "birds")}  # learned already: what is wrong is said before any training
    attack(model.learn, again, skip=("accelerator", "again", "callback", "checkpoint"))


def test_runs(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = {"benchmark": toy / "toy.yaml", "output": tmp_path / "r", "model": toy / "clip"}
    attack(dpw.run_benchmark, good | {"method": "nothing"}, skip=("method",))


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (a_whole_number, True),
        (a_whole_number, 1.0),
        (a_number, float("nan")),
        (a_number, "1"),
        (some_texts, "abc"),
        (some_texts, {"a"}),
    ],
)
def test_what_is_refused(check, value):
    with pytest.raises(InputError, match=r"^it is .*; give "):
        check(value, "it")


def test_what_is_taken():
    assert (a_whole_number(np.int64(3), "it"), a_number(np.float32(0.5), "it")) == (3, 0.5)
    assert some_texts((name for name in "ab"), "it") == some_texts(np.array(["a", "b"]), "it") == ("a", "b")
    assert isinstance(dpw.errors.a_path("x", "it"), Path)
