"""Options about public datasets: refused where they have no effect; the variable may stay set."""

import pytest

from tests.helpers.command_line import dpw


@pytest.mark.parametrize(
    "words",
    [
        ["run", "mini", "--data-root", "/nowhere"],
        ["run", "mini", "--rebuild-splits"],
        ["run", "mtil", "--model", "mini", "--rebuild-splits", "--protocol", "zscl"],
        ["benchmarks", "mini", "--data-root", "/nowhere"],
        ["benchmarks", "--shots", "3"],
        ["reproduce", "mtil", "--benchmark", "mini", "--plan", "--data-root", "/nowhere"],
        ["reproduce", "mtil", "--benchmark", "mini", "--plan", "--model", "elsewhere"],
    ],
    ids=" ".join,
)
def test_an_option_without_effect_is_refused(words, capsys):
    code, out, err = dpw(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "has no effect on" in err


def test_the_variable_is_passed_over_where_nothing_needs_it(monkeypatch, capsys):
    monkeypatch.setenv("DPW_DATA", "/nowhere")
    code, out, _ = dpw(capsys, "benchmarks", "mini")
    assert code == 0
    assert "signs" in out
