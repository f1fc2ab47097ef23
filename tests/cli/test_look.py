"""`dpw explain`, `dpw report` and `dpw figures` on the command line."""

import json

from tests.helpers.command_line import dpw


def test_explain_on_the_command_line(capsys, dpw_run, picture, tmp_path):
    target = tmp_path / "why.svg"
    code, out, _ = dpw(capsys, "explain", dpw_run, picture, "--output", target)
    assert code == 0
    assert "log-likelihood" in out
    assert "of the adapter of" in out
    assert "<svg" in target.read_text()
    code, out, _ = dpw(
        capsys, "explain", dpw_run / "model", picture, "--output", tmp_path / "a.png", "--json"
    )
    assert code == 0
    assert len(json.loads(out)["tasks"]) == 3


def test_report_and_figures_on_the_command_line(capsys, dpw_run, diki_run, tmp_path):
    page = tmp_path / "out" / "report.html"
    code, out, _ = dpw(capsys, "report", diki_run, "--output", page)
    assert code == 0
    assert page.exists()
    assert str(page) in out
    code, out, _ = dpw(
        capsys,
        "figures",
        dpw_run,
        diki_run,
        "--only",
        "times,weights",
        "--output",
        tmp_path / "figures",
        "--images",
        2,
        "--json",
    )
    assert code == 0
    assert [one["name"] for one in json.loads(out)] == ["times", "weights"]
    code, _, err = dpw(capsys, "figures", dpw_run, "--tasks", "birds")
    assert code == 2
    assert "must name two tasks" in err
    code, _, err = dpw(capsys, "report", tmp_path / "nothing")
    assert code == 2
    assert err.startswith("dpw: there is no folder")
