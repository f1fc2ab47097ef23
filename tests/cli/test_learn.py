"""`dpw learn`, `tasks` and `forget`, and predictions of what they leave, with good and bad input."""

import json
import shutil

import pytest

from tests.helpers.command_line import dpw

SMALL = ["--set", "prefix_length=2", "--set", "adapter_rank=4", "--set", "training.epochs=1"]


@pytest.fixture(scope="module")
def taught(toy, tmp_path_factory):
    """A model that learned birds and metals from the command line."""
    from typer.testing import CliRunner

    from dpw.cli import app

    model = tmp_path_factory.mktemp("taught") / "model"
    runner = CliRunner()
    start = ["learn", str(toy / "data" / "birds"), "--into", str(model), "--model", str(toy / "clip"), *SMALL]
    first = runner.invoke(app, start)
    assert first.exit_code == 0, first.output
    second = runner.invoke(app, ["learn", str(toy / "data" / "metals"), "--into", str(model)])
    assert second.exit_code == 0, second.output
    assert "of 8 images kept apart" in second.output
    assert "now knows: birds, metals" in second.output
    return model


@pytest.mark.usefixtures("no_network")
def test_predictions_as_text_and_as_json(capsys, toy, taught):
    image = toy / "data" / "birds" / "test" / "crow" / "0.png"
    code, out, _ = dpw(capsys, "predict", taught, image)
    assert code == 0
    assert out.startswith(str(image))
    assert "task" in out
    code, out, _ = dpw(capsys, "predict", taught, image, "--json", "--top", "3")
    answer = json.loads(out)[0]
    assert set(answer) == {
        "image",
        "class",
        "probability",
        "task",
        "confidence",
        "error",
        "alternatives",
        "typicality",
    }
    assert len(answer["alternatives"]) == 2


def test_zero_shot_prediction_needs_no_learning(capsys, toy):
    image = toy / "data" / "birds" / "test" / "crow" / "0.png"
    code, out, _ = dpw(capsys, "predict", toy / "clip", image, "--classes", "cat, zebra")
    assert code == 0
    assert "cat" in out or "zebra" in out
    code, _, err = dpw(capsys, "predict", toy / "clip", image)
    assert code == 2
    assert "nothing is learned" in err


def test_bad_images_fail_the_command_but_not_the_others(capsys, toy, taught, tmp_path):
    good = toy / "data" / "birds" / "test" / "crow" / "0.png"
    code, out, err = dpw(capsys, "predict", taught, tmp_path / "absent.png", good, tmp_path)
    assert code == 2
    assert str(good) in out
    assert "absent.png does not exist" in err
    assert "is a folder" in err


def test_tasks_are_listed_exported_imported_and_forgotten(capsys, taught, tmp_path):
    code, out, _ = dpw(capsys, "tasks", taught)
    assert code == 0
    assert "birds: 3 classes (crow, robin, swan)" in out
    assert dpw(capsys, "tasks", "export", taught, "birds", tmp_path / "birds")[0] == 0
    assert "now knows: metals" in dpw(capsys, "forget", taught, "birds")[1]
    assert "imported birds" in dpw(capsys, "tasks", "import", taught, tmp_path / "birds")[1]
    listed = json.loads(dpw(capsys, "tasks", taught, "--json")[1])
    assert [task["name"] for task in listed["tasks"]] == ["metals", "birds"]


MISTAKES = [
    (["learn", "nowhere", "--into", "m", "--model", "{clip}"], "nowhere is not a folder"),
    (["learn", "{birds}", "--into", "m"], "--model mini"),
    (["learn", "{birds}", "--into", "m", "--model", "nothing"], "there is no CLIP at 'nothing': give 'mini'"),
    (["learn", "{birds}", "--into", "m", "--model", "{clip}", "--method", "magic"], "no method is called"),
    (["learn", "{birds}", "--into", "m", "--model", "{clip}", "--set", "gaet=1"], "did you mean 'gate'"),
    (["learn", "{birds}", "--into", "m", "--model", "{clip}", "--set", "gate"], "key=value"),
    (["learn", "{birds}", "--into", "m", "--model", "{clip}", "--template", "a photo"], "exactly one {}"),
    (["predict", "nowhere", "x.png"], "no model at 'nowhere': give a folder that 'dpw learn' made"),
    (["tasks", "nowhere"], "there is no folder nowhere"),
    (["forget", "nowhere", "birds"], "there is no folder nowhere"),
    (["tasks", "export", "{model}", "fish", "there"], "no task called 'fish'"),
    (["tasks", "import", "{model}", "nowhere"], "holds no exported task"),
    (["resume", "nowhere"], "there is no folder nowhere"),
    (["run", "no-benchmark", "--model", "{clip}"], "benchmark 'no-benchmark' is unknown"),
    (["run", "mtil"], "say which CLIP"),
    (["run", "mtil", "--model", "{clip}"], "data_root"),
    (["run", "{yaml}", "--model", "{clip}", "--seed", "-1"], "seed = -1"),
    (["run", "{yaml}", "--model", "{clip}", "--order", "fish"], "fish"),
    (["run", "{yaml}", "--model", "{clip}", "--track", "trackio"], "pip install 'dpw[trackio]'"),
    (["run", "{yaml}", "--model", "{clip}", "--track", "paper"], "trackers"),
]


