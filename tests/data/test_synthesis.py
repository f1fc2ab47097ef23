"""Images with prompts are made where there are none."""

import csv

import pytest
from PIL import Image

from dpw.data import synthesis
from dpw.data.reference import PROMPTS_FILE, read_pairs
from dpw.errors import InputError
from tests.helpers.toy_methods import learn, toy_method, toy_task


def coloured(prompt: str, seed: int) -> Image.Image:
    """A stand-in for a diffusion model: every third image is black, as after a safety filter."""
    return Image.new("RGB", (16, 16), (0, 0, 0) if seed % 3 == 0 else (seed % 200 + 10, 50, len(prompt)))


def test_painting_writes_a_folder_of_pairs_without_black_images(tmp_path):
    synthesis.paint(tmp_path / "dtd", [f"prompt {n}" for n in range(6)], 1, coloured)
    pairs = read_pairs(tmp_path / "dtd")
    kept = [n for n in range(6) if synthesis.image_seed(n, 1) % 3]
    assert pairs.prompts == tuple(f"prompt {n}" for n in kept)
    assert [path.name for path in tmp_path.iterdir()] == ["dtd"]
    with (tmp_path / "dtd" / PROMPTS_FILE).open() as lines:
        assert [row["file"] for row in csv.DictReader(lines)] == [f"{n:05d}.jpg" for n in kept]


def test_missing_pairs_are_made_from_outside_sentences_and_earlier_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(synthesis, "diffusion_painter", lambda *_: coloured)
    method = toy_method("gift", synthetic=str(tmp_path), diffusion="some/pipeline", synthetic_images=60)
    learn(method, toy_task("aircraft"))
    learn(method, toy_task("dtd"))
    drawn = [set(read_pairs(tmp_path / name).prompts) for name in ("aircraft", "dtd")]
    outside = set(method.reference.sentences)
    assert drawn[0] == outside
    assert drawn[1] == outside | {"a photo of a jet.", "a photo of a kite."}


def test_prompts_are_drawn_by_seed_and_task_alone():
    pool = [f"prompt {n}" for n in range(20)]
    assert synthesis.draw_prompts(pool, 50, 0, "dtd") == synthesis.draw_prompts(pool, 50, 0, "dtd")
    assert synthesis.draw_prompts(pool, 50, 0, "dtd") != synthesis.draw_prompts(pool, 50, 0, "food")
    with pytest.raises(InputError, match="is empty"):
        synthesis.draw_prompts([], 5, 0, "dtd")


def test_the_published_seeds():
    assert [synthesis.image_seed(7, task) for task in (0, 1)] == [419_900_007, 420_000_007]


def test_says_what_to_install_for_a_pipeline(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "diffusers", None)
    with pytest.raises(InputError, match=r"install dpw\[diffusion\]"):
        synthesis.diffusion_painter("some/pipeline", 50)


def test_given_class_names_become_prompts(tmp_path, monkeypatch):
    monkeypatch.setattr(synthesis, "diffusion_painter", lambda *_: coloured)
    (tmp_path / "names.txt").write_text("tench\n\ngreat white shark\n")
    settings = {"synthetic": str(tmp_path / "made"), "synthetic_classes": str(tmp_path / "names.txt")}
    method = toy_method("gift", diffusion="some/pipeline", synthetic_images=30, **settings)
    learn(method, toy_task("aircraft"))
    drawn = read_pairs(tmp_path / "made" / "aircraft").prompts
    assert set(drawn) == {"a photo of a tench.", "a photo of a great white shark."}


def test_an_unreadable_file_of_class_names_is_one_sentence(tmp_path):
    (tmp_path / "names.txt").write_bytes(b"\xff\xfe\x00c")
    with pytest.raises(InputError, match=r"names.txt cannot be read .* save it as text in UTF-8"):
        synthesis.class_prompts(tmp_path / "names.txt")
    with pytest.raises(InputError, match="which is no file"):
        synthesis.class_prompts(tmp_path / "other.txt")


def test_a_pipeline_without_a_folder_is_told_what_is_missing():
    method = toy_method("gift", diffusion="some/pipeline")
    with pytest.raises(InputError, match="also give synthetic=FOLDER"):
        learn(method, toy_task("aircraft"))


def test_only_the_first_of_several_processes_paints(tmp_path, monkeypatch):
    monkeypatch.setattr(synthesis, "is_main_process", lambda: False)
    waited = []
    monkeypatch.setattr(synthesis.time, "sleep", lambda _: (waited.append(1), (tmp_path / "dtd").mkdir()))
    synthesis.synthesize(tmp_path / "dtd", ["a cat"], 0, "no/pipeline", 50)
    assert waited == [1]
    assert list((tmp_path / "dtd").iterdir()) == []
