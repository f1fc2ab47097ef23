"""`dpw clip` on the command line."""

import json

import pytest

from dpw.clip.overview import SelfCheck
from tests.helpers.command_line import dpw
from tests.helpers.families import save_family


def test_it_shows_the_embedded_clip(capsys, no_network):
    code, out, _ = dpw(capsys, "clip", "mini")
    assert code == 0
    assert out.startswith("family      CLIP (CLIPModel), mini\n")
    assert "36 patches and [CLS]" in out
    assert "softmax of" in out
    assert out.rstrip().split("\n")[-1].startswith("self-check")
    assert "passed" in out


@pytest.mark.parametrize("family", ["siglip", "altclip"])
def test_it_shows_other_families(capsys, tmp_path, family):
    folder = save_family(tmp_path / "model", family)
    code, out, _ = dpw(capsys, "clip", folder, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["family"] == family
    assert told["self_check"]["passed"]
    code, out, _ = dpw(capsys, "clip", folder, "--no-check")
    assert code == 0
    assert "self-check" not in out
    assert ("sigmoid of" in out) == (family == "siglip")
    assert ("the mean patch" in out) == (family == "siglip")


def test_features_that_differ_are_exit_code_one(capsys, monkeypatch):
    monkeypatch.setattr("dpw.clip.overview.self_check", lambda _: SelfCheck(0.5, 0.0, 1.0))
    code, out, _ = dpw(capsys, "clip", "mini")
    assert code == 1
    assert "FAILED" in out


def test_what_is_no_clip_is_one_sentence(capsys, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
    for given in (tmp_path, tmp_path / "nowhere"):
        code, out, err = dpw(capsys, "clip", given)
        assert code == 2
        assert out == ""
        assert err.count("\n") == 1
