"""CLIP folders are read completely, and a bad one gets one sentence."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from dpw.clip.backbone import Backbone
from dpw.errors import InputError
from tests.helpers.tiny_clip import save_tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny"))


def test_bad_model_folders_get_one_sentence(folder, tmp_path):
    def broken(change):
        target = tmp_path / "broken"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder, target)
        change(target)
        with pytest.raises(InputError) as caught:
            Backbone.from_pretrained(target)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "config.json" in broken(lambda f: (f / "config.json").unlink())
    assert "JSON" in broken(lambda f: (f / "config.json").write_text("{"))
    assert "'bert'" in broken(lambda f: (f / "config.json").write_text(json.dumps({"model_type": "bert"})))
    assert "no weights" in broken(lambda f: (f / "model.safetensors").unlink())
    whole = (folder / "model.safetensors").read_bytes()
    assert "truncated" in broken(lambda f: (f / "model.safetensors").write_bytes(whole[:-100]))
    assert "truncated" in broken(lambda f: (f / "model.safetensors").write_bytes(b""))
    assert "preprocessor_config" in broken(lambda f: (f / "preprocessor_config.json").unlink())
    assert "tokeniser" in broken(lambda f: [path.unlink() for path in f.glob("*token*")])
    with pytest.raises(InputError, match="there is no CLIP at"):
        Backbone.from_pretrained(tmp_path / "absent")


def test_a_checkpoint_with_a_missing_weight_is_refused(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    target = tmp_path / "missing"
    shutil.copytree(folder, target)
    tensors = load_file(target / "model.safetensors")
    tensors.pop("visual_projection.weight")
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="visual_projection"):
        Backbone.from_pretrained(target)


def test_a_broken_torchvision_is_named(folder, tmp_path):
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    (package / "transforms").mkdir()
    (package / "transforms" / "__init__.py").write_text("")
    information = tmp_path / "torchvision-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.1\n")
    code = f"from dpw import Backbone; Backbone.from_pretrained({str(folder)!r})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    if done.returncode:  # where transformers does not touch torchvision, nothing is broken
        assert "pip uninstall torchvision" in done.stderr.splitlines()[-1], done.stderr[-800:]


ABSURD = [
    {"size": {"shortest_edge": 10**9}},
    {"size": {"shortest_edge": 0}},
    {"size": "big"},
    {"crop_size": {"height": -1, "width": 5}},
    {"crop_size": {"height": 2.5, "width": 5}},
    {"resample": 99},
    {"image_std": [0, 0, 0]},
    {"image_std": [1, 1]},
    {"image_mean": [float("nan")] * 3},
    {"rescale_factor": float("inf")},
    {"rescale_factor": 1e308},
    {"image_mean": [1e308] * 3},
    {"image_std": [1e-320] * 3},
]


@pytest.mark.parametrize("values", ABSURD, ids=str)
def test_absurd_preprocessing_is_refused(tmp_path, values):
    folder = save_tiny(tmp_path / "clip")
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    with pytest.raises(InputError, match=r"preprocessor_config\.json"):
        Backbone.from_pretrained(folder)


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/etc/passwd", "sub/model.safetensors", "x.bin", 7]
)
def test_an_index_that_names_weights_outside_is_refused(tmp_path, name):
    folder = save_tiny(tmp_path / "clip")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(InputError, match="no weights file of"):
        Backbone.from_pretrained(folder)


@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json", "model.safetensors.index.json"])
def test_deep_json_is_one_sentence(tmp_path, file):
    folder = save_tiny(tmp_path / "clip")
    (folder / file).write_text('{"a":' * 200_000)
    with pytest.raises(InputError, match=file):
        Backbone.from_pretrained(folder)


def test_weights_that_are_not_finite_are_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = save_tiny(tmp_path / "clip")
    weights = load_file(folder / "model.safetensors")
    weights["visual_projection.weight"][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="NaN or infinite"):
        Backbone.from_pretrained(folder)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("vision_config", "num_hidden_layers", 10**9),
        ("vision_config", "num_attention_heads", -1),
        ("vision_config", "layer_norm_eps", float("nan")),
        ("text_config", "vocab_size", 1e300),
        ("vision_config", "hidden_size", -48),
        ("text_config", "max_position_embeddings", 0),
    ],
)
def test_towers_of_absurd_sizes_are_refused_at_once(folder, tmp_path, part, name, value):
    shutil.copytree(folder, tmp_path / "clip")
    config = json.loads((folder / "config.json").read_text())
    config[part][name] = value
    (tmp_path / "clip" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError):
        Backbone.from_pretrained(tmp_path / "clip")


@pytest.mark.parametrize("name", ["tokenizer_config.json", "generation_config.json"])
def test_a_pipe_among_the_files_of_a_clip_is_refused_at_once(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path / "clip")
    (tmp_path / "clip" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "clip" / name)
    with pytest.raises(InputError, match="a pipe or a device"):
        Backbone.from_pretrained(tmp_path / "clip")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_file_that_is_a_link_out_of_the_folder_is_refused_unless_the_hub_made_it(tmp_path, name):
    folder = save_tiny(tmp_path / "clip")
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=f"{name} is a link that leads out of"):
        Backbone.from_pretrained(folder)
    cached = tmp_path / "models--a--b" / "snapshots" / "0123"
    cached.parent.mkdir(parents=True)
    folder.rename(cached)
    (cached.parent.parent / "blobs").mkdir()
    (tmp_path / "elsewhere").rename(cached.parent.parent / "blobs" / "hash")
    (cached / name).unlink()
    (cached / name).symlink_to("../../blobs/hash")
    assert Backbone.from_pretrained(cached)


def test_a_pickle_that_is_more_than_tensors_is_refused_without_advice_to_run_it(tmp_path):
    folder = save_tiny(tmp_path / "clip")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(InputError, match="more than tensors, which could be any program: refused") as caught:
        Backbone.from_pretrained(folder)
    assert "weights_only" not in str(caught.value)
