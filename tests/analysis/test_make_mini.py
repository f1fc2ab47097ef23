"""Report, figures and explanation of the benchmark `mini`, from training to pictures."""

import pytest

from dpw.analysis import explain, make_figures
from dpw.benchmarks.mini import tasks
from dpw.clip.pretrained import EMBEDDED
from dpw.learner import ContinualCLIP
from dpw.report import write_report
from dpw.runs.config import RunConfig
from dpw.runs.run import start_run
from tests.helpers.report_reader import read_report
from tests.helpers.tiny_clip import save_tiny

pytest.importorskip("sklearn")

ORDER = ("flags", "portraits", "digits")  # some of its tasks, for time
QUICK = {"training.iterations": 2, "prefix_length": 2}


def test_all_of_it_runs_on_mini(tmp_path, few_of_mini):
    model = "mini" if EMBEDDED["mini"].is_dir() else str(save_tiny(tmp_path / "clip"))
    for method in ("dpw", "diki"):
        config = RunConfig(benchmark="mini", model=model, method=method, order=ORDER, settings=QUICK)
        start_run(config, tmp_path / "runs" / method)
    page = read_report(write_report([tmp_path / "runs"], tmp_path / "report.html"))
    assert len(page.figures) == 8
    run, beside = tmp_path / "runs" / "dpw", [tmp_path / "runs" / "diki"]
    assert len(make_figures(run, tmp_path / "figures", beside=beside, images=4)) == 9
    tasks(0)[1].test[0].image.save(tmp_path / "flag.png")
    found = explain(ContinualCLIP.from_pretrained(run / "model"), tmp_path / "flag.png")
    assert len(found.tasks) == len(ORDER)
    assert found.tokens is not None
