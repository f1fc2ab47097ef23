"""`dpw run mini` and `dpw learn --model mini` need no data and no network."""

import json

import pytest

from tests.helpers.checks import nonempty
from tests.helpers.command_line import dpw


@pytest.mark.usefixtures("no_network")
def test_mini_runs_offline(capsys, tmp_path):
    command = [
        "run",
        "mini",
        "--method",
        "zero-shot",
        "--order",
        "materials,digits",
        "--output",
        tmp_path / "run",
    ]
    code, out, err = dpw(capsys, *command, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["model"] == "mini"
    assert all(accuracy > 20 for accuracy in nonempty(result["zero_shot"]))


@pytest.mark.usefixtures("no_network")
def test_a_folder_of_images_is_learned_on_mini(capsys, toy, tmp_path, short_learning):
    birds = toy / "data" / "birds"
    code, out, err = dpw(capsys, "learn", birds, "--into", tmp_path / "m", "--model", "mini")
    assert code == 0, err
    assert "now knows: birds" in out
    code, out, _ = dpw(capsys, "predict", tmp_path / "m", birds / "test" / "crow" / "0.png")
    assert code == 0
