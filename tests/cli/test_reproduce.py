"""`dpw reproduce` on the command line."""

import json

from dpw import analysis
from dpw.cli.reproduce import on_screen
from dpw.runs.reproduce import Reproduction
from tests.helpers.command_line import dpw
from tests.helpers.finished_runs import finished

MINI = ("--benchmark", "mini")


def test_the_plan_says_which_runs_how_many_steps_and_how_long(tmp_path, capsys):
    code, out, err = dpw(capsys, "reproduce", "heads", *MINI, "--plan", "--output", tmp_path)
    assert code == 0, err
    assert out.count("missing") == 4
    assert "to do: about" in out
    assert list(tmp_path.iterdir()) == []


def test_finished_runs_become_a_table_beside_the_printed_one(tmp_path, capsys):
    names = ("heads-x0.5", "heads-x1", "heads-x2")
    folders = [f"dpw-ablation-{name}-seed1" for name in names] + ["dpw-default-seed1"]
    for folder in folders:
        finished(tmp_path / "mini" / folder, seconds={"learn": 1.0, "measure": 2.0})
    code, out, err = dpw(capsys, "reproduce", "heads", *MINI, "--output", tmp_path, "--json")
    assert code == 0, err
    header, *rows = json.loads(out)["heads"]
    assert [row[0] for row in rows] == ["dpw heads-x0.5", "dpw heads-x1", "dpw heads-x2", "dpw"]
    assert rows[-1][header.index("last printed")] == "88.3"
    assert rows[-1][header.index("last difference")] == "-"  # another benchmark
    assert "| dpw heads-x1 |" in (tmp_path / "heads.md").read_text()
    assert (tmp_path / "heads.csv").read_text().startswith("row,benchmark")


def test_a_table_fits_the_terminal_and_leaves_out_what_is_empty():
    header = ["row", "benchmark", "protocol", "seeds", "last found", "last printed", "last difference"]
    rows = [
        header,
        ["dpw", "mini", "coop", "3", "71.2", "85.9", "-"],
        ["diki", "mini", "coop", "3", *"-" * 3],
    ]
    assert on_screen(rows, None) == [
        "row   benchmark  protocol  seeds  last found  last printed",
        "dpw   mini       coop          3        71.2          85.9",
        "diki  mini       coop          3           -             -",
    ]
    assert on_screen(rows, 40) == [
        "row   benchmark  protocol  seeds",
        "dpw   mini       coop          3",
        "diki  mini       coop          3",
        "",
        "row   last found  last printed",
        "dpw         71.2          85.9",
        "diki           -             -",
    ]


def test_mistakes_are_one_sentence(tmp_path, capsys):
    code, _, err = dpw(capsys, "reproduce", "tab9", "--output", tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = dpw(capsys, "reproduce", "heads", "--benchmark", "mtil", "--output", tmp_path)
    assert code == 2
    assert "only mini can stand in" in err
    code, _, err = dpw(capsys, "reproduce", "heads", *MINI, "--seeds", "-1", "--output", tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "--seeds -1 has a number below 0" in err


def test_figures_are_drawn_from_the_runs_of_their_table(tmp_path, capsys, monkeypatch):
    """That of prefix lengths from all lengths, the others from the method with what the paper compares."""
    drawn = []
    monkeypatch.setattr(
        analysis, "make_figures", lambda run, _, beside, only: drawn.append((run, beside, only))
    )
    for table in ("prefix-length", "figures"):
        for run in Reproduction(table, tmp_path, mini=True).runs():
            finished(run.folder, seconds={"learn": 1.0, "measure": 2.0})
        code, _, err = dpw(capsys, "reproduce", table, *MINI, "--output", tmp_path)
        assert code == 0, err
    (first, beside, only), (own, others, rest) = drawn
    assert (first.name, len(beside), only) == (
        "dpw-reduced-ablation-prefix-x0.5-seed1",
        7,
        ("prefix-lengths",),
    )
    assert [folder.name for folder in (own, *others)] == [
        *("dpw-default-seed1", "diki-default-seed1", "dpw-ablation-weight-uniform-seed1")
    ]
    assert "cosines" in rest
    assert not {"prefix-lengths", "token-plane-umap"} & set(rest)
