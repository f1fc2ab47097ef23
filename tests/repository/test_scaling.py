"""What the pages about clusters say of methods is true of the methods there are."""

import re
from pathlib import Path

from tools import scaling

from dpw.methods import METHODS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_cluster_page_names_all_isolated_methods():
    said = re.search(r"every task for itself \(([^;]*);", (DOCS / "cluster.md").read_text())
    own = {name for name, kind in METHODS.items() if kind.isolated and kind.__module__.startswith("dpw.")}
    assert set(re.findall("`(.*?)`", said[1])) == own


def test_the_simulated_table_is_that_of_the_tool(capsys):
    scaling.table()
    page, lines = (DOCS / "scaling.md").read_text(), capsys.readouterr().out.splitlines()
    for workers in (1, 8, 64, 512):
        days = [
            text
            for line in lines
            if f" {workers} workers" in line
            for text in re.findall(r"(\d+\.\d+) \(", line)
        ]
        row = next(line for line in page.splitlines() if line.startswith(f"| {workers} |"))
        shown = [float(text) for text in re.findall(r"([\d.]+) \(", row)]
        assert len(shown) == 6 and all(abs(a - float(b)) <= 0.5 for a, b in zip(shown, days, strict=True)), (
            row
        )
