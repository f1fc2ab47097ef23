"""`make ablations`: what the runs found becomes tables on a page, judged against the paper's differences."""

import pytest

from dpw.runs.paper_tables import TABLES
from dpw.runs.reproduce import PlannedRun, Reproduction
from tests.helpers.finished_runs import finished
from tests.helpers.tools import tool

ablations = tool("ablations")


@pytest.mark.parametrize(
    ("differences", "printed", "said"),
    [
        ([-1.0, -1.2, -0.9], -0.4, "as printed"),
        ([1.0, 1.2, 0.9], -0.4, "opposite"),
        ([-1.0, 1.2, -0.9], -0.4, "unclear"),
        ([-1.0], -0.4, "-"),
        ([-1.0, -1.1], None, "-"),
    ],
)
def test_a_difference_counts_if_it_is_larger_than_its_own_noise(differences, printed, said):
    assert ablations.verdict(differences, printed) == said


def test_a_page_from_finished_runs(tmp_path):
    """Two seeds of the whole method and of the one without RWM, which the paper prints 0.4 lower in Last."""
    plan = Reproduction("ablations", tmp_path / "runs", seeds=(1, 2), mini=True)
    lines = {line.label: line for line in TABLES["ablations"].lines}
    for label, values in (("dpw", (80.0, 82.0)), ("dpw no-rwm", (78.0, 79.8))):
        for seed, last in zip((1, 2), values, strict=True):
            run = PlannedRun(plan, lines[label], seed)
            finished(
                run.folder, benchmark="mini", preset=lines[label].preset, seed=seed, metrics={"last": last}
            )
    page = tmp_path / "page.md"
    page.write_text("\n".join(tool("made_section").marks("ablations")))
    where = ["--runs", str(tmp_path / "runs"), "--page", str(page)]
    ablations.main([*where, "--tables", "ablations,cutoff", "--seeds", "1,2", "--jobs", "0"])
    text = page.read_text()
    assert "| dpw no-rwm | 2 | 50.0 ± 0.0 | 50.0 ± 0.0 | 78.9 ± 1.3 |" in text
    assert "| -2.1 (-0.4): as printed |" in text
    assert "| dpw repa | 0 | - | - | - | - | - | - |" in text
    assert "| dpw | 2 | 50.0 ± 0.0 | 50.0 ± 0.0 | 81.0 ± 1.4 |  |  |  |" in text
    assert "can be judged, each counted once: 3; 1 as printed, 0 opposite, 2 unclear." in text
    ablations.main([*where, "--tables", "ablations,adapter-weight", "--seeds", "1,2", "--jobs", "0"])
    assert page.read_text().count("| dpw no-rwm | 2 |") == 2
    assert "each counted once: 3; 1 as printed" in page.read_text()
