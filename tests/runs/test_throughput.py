"""What every method costs beside plain CLIP, and the paper's times beside it."""

from dpw.methods import METHODS
from dpw.runs import throughput
from dpw.runs.estimate import Measured
from dpw.runs.throughput import Cost, cost_rows, costs


def test_rows_compare_with_plain_clip_and_show_what_the_paper_prints():
    found = [
        Cost("zero-shot", Measured(0.0, 0.002, 500_000_000)),
        Cost("dpw", Measured(0.25, 0.005, 750_000_000)),
        Cost("gift", None, "no room"),
    ]
    assert cost_rows(found)[1:] == [
        ["zero-shot", "-", "2.000", "1.00", "0.50", "-"],
        ["dpw", "0.2500", "5.000", "2.50", "0.75", "3m 16s"],
        ["gift", "not measured: no room", "-", "-", "-", "-"],
    ]


def test_the_papers_rows_are_methods():
    assert set(throughput.PRINTED) < set(METHODS)


def test_a_method_is_measured_in_a_process_of_its_own(monkeypatch):
    monkeypatch.setattr(throughput, "METHODS", {"zero-shot": METHODS["zero-shot"]})
    (plain,) = costs("mini")
    assert plain.method == "zero-shot"
    assert plain.measured is not None
    assert plain.measured.step == 0
    assert plain.measured.image > 0
    assert plain.measured.memory > 0


def test_a_process_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(throughput, "METHODS", {"zero-shot": METHODS["zero-shot"]})
    (plain,) = costs("mini", load=no_room)
    assert plain == Cost("zero-shot", None, "no room for mini")


def no_room(model):
    """A CLIP that does not fit."""
    raise MemoryError(f"no room for {model}")
