"""The public API: learn, predict without a task id, save, reload elsewhere, forget."""

import json
import subprocess
import sys

import pytest
import torch
from PIL import Image

from dpw import ContinualCLIP
from dpw.errors import InputError, Interrupted
from tests.helpers.checks import nonempty
from tests.helpers.digest import tensors_digest
from tests.helpers.toy_learner import fresh, task


def images_of(toy):
    """All test images of the toy world."""
    return nonempty(sorted(toy.glob("data/*/test/*/*.png")))


def test_predictions_have_class_probability_task_and_confidence(toy, saved):
    model, _ = saved
    answer = model.predict(images_of(toy)[0])
    assert answer.label in {"crow", "swan", "robin", "rust", "gold"}
    assert answer.task in {"birds", "metals"}
    assert 0 < answer.probability <= 1
    assert 0 <= answer.confidence <= 1
    assert model.tasks == ["birds", "metals"]


def test_zero_shot_classes_can_be_asked_for(toy, saved):
    answer = saved[0].predict(images_of(toy)[0], classes=["cat", "zebra"])
    assert answer.label in {"cat", "zebra"}
    assert answer.task in {"birds", "metals"}


def test_a_model_that_learned_nothing_needs_classes_and_equals_clip(toy):
    model = fresh(toy)
    image = images_of(toy)[0]
    with pytest.raises(InputError, match="nothing is learned yet"):
        model.predict(image)
    backbone = model.method.backbone
    pixels = torch.from_numpy(backbone.preprocessing.pixels(Image.open(image)))[None]
    with torch.no_grad():
        features = torch.nn.functional.normalize(backbone.encode_images(pixels), dim=-1)
        texts = backbone.encode_texts(backbone.tokenize(["a photo of a cat.", "a photo of a zebra."]))
        logits = backbone.logit_scale * features @ torch.nn.functional.normalize(texts, dim=-1).T
    answer = model.predict(image, classes=["cat", "zebra"])
    assert answer.probability == pytest.approx(logits.softmax(dim=1).max().item(), abs=1e-5)
    assert answer.task is None


def test_batches_do_not_matter(toy, saved):
    model, _ = saved
    images = images_of(toy)
    together = model.predict(images)
    assert [answer.label for answer in together] == [model.predict(image).label for image in images]
    backwards = model.predict(images[::-1])[::-1]
    for one, other in nonempty(zip(together, backwards, strict=True)):
        assert one.label == other.label
        assert one.probability == pytest.approx(other.probability, abs=1e-4)


def test_bad_images_are_reported_and_the_others_answered(toy, saved, tmp_path):
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.png").write_text("not an image")
    good = images_of(toy)[0]
    truncated = tmp_path / "cut.png"
    truncated.write_bytes(good.read_bytes()[:60])
    bad = [tmp_path / "empty.png", tmp_path / "text.png", truncated, tmp_path, tmp_path / "absent.png"]
    answers = saved[0].predict([bad[0], good, *bad[1:], good])
    assert [answer.error is None for answer in answers] == [False, True, False, False, False, False, True]
    for path, answer in zip(bad, [answers[0], *answers[2:6]], strict=True):
        assert str(path) in answer.error
    assert answers[1] == answers[6]


def test_a_new_process_predicts_identically_without_the_training_data(toy, saved):
    model, folder = saved
    image = images_of(toy)[3]
    code = (
        "import json, sys; import torch; torch.set_num_threads(1); from dpw import ContinualCLIP;"
        "model = ContinualCLIP.from_pretrained(sys.argv[1]);"
        "sys.stdout.write(json.dumps(model.predict(sys.argv[2]).as_json()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(image)], capture_output=True, text=True, check=True
    )
    found, here = json.loads(done.stdout), json.loads(json.dumps(model.predict(image).as_json()))
    for key in ("probability", "confidence"):  # another process may add up in another order
        assert found.pop(key) == pytest.approx(here.pop(key), abs=1e-5)
    others, alternatives = found.pop("alternatives"), here.pop("alternatives")
    assert [name for name, _ in others] == [name for name, _ in alternatives]
    assert [value for _, value in others] == pytest.approx([value for _, value in alternatives], abs=1e-5)
    assert found == here


