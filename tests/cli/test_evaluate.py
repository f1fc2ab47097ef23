"""`dpw evaluate` as text, JSON, CSV and a page."""

import csv
import json

from tests.helpers.command_line import dpw


def test_text_json_table_and_page_say_the_same(capsys, saved, toy, tmp_path):
    model, folder = saved
    birds = toy / "data" / "birds"
    score = model.evaluate_folder(birds)
    code, out, err = dpw(
        capsys, "evaluate", folder, birds, "--csv", tmp_path / "t.csv", "--html", tmp_path / "p.html"
    )
    assert code == 0
    assert str(tmp_path / "t.csv") in err
    assert str(tmp_path / "p_files") in err
    assert f"{score.overall.accuracy:.1f}" in out.splitlines()[1]
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == [image.image for image in score.images]
    assert "reliability" in (tmp_path / "p.html").read_text()
    code, out, _ = dpw(capsys, "evaluate", folder, birds, "--json", "--strangers", toy / "data" / "signs")
    found = json.loads(out)
    assert found["overall"]["accuracy"] == score.overall.accuracy
    assert 0 <= found["rejection"]["auroc"] <= 100
    assert found["confusion"]["counts"] == [list(row) for row in score.confusion.counts]


def test_evaluate_and_predict_agree_on_every_image(capsys, saved, toy, tmp_path):
    birds = toy / "data" / "birds" / "test"
    dpw(capsys, "evaluate", saved[1], birds, "--csv", tmp_path / "e.csv")
    dpw(capsys, "predict", saved[1], birds, "--csv", tmp_path / "p.csv", "--top", "5")
    both = []
    for name in ("e.csv", "p.csv"):
        with (tmp_path / name).open(newline="") as file:
            both.append(
                [(row["probability"], row["task"], row["typicality"]) for row in csv.DictReader(file)]
            )
    assert both[0] == both[1]
    assert len(both[0]) == 12


def test_mistakes_and_bad_images_have_exit_code_2(capsys, saved, toy, tmp_path):
    code, _, err = dpw(capsys, "evaluate", saved[1], toy / "data" / "signs")
    assert code == 2
    assert "a class 'stop' that cannot be answered" in err
    assert dpw(capsys, "evaluate", saved[1], toy / "data" / "signs", "--classes", "stop,yield,zebra")[0] == 0
    code, _, err = dpw(capsys, "evaluate", saved[1], toy / "data" / "birds", "--html", tmp_path / "p.pdf")
    assert code == 2
    assert "does not end in .html" in err
    (tmp_path / "crow").mkdir()
    (tmp_path / "crow" / "bad.png").write_text("words")
    (tmp_path / "crow" / "good.png").write_bytes((toy / "data/birds/test/crow/0.png").read_bytes())
    code, out, err = dpw(capsys, "evaluate", saved[1], tmp_path)
    assert code == 2
    assert "crow" in out
    assert "bad.png is not an image" in err
