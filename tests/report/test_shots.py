"""Accuracy over images per class: what the curves say, over seeds."""

import pytest

from dpw.errors import InputError
from dpw.report.shots import draw_shots, shot_curves, write_shots
from dpw.runs.gathering import Spread


def result(method, shots, last, seed=0, transfer=50.0):
    return {
        "method": method,
        "shots": shots,
        "seed": seed,
        "metrics": {"last": last, "transfer": transfer},
    }


RESULTS = [
    result("dpw", 4, 70.0, 1),
    result("dpw", 1, 60.0, 1),
    result("dpw", 4, 72.0, 2),
    result("dpw", 1, 60.0, 2),
    result("zero-shot", 1, 57.0),
    result("zero-shot", 4, 57.0, transfer=None),
]


def test_a_curve_is_the_mean_over_seeds_by_shots():
    curves = shot_curves(RESULTS, "last")
    assert list(curves) == ["dpw", "zero-shot"]
    assert list(curves["dpw"]) == [1, 4]
    assert curves["dpw"][1] == Spread(60.0, 0.0)
    assert curves["dpw"][4].mean == 71.0
    assert curves["zero-shot"][4] == Spread(57.0)


def test_a_metric_that_a_run_does_not_have_leaves_a_gap():
    assert list(shot_curves(RESULTS, "transfer")["zero-shot"]) == [1]


def test_both_plots_name_every_method_and_every_number_of_images():
    figure = draw_shots(RESULTS)
    assert [axis.get_title() for axis in figure.axes] == ["Last", "Transfer"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["dpw", "zero-shot"]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["1", "4"]


def test_the_table_lies_beside_the_picture(tmp_path):
    assert write_shots(RESULTS, tmp_path) == tmp_path / "shots.png"
    rows = (tmp_path / "shots.csv").read_text().splitlines()
    assert rows[2] == "dpw,4,71.00,50.00,1.41,0.00"
    assert rows[-1] == "zero-shot,4,57.00,,,"


def test_files_of_others_are_not_replaced_and_own_ones_are(tmp_path):
    (tmp_path / "shots.png").write_bytes(b"a photo of a vaccination")
    with pytest.raises(InputError, match="dpw did not write it"):
        write_shots(RESULTS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["shots.png"]
    (tmp_path / "shots.png").unlink()
    for _ in range(2):
        write_shots(RESULTS, tmp_path)


def test_equal_curves_do_not_hide_each_other():
    twin = [{**one, "method": "twin"} for one in RESULTS if one["method"] == "zero-shot"]
    for axis in draw_shots([*RESULTS, *twin]).axes:
        drawn = {one.get_label(): one[0] for one in axis.containers}
        assert not drawn["dpw"].is_dashed()
        if "twin" in drawn:  # it has no Transfer
            assert drawn["twin"].is_dashed()
            assert not drawn["zero-shot"].is_dashed()
