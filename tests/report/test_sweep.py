"""The picture of a sweep."""

from PIL import Image

from dpw.report.sweep import draw_scores


def test_every_point_is_drawn(tmp_path):
    methods = ("dpw", "diki")
    rows = [{"method": methods[n % 2], "tasks": 3 - (n > 4), "score": 80.0 - n} for n in range(8)]
    rows.append({"method": "dpw", "tasks": 0, "score": None})
    with Image.open(draw_scores(rows, tmp_path / "sweep.png")) as picture:
        assert picture.size[0] > 500
