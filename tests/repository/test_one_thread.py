"""A command of dpw in a process of its own."""

from tests.helpers.tools import tool


def test_what_went_wrong_is_given_back_and_otherwise_nothing():
    run_dpw = tool("one_thread").run_dpw
    assert run_dpw(["methods"]) == ""
    assert "no method is called 'nothing'" in run_dpw(["methods", "nothing"])
