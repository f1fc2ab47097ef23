"""Every public function and class shows an example in its docstring, and the example gives what it says."""

import doctest
import inspect

import pytest

import dpw
from dpw import benchmarks, clip, functional
from dpw.data.task import Split
from dpw.engine.invariance import BatchInvariance
from dpw.engine.predictor import Predictor
from dpw.serving.app import make_app
from dpw.serving.metrics import Metrics
from dpw.serving.served import load_served

MORE = {
    "benchmarks.get_benchmark": benchmarks.get_benchmark,
    "benchmarks.list_benchmarks": benchmarks.list_benchmarks,
    "benchmarks.load_benchmark": benchmarks.load_benchmark,
    "clip.embedded_name": clip.embedded_name,
    "data.task.Split": Split,
    "engine.invariance.BatchInvariance": BatchInvariance,
    "engine.predictor.Predictor": Predictor,
    "serving.app.make_app": make_app,
    "serving.metrics.Metrics": Metrics,
    "serving.served.load_served": load_served,
}


def public_objects() -> dict[str, object]:
    """Classes and functions of the public face by name; exceptions need no example."""
    named = {name: getattr(dpw, name) for name in dpw.__all__} | MORE
    return {
        name: value
        for name, value in named.items()
        if callable(value) and not (inspect.isclass(value) and issubclass(value, Exception))
    }


PUBLIC = public_objects()


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_in_docstrings_give_what_they_say(name, tmp_path, monkeypatch, short_learning):
    monkeypatch.chdir(tmp_path)
    found = doctest.DocTestFinder(exclude_empty=True).find(PUBLIC[name], name, globs={})
    examples = [test for test in found if test.examples]
    assert examples, f"{name} has no example in its docstring"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    for test in examples:
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_the_examples_of_the_equations_give_what_they_say():
    found = doctest.testmod(functional)
    assert found.failed == 0
    assert found.attempted > 40


def test_the_methods_that_make_a_task_or_a_backbone_have_examples():
    for method in (
        dpw.Task.from_folder,
        dpw.Task.from_table,
        dpw.Task.from_dataset,
        dpw.Backbone.from_pretrained,
        dpw.Backbone.encode_images,
        dpw.Backbone.encode_texts,
    ):
        assert ">>>" in inspect.getdoc(method), f"{method.__qualname__} has no example"
