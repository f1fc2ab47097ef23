"""Numbers for Prometheus, of one process and of several."""

from dpw.serving.metrics import Metrics, make_shared


def test_histograms_are_cumulative():
    metrics = Metrics()
    for value in (1, 3, 64, 500):
        metrics.observe("dpw_batch_images", value)
    lines = metrics.text().splitlines()
    assert 'dpw_batch_images_bucket{le="2"} 1' in lines
    assert 'dpw_batch_images_bucket{le="64"} 3' in lines
    assert 'dpw_batch_images_bucket{le="+Inf"} 4' in lines
    assert "dpw_batch_images_sum 568" in lines
    assert all(line.startswith("#") or len(line.split()) == 2 for line in lines)


def test_processes_are_summed_and_a_restarted_one_begins_anew(tmp_path):
    make_shared(tmp_path / "numbers", 2)
    first, second = (Metrics(tmp_path / "numbers", process, 2) for process in range(2))
    first.status(200)
    second.status(200)
    second.status(418)
    first.set("dpw_tasks", 3)
    assert 'dpw_requests_total{status="200"} 2' in first.text()
    assert 'dpw_requests_total{status="500"} 1' in first.text()
    assert "dpw_tasks 3" in second.text()
    Metrics(tmp_path / "numbers", 1, 2)
    assert 'dpw_requests_total{status="200"} 1' in first.text()
