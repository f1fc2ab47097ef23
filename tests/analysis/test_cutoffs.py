"""Fixed and dynamic cut-offs."""

import pytest

from dpw import analysis
from dpw.storage.run_folder import RunFolder


def test_the_dynamic_cutoff_on_all_images_gives_the_numbers_of_the_run(dpw_run):
    metrics = RunFolder(dpw_run).read_results()["metrics"]
    data = analysis.cutoff_comparison(analysis.open_run(dpw_run, images=1000), cutoffs=(0.0, 0.9))
    assert data.dynamic_last == pytest.approx(metrics["last"])
    assert data.dynamic_transfer == pytest.approx(metrics["transfer"])
    assert len(data.transfer) == len(data.last) == 2
