"""Training shows a bar in a notebook and nothing anywhere else."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from dpw.engine.progress import NotebookCallback, usual_callback


class Display:
    """IPython's display module, as far as it is used; keeps what it is shown."""

    def __init__(self):
        self.shown = []

    HTML = staticmethod(str)

    def display(self, content, display_id):
        assert display_id
        self.shown.append(content)
        return SimpleNamespace(update=self.shown.append)


@pytest.fixture
def notebook(monkeypatch):
    """A process that looks like the kernel of a notebook."""
    ipython, display = ModuleType("IPython"), Display()
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return display


def test_outside_a_notebook_nobody_hears(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not isinstance(usual_callback(), NotebookCallback)
    terminal = ModuleType("IPython")
    terminal.get_ipython = lambda: SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert not isinstance(usual_callback(), NotebookCallback)


def test_in_a_notebook_a_bar_moves(notebook):
    callback = usual_callback()
    callback.on_begin("birds <3", 10, 2)
    for step in range(3, 11):
        callback.on_step("birds <3", 0, 1, step, 0.25)
    callback.on_validation("birds <3", 0, 0.5)
    callback.on_end("birds <3")
    first, *_, before, last = notebook.shown
    assert len(notebook.shown) <= 5, "it is drawn a few times a second, not at every step"
    assert "birds &lt;3" in first
    assert 'value="2" max="10"' in first
    assert "epoch 1/1 · step 10/10 · loss 0.250" in before
    assert "learned in 0 s · validation 50.0 %" in last


def test_a_notebook_needs_no_argument_to_see_it(notebook, toy):
    from tests.helpers.toy_learner import fresh, task

    fresh(toy).learn(task(toy, "metals"))
    assert "learned in" in notebook.shown[-1]