@pytest.mark.parametrize(("command", "sentence"), MISTAKES, ids=lambda value: str(value)[:40])
def test_mistakes_are_one_sentence_and_exit_code_2(
    capsys, toy, taught, tmp_path, monkeypatch, command, sentence
):
    monkeypatch.chdir(tmp_path)
    places = {
        "clip": toy / "clip",
        "birds": toy / "data" / "birds",
        "model": taught,
        "yaml": toy / "toy.yaml",
    }
    words = [word.format(**places) if "{" in word and "{}" not in word else word for word in command]
    code, _, err = dpw(capsys, *words)
    assert code == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err


def test_of_two_who_teach_one_model_at_once_none_loses_a_task(toy, tmp_path):
    """Both succeed one after the other, or one is refused and says so."""
    import subprocess
    import sys

    model = tmp_path / "m"
    command = [sys.executable, "-m", "dpw", "learn", "--into", model, "--model", toy / "clip", *SMALL]
    both = [
        subprocess.Popen([*command, toy / "data" / name], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in ("birds", "metals")
    ]
    said = [process.communicate() for process in both]
    learned = [b"now knows" in out for out, _ in said]
    from dpw.storage.model_folder import read_model

    assert any(learned)
    assert len(read_model(model)["tasks"]) == sum(learned)
    for process, (_, err), well in zip(both, said, learned, strict=True):
        assert process.returncode == (0 if well else 2)
        assert well or b"is being written by process" in err or b"already has its settings" in err


WITHOUT_EFFECT = [
    (
        ["learn", "{birds}", "--into", "{model}", "--name", "b2", "--model", "mini"],
        "--model mini cannot change",
    ),
    (["learn", "{birds}", "--into", "new", "--model", "{clip}", "--name", ""], "name is ''"),
    (["learn", "{birds}", "--into", "new", "--model", "{clip}", "--allow-download"], "has no effect"),
    (["learn", "{birds}", "--into", "new", "--model", "{clip}", "--set", "prefix_length=99"], "at most"),
    (["predict", "{model}", "x.png", "--template", "a {}"], "--template has no effect"),
    (["run", "{yaml}", "--model", "{clip}", "--seed", "1", "--seeds", "1,2"], "--seed 1 has no effect"),
    (["run", "{yaml}", "--model", "{clip}", "--method", "dpw,dpw"], "something twice"),
    (["run", "{yaml}", "--model", "{clip}", "--method", ""], "names nothing"),
    (
        ["run", "{yaml}", "--model", "{clip}", "--method", "finetune", "--jobs", "2"],
        "no effect on a single run of finetune",
    ),
    (["run", "{yaml}", "--model", "{clip}", "--seeds", "1,x"], "no list of whole numbers"),
    (["run", "{yaml}", "--model", "{clip}", "--seeds", "1,1"], "names a number twice"),
    (["run", "{yaml}", "--model", "{clip}", "--shots", "2,two"], "no list of whole numbers"),
    (["data", "check", "{yaml}", "--subset"], "--subset has no effect"),
]


@pytest.mark.parametrize(("command", "sentence"), WITHOUT_EFFECT, ids=lambda value: str(value)[:40])
def test_an_option_without_effect_is_refused(capsys, toy, taught, tmp_path, monkeypatch, command, sentence):
    test_mistakes_are_one_sentence_and_exit_code_2(
        capsys, toy, taught, tmp_path, monkeypatch, command, sentence
    )


@pytest.mark.parametrize("seconds", ["nan", "-1"])
def test_times_that_are_none_are_refused(capsys, toy, tmp_path, seconds):
    words = ["learn", toy / "data" / "birds", "--into", tmp_path / "m", "--model", toy / "clip"]
    code, _, err = dpw(capsys, *words, "--checkpoint-seconds", seconds)
    assert code == 2
    assert "is no time" in err


def test_a_folder_of_tasks_is_noticed(capsys, toy, tmp_path):
    for name in ("birds", "metals"):
        shutil.copytree(toy / "data" / name / "train", tmp_path / "photos" / name)
    start = ["--into", tmp_path / "m", "--model", toy / "clip", *SMALL]
    code, out, err = dpw(capsys, "learn", tmp_path / "photos", *start)
    assert code == 0
    assert "learned photos: 2 classes" in out
    assert f"if each of them is a task, teach {tmp_path / 'photos' / 'birds'} and so on" in err
    code, _, err = dpw(capsys, "learn", tmp_path / "photos" / "birds", "--into", tmp_path / "m")
    assert (code, err) == (0, "")


def test_an_unreadable_image_is_found_before_training(capsys, toy, tmp_path):
    shutil.copytree(toy / "data" / "birds", tmp_path / "birds")
    picture = tmp_path / "birds" / "test" / "crow" / "0.png"
    picture.write_bytes(picture.read_bytes()[:70])
    code, _, err = dpw(capsys, "learn", tmp_path / "birds", "--into", tmp_path / "m", "--model", toy / "clip")
    assert code == 2
    assert "test/crow/0.png" in err
    assert not (tmp_path / "m").exists()
