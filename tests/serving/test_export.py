"""Files that run without dpw: ONNX and .pt2 answer as `predict`, with 8 bits nearly so."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dpw import ContinualCLIP
from dpw.errors import InputError
from dpw.serving.export import export
from dpw.serving.export_onnx import quantized, quiet
from tests.helpers.toy_learner import fresh
from tests.helpers.toy_runs import TASKS

onnxruntime = pytest.importorskip("onnxruntime")

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
ALONE = "import sys; sys.modules['dpw'] = sys.modules['torch'] = None; exec(sys.stdin.read())"
ALL = np.array([-1])
EXPORTED = (
    *("dpw-ridge", "dpw", "dpw-reduced", "diki", "zero-shot", "finetune"),
    *("linear-probe", "tip-adapter", "rail", "lada"),
)


@pytest.fixture(scope="module")
def images(toy):
    return sorted((toy / "data").glob("*/test/*/*.png"))


@pytest.fixture(scope="module")
def pixels(saved, images):
    from PIL import Image

    preprocessing = saved[0].method.backbone.preprocessing
    return np.stack([preprocessing.pixels(Image.open(path)) for path in images])


@pytest.fixture(scope="module")
def written(saved, tmp_path_factory):
    """The toy model as ONNX, which takes seconds, and with 8 bits, which are made of it."""
    import onnx

    folder = tmp_path_factory.mktemp("exported")
    export(saved[0], folder / "model.onnx")
    with quiet():
        onnx.save(quantized(onnx.load(folder / "model.onnx")), folder / "int8.onnx")
    return folder


def labels(about, logits):
    return [about["classes"][column] for column in logits.argmax(1)]


def metadata(session):
    stored = session.get_modelmeta().custom_metadata_map
    return {name: json.loads(text) for name, text in stored.items()}


def test_onnx_answers_as_predict_whatever_the_batch(saved, written, images, pixels):
    session = onnxruntime.InferenceSession(written / "model.onnx")
    about = metadata(session)
    expected = saved[0].predict(images)
    logits, task, _, typicality = session.run(None, {"pixels": pixels, "among": ALL})
    assert labels(about, logits) == [answer.label for answer in expected]
    probability = torch.from_numpy(logits).softmax(dim=1).amax(dim=1).tolist()
    assert probability == pytest.approx([answer.probability for answer in expected], abs=1e-4)
    assert typicality.max(1).tolist() == pytest.approx([answer.typicality for answer in expected], abs=1e-6)
    assert {about["tasks"][one] for one in task} <= {"birds", "metals"}
    alone = [session.run(None, {"pixels": pixels[row : row + 1], "among": ALL})[0] for row in range(3)]
    np.testing.assert_allclose(np.concatenate(alone), logits[:3], atol=1e-4)


def test_one_task_can_be_asked_alone(saved, written, images, pixels):
    session = onnxruntime.InferenceSession(written / "model.onnx")
    asked = {"pixels": pixels, "among": np.array([1])}
    found = labels(metadata(session), session.run(["logits"], asked)[0])
    expected = saved[0].predict(images, classes=TASKS["metals"])
    assert found == [answer.label for answer in expected]


def test_metadata_say_what_the_numbers_mean(written):
    session = onnxruntime.InferenceSession(written / "model.onnx")
    about = metadata(session)
    assert about["tasks"] == ["birds", "metals"]
    assert [about["tasks"][one] for one in about["class_tasks"]] == ["birds"] * 3 + ["metals"] * 2
    assert about["preprocessing"] == {"resize": 16, "crop": [16, 16], "resample": 3}
    assert len(about["gates"]) == 2
    assert about["outputs"] == [output.name for output in session.get_outputs()]
    assert session.get_inputs()[0].shape == ["batch", 3, 16, 16]


def test_a_runtime_loads_the_files_without_a_word(written, capfd):
    for name in ("model.onnx", "int8.onnx"):
        onnxruntime.InferenceSession(written / name)
    assert capfd.readouterr() == ("", "")


def test_eight_bits_answer_nearly_the_same(written, pixels):
    whole = onnxruntime.InferenceSession(written / "model.onnx")
    small = onnxruntime.InferenceSession(written / "int8.onnx")
    expected = whole.run(["logits"], {"pixels": pixels, "among": ALL})[0]
    found = small.run(["logits"], {"pixels": pixels, "among": ALL})[0]
    assert (expected.argmax(1) == found.argmax(1)).mean() > 0.9
    assert np.abs(expected - found).max() > 0


@pytest.mark.slow
def test_a_graph_of_all_classes_alone_with_eight_bits(saved, written, pixels):
    export(saved[0], written / "all.onnx", int8=True, all_classes_only=True)
    session = onnxruntime.InferenceSession(written / "all.onnx")
    assert [one.name for one in session.get_inputs()] == ["pixels"]
    assert metadata(session)["int8"]
    small = onnxruntime.InferenceSession(written / "int8.onnx")
    expected = small.run(["logits"], {"pixels": pixels, "among": ALL})[0]
    np.testing.assert_allclose(session.run(["logits"], {"pixels": pixels})[0], expected, atol=1e-4)


@pytest.mark.slow
def test_a_program_for_pytorch(saved, written, pixels, monkeypatch):
    export(saved[0], written / "model.pt2")
    about = {"classes.json": ""}
    program = torch.export.load(written / "model.pt2", extra_files=about).module()
    session = onnxruntime.InferenceSession(written / "model.onnx")
    for rows in (slice(None), slice(0, 1)):
        expected = session.run(None, {"pixels": pixels[rows], "among": ALL})
        found = program(torch.from_numpy(pixels[rows]), torch.tensor([-1]))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other, atol=1e-4)
    assert json.loads(about["classes.json"])[0] == "crow"
    # The example of the page does the same.
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[1]
    monkeypatch.chdir(written)
    shown = {"pixels": torch.from_numpy(pixels)}
    exec(example, shown)
    assert torch.equal(shown["logits"], program(shown["pixels"], torch.tensor([-1]))[0])
    assert shown["about"] == about


def test_the_example_of_the_page_needs_neither_dpw_nor_torch(saved, written, images):
    example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[0]
    code = example.replace('"a.jpg"', repr(str(images[0])))
    words = [sys.executable, "-c", ALONE]
    done = subprocess.run(words, input=code, cwd=written, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == saved[0].predict(images[0]).label


def test_bad_wishes_are_one_sentence(toy, saved, tmp_path):
    for path, options, told in [
        ("model.txt", {}, "give .onnx or .pt2"),
        ("model.pt2", {"int8": True}, "8-bit"),
    ]:
        with pytest.raises(InputError, match=told):
            export(saved[0], tmp_path / path, **options)
    with pytest.raises(InputError, match="nothing is learned"):
        export(fresh(toy), tmp_path / "model.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        export(saved[0], tmp_path / "folder.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.onnx"]


def test_a_missing_extra_is_named_with_the_command(saved, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"needs onnxscript: pip install 'dpw\[export\]'"):
        export(saved[0], tmp_path / "model.onnx")


def probabilities(logits):
    """What a person is told."""
    return torch.from_numpy(np.asarray(logits)).double().softmax(dim=1).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_on_mini_every_answer_is_equal_and_with_eight_bits_nearly_all(name, tmp_path):
    """The promises of docs/export.md."""
    import dpw as library
    from dpw.clip.backbone import Backbone
    from dpw.data.images import Images
    from dpw.methods import create

    tasks = library.load_benchmark("mini").tasks[:3]
    untrained = ("zero-shot", "linear-probe", "rail")
    shorter = {} if name in untrained else {"training.epochs": None, "training.iterations": 20}
    model = ContinualCLIP(create(name, Backbone.from_pretrained("mini"), settings=shorter))
    for task in tasks:
        model.learn(task)
    examples = [example for task in tasks for example in task.test]
    offsets = [sum(len(one.classes) for one in tasks[:number]) for number in range(len(tasks))]
    truth = [offset + one.label for offset, task in zip(offsets, tasks, strict=True) for one in task.test]
    given = np.stack([model.method.backbone.preprocessing.pixels(one.image) for one in examples])
    with torch.inference_mode():
        images = Images.of(torch.from_numpy(given))
        expected = model.method.logits(images, model.question(None)).numpy()
    for int8 in (False, True):
        session = onnxruntime.InferenceSession(export(model, tmp_path / "model.onnx", int8=int8))
        logits = session.run(["logits"], {"pixels": given, "among": ALL})[0]
        equal = (logits.argmax(1) == expected.argmax(1)).mean()
        if int8:
            right = [(one.argmax(1) == truth).mean() for one in (logits, expected)]
            assert equal >= 0.97
            assert abs(right[0] - right[1]) <= 0.01
        else:
            closed_form = name in ("linear-probe", "tip-adapter", "rail", "lada")
            shown = probabilities if closed_form else np.asarray  # logarithms near zero have no scale
            np.testing.assert_allclose(shown(logits), shown(expected), atol=1e-4, rtol=0)
            assert equal == 1
