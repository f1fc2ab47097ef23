"""Preprocessing equals transformers' CLIP image processor, whatever kind of image comes in."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from transformers.image_utils import load_image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from dpw.clip.preprocessing import Preprocessing
from dpw.errors import InputError

SIZES = [(300, 411), (500, 333), (224, 224), (64, 64), (3, 500), (1, 1)]
CONFIGS = [
    {},
    {"size": {"shortest_edge": 40}, "crop_size": {"height": 64, "width": 51}},
    {"size": {"height": 30, "width": 50}, "crop_size": {"height": 33, "width": 40}},
    {"do_center_crop": False, "size": {"height": 30, "width": 30}},
    {"do_normalize": False},
]


def photograph(height, width, mode="RGB"):
    """Something with smooth areas and edges, like a photograph."""
    coarse = np.random.default_rng(height + width).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3))
    image = Image.fromarray(coarse.astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    return image.convert(mode)


def normalised(preprocessing, image):
    """Both halves of the preprocessing, in numpy."""
    pixels = preprocessing.pixels(image) * (preprocessing.scale or 1)
    if preprocessing.mean is None:
        return pixels
    mean, std = (np.array(values)[:, None, None] for values in (preprocessing.mean, preprocessing.std))
    return (pixels - mean) / std


def check(image, config=None, reference=None):
    processor = CLIPImageProcessorPil(**(config or {}))
    expected = processor(images=reference or image, return_tensors="np")["pixel_values"][0]
    ours = normalised(Preprocessing.from_config(processor.to_dict()), image)
    assert ours.shape == expected.shape
    assert abs(ours - expected).max() < 1e-4


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "P", "RGBA", "LA", "1"])
def test_every_mode_and_size(mode, size):
    check(photograph(*size, mode))


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_setting(config):
    check(photograph(97, 131), config)


def stored(image, kind, **options):
    """An image as it comes back from a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer


def test_sixteen_bit_greyscale():
    values = (np.random.default_rng(0).random((120, 90)) * 65535).astype(np.uint16)
    buffer = stored(Image.fromarray(values), "PNG")
    assert Image.open(buffer).mode == "I;16"
    check(Image.open(buffer))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied_as_transformers_loads_images(orientation):
    exif = Image.Exif()
    exif[274] = orientation
    buffer = stored(photograph(120, 200), "JPEG", exif=exif)
    check(Image.open(buffer), reference=load_image(Image.open(buffer)))


def test_settings_survive_a_round_trip():
    preprocessing = Preprocessing(size=48, crop=(48, 40), mean=(0.1, 0.2, 0.3), std=(1.0, 1.0, 1.0))
    assert Preprocessing.from_config(preprocessing.to_config()) == preprocessing
    assert preprocessing.pixel_fingerprint != Preprocessing().pixel_fingerprint
    assert Preprocessing(mean=None, std=None).pixel_fingerprint == Preprocessing().pixel_fingerprint


@pytest.mark.parametrize("content", ["{", json.dumps({"size": {"long": 3}}), "[]"])
def test_a_bad_file_is_one_sentence(tmp_path, content):
    (tmp_path / "preprocessor_config.json").write_text(content)
    with pytest.raises(InputError, match=r"preprocessor_config\.json"):
        Preprocessing.from_folder(tmp_path)