def test_learning_changes_no_byte_of_earlier_tasks_or_the_backbone(toy):
    model = fresh(toy)
    model.learn(task(toy, "birds"))
    before = (
        tensors_digest(model.method.task_state(0)),
        tensors_digest(model.method.backbone.clip.state_dict()),
    )
    model.learn(task(toy, "signs"))
    assert before == (
        tensors_digest(model.method.task_state(0)),
        tensors_digest(model.method.backbone.clip.state_dict()),
    )


def test_learning_in_two_sessions_equals_learning_in_one(toy, saved, tmp_path):
    model = fresh(toy)
    model.learn(task(toy, "birds"))
    model.save_pretrained(tmp_path / "m")
    again = ContinualCLIP.from_pretrained(tmp_path / "m")
    again.learn(task(toy, "metals"))
    again.save_pretrained(tmp_path / "m")
    names = {path.name for path in nonempty((tmp_path / "m").glob("*.safetensors"))}
    assert names == {path.name for path in saved[1].glob("*.safetensors")}


def test_an_interrupted_learn_goes_on(toy, tmp_path):
    whole = fresh(toy)
    whole.learn(task(toy, "birds"))
    model = fresh(toy)
    asked = iter(range(100))
    with pytest.raises(Interrupted):
        model.learn(task(toy, "birds"), checkpoint=tmp_path, should_stop=lambda: next(asked) == 3)
    assert model.tasks == []
    assert len(model.method.bank) == 0
    model.learn(task(toy, "birds"), checkpoint=tmp_path)
    assert tensors_digest(model.method.task_state(0)) == tensors_digest(whole.method.task_state(0))


@pytest.mark.parametrize("stored", [False, True])
def test_a_task_that_cannot_be_learned_again_is_kept(toy, saved, stored):
    model = ContinualCLIP.from_pretrained(saved[1])
    if not stored:
        model.method.task_state(0)
    before = model.predict(images_of(toy))
    with pytest.raises(Interrupted):
        model.learn(task(toy, "birds"), again=True, should_stop=lambda: True)
    assert model.tasks == ["birds", "metals"]
    assert model.predict(images_of(toy)) == before
    model.learn(task(toy, "birds"), again=True)
    assert model.tasks == ["metals", "birds"]


def test_forgetting_and_its_refusals(toy, saved, tmp_path):
    model = ContinualCLIP.from_pretrained(saved[1])
    with pytest.raises(InputError, match="'fish'"):
        model.forget("fish")
    model.forget("birds")
    assert model.tasks == ["metals"]
    assert model.predict(images_of(toy)[0]).label in {"rust", "gold"}
    with pytest.raises(InputError, match="already learned"):
        model.learn(task(toy, "metals"))


def test_settings_of_a_learned_model_cannot_be_changed(saved):
    with pytest.raises(InputError, match="already has its settings"):
        ContinualCLIP.from_pretrained(saved[1], settings={"gate": 0.1})
    with pytest.raises(InputError, match="was learned by method 'dpw-ridge'"):
        ContinualCLIP.from_pretrained(saved[1], "diki")


@pytest.mark.parametrize(
    "call",
    [
        lambda m, _: m.predict(5),
        lambda m, p: m.predict(p, top=0),
        lambda m, p: m.predict(p, top="many"),
        lambda m, p: m.predict(p, classes="crow"),
        lambda m, p: m.predict(p, classes=[1, 2]),
        lambda m, p: m.predict(p, classes=["a", "b"], template=None),
        lambda m, _: m.learn("birds"),
        lambda m, _: m.evaluate("birds"),
        lambda m, _: m.evaluate([], setting="easy"),
        lambda m, _: m.forget(3),
        lambda *_: ContinualCLIP.from_pretrained(None),
        lambda *_: ContinualCLIP.from_pretrained(""),
    ],
)
def test_wrong_types_and_values_are_one_sentence(saved, picture, call):
    with pytest.raises(InputError):
        call(saved[0], picture)


@pytest.mark.parametrize("device", ["quantum", "meta", -1, ""])
def test_a_device_that_cannot_compute_is_refused_in_a_short_sentence(toy, device):
    learner = fresh(toy)
    with pytest.raises(InputError, match=r"device .* cannot be used .*give 'cpu'") as refused:
        learner.to(device)
    assert len(str(refused.value)) < 150
    assert learner.method.backbone.device.type == "cpu"
