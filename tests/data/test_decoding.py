"""Pictures that are no files, too big or too long: refused at once, or read in bounded memory."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from dpw.clip.preprocessing import Preprocessing
from dpw.data.split import Split
from dpw.errors import InputError

PEAK = """
import resource, sys
from pathlib import Path
from PIL import Image
from dpw.clip.preprocessing import Preprocessing
from dpw.data.decoding import open_image
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(Preprocessing().pixels(open_image(Path(sys.argv[1]))).shape)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, before // 1024)
"""


def first_image(path):
    return Split.from_files([path], [0])[0].image


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    for name in ("pipe.png", "zero.png"):
        with pytest.raises(InputError, match="no plain file"):
            first_image(tmp_path / name)


def test_the_limit_on_pixels_can_be_raised_and_lowered(tmp_path, monkeypatch):
    Image.new("RGB", (100, 50)).save(tmp_path / "a.png")
    monkeypatch.setenv("DPW_MAX_PIXELS", "4999")
    with pytest.raises(InputError, match=r"100 x 50 pixels.*DPW_MAX_PIXELS"):
        first_image(tmp_path / "a.png")
    monkeypatch.setenv("DPW_MAX_PIXELS", "5000")
    assert first_image(tmp_path / "a.png").size == (100, 50)
    monkeypatch.setenv("DPW_MAX_PIXELS", "many")
    with pytest.raises(InputError, match="DPW_MAX_PIXELS is 'many'"):
        first_image(tmp_path / "a.png")


def test_a_format_that_costs_more_memory_has_a_lower_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("dpw.data.decoding.MAX_PIXELS", 5000)
    for name in ("a.png", "a.webp"):
        Image.new("RGB", (100, 40)).save(tmp_path / name)
    assert first_image(tmp_path / "a.png").size == (100, 40)
    with pytest.raises(InputError, match="more than 2500"):
        first_image(tmp_path / "a.webp")
    monkeypatch.setenv("DPW_MAX_PIXELS", "4000")
    assert first_image(tmp_path / "a.webp").size == (100, 40)


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path):
    header = b"P6\n60000 60000\n255\n"
    (tmp_path / "bomb.ppm").write_bytes(header)
    with pytest.raises(InputError, match="DPW_MAX_PIXELS"):
        first_image(tmp_path / "bomb.ppm")


@pytest.mark.parametrize("size", [(1, 1_000_000), (1_000_000, 1), (12_000, 12_000)])
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_memory_is_bounded(tmp_path, size, suffix):
    if suffix == ".jpg" and max(size) > 65_500:
        pytest.skip("JPEG knows no such size")
    path = tmp_path / f"large{suffix}"
    Image.new("L", size, 90).save(path)
    done = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True)
    shape, peaks = done.stdout.strip().splitlines()
    peak, before = map(int, peaks.split())
    assert shape == "(3, 224, 224)"
    assert peak - before < (200 if suffix == ".jpg" or min(size) == 1 else 1000), "megabytes"


def test_only_the_kept_part_of_a_strip_is_resized_and_it_is_the_same(monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, (40, 3000, 3), dtype=np.uint8)
    for image in (Image.fromarray(noise), Image.fromarray(noise.transpose(1, 0, 2).copy())):
        whole = Preprocessing().pixels(image)
        monkeypatch.setattr("dpw.clip.preprocessing.LARGEST", 0)
        part = Preprocessing().pixels(image)
        monkeypatch.undo()
        assert np.abs(whole.astype(int) - part.astype(int)).max() <= 1


@pytest.mark.parametrize("name", ["drawn.eps", "looks-like.png"])
def test_a_picture_that_another_program_would_have_to_draw_is_refused(tmp_path, name, monkeypatch):
    """Pillow runs Ghostscript for PostScript, whatever the file is called."""
    Image.new("RGB", (8, 8)).save(tmp_path / "drawn.eps")
    (tmp_path / "drawn.eps").rename(tmp_path / name)
    monkeypatch.setattr(subprocess, "check_call", lambda *_, **__: pytest.fail("a program was run"))
    with pytest.raises(InputError, match="is EPS, a program that draws; give it as PNG or JPEG"):
        first_image(tmp_path / name)
