"""The public API: learn, predict without a task id, save, reload elsewhere, forget, move tasks around."""

import hashlib
import json
import shutil
import struct
import subprocess
import sys

import pytest
import torch
from PIL import Image

from dpw import ContinualCLIP, Task
from dpw.errors import DamagedFileError, InputError, Interrupted
from dpw.storage.model_folder import export_task, import_task, remove_task
from tests.digest import tensors_digest

SETTINGS = {"prefix_length": 2, "adapter_rank": 4, "training.epochs": 2, "training.batch_size": 4}


def fresh(toy, **more):
    return ContinualCLIP.from_pretrained(toy / "clip", settings=SETTINGS | more)


def task(toy, name):
    return Task.from_folder(toy / "data" / name)


@pytest.fixture(scope="module")
def saved(toy, tmp_path_factory):
    """A model that has learned two tasks, in a folder."""
    model = fresh(toy)
    model.learn(task(toy, "birds"))
    model.learn(task(toy, "metals"))
    folder = tmp_path_factory.mktemp("model") / "model"
    model.save_pretrained(folder)
    return model, folder


def test_images(toy):
    return sorted(toy.glob("data/*/test/*/*.png"))


test_images.__test__ = False


def test_predictions_have_class_probability_task_and_confidence(toy, saved):
    model, _ = saved
    answer = model.predict(test_images(toy)[0])
    assert answer.label in {"crow", "swan", "robin", "rust", "gold"}
    assert answer.task in {"birds", "metals"}
    assert 0 < answer.probability <= 1
    assert 0 <= answer.confidence <= 1
    assert model.tasks == ["birds", "metals"]


def test_zero_shot_classes_can_be_asked_for(toy, saved):
    answer = saved[0].predict(test_images(toy)[0], classes=["cat", "zebra"])
    assert answer.label in {"cat", "zebra"}
    assert answer.task in {"birds", "metals"}


def test_a_model_that_learned_nothing_needs_classes_and_equals_clip(toy):
    model = fresh(toy)
    image = test_images(toy)[0]
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
    images = test_images(toy)
    together = model.predict(images)
    assert [answer.label for answer in together] == [model.predict(image).label for image in images]
    backwards = model.predict(images[::-1])[::-1]
    for one, other in zip(together, backwards, strict=True):
        assert one.label == other.label
        assert one.probability == pytest.approx(other.probability, abs=1e-4)


def test_bad_images_are_reported_and_the_others_answered(toy, saved, tmp_path):
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.png").write_text("not an image")
    good = test_images(toy)[0]
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
    image = test_images(toy)[3]
    code = (
        "import json, sys; import torch; torch.set_num_threads(1); from dpw import ContinualCLIP;"
        "model = ContinualCLIP.from_pretrained(sys.argv[1]);"
        "sys.stdout.write(json.dumps(model.predict(sys.argv[2]).as_json()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(image)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(model.predict(image).as_json()))


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
    names = {path.name for path in (tmp_path / "m").glob("*.safetensors")}
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


def test_forgetting_and_its_refusals(toy, saved, tmp_path):
    model = ContinualCLIP.from_pretrained(saved[1])
    with pytest.raises(InputError, match="'fish'"):
        model.forget("fish")
    model.forget("birds")
    assert model.tasks == ["metals"]
    assert model.predict(test_images(toy)[0]).label in {"rust", "gold"}
    with pytest.raises(InputError, match="already learned"):
        model.learn(task(toy, "metals"))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


def test_tasks_move_between_models_and_the_rest_stays_byte_for_byte(toy, saved, tmp_path):
    _, folder = saved
    export_task(folder, "metals", tmp_path / "metals")
    model = fresh(toy)
    model.learn(task(toy, "signs"))
    model.save_pretrained(tmp_path / "other")
    before = files(tmp_path / "other")
    assert import_task(tmp_path / "other", tmp_path / "metals") == "metals"
    after = files(tmp_path / "other")
    assert before.items() <= after.items()
    merged = ContinualCLIP.from_pretrained(tmp_path / "other")
    assert merged.tasks == ["signs", "metals"]
    assert tensors_digest(merged.method.task_state(1)) == tensors_digest(saved[0].method.task_state(1))
    remove_task(tmp_path / "other", "metals")
    assert files(tmp_path / "other") == before
    with pytest.raises(InputError, match="already has a task"):
        import_task(folder, tmp_path / "metals")


def test_tasks_of_another_clip_or_other_settings_are_refused(toy, saved, tmp_path):
    from tests.tiny import save_tiny

    export_task(saved[1], "birds", tmp_path / "birds")
    other = ContinualCLIP.from_pretrained(save_tiny(tmp_path / "clip", seed=3), settings=SETTINGS)
    other.save_pretrained(tmp_path / "a")
    with pytest.raises(InputError, match="CLIP"):
        import_task(tmp_path / "a", tmp_path / "birds")
    fresh(toy, gate=0.5).save_pretrained(tmp_path / "b")
    with pytest.raises(InputError, match="gate"):
        import_task(tmp_path / "b", tmp_path / "birds")


def rewrite(path, **changes):
    """Change a model's JSON and keep its checksum right, as an attacker would."""
    from dpw.storage import files

    content = json.loads(path.read_text())
    files.write_json(path, content | changes)


def pointing_outside(name):
    def change(folder, content):
        entry = content["tasks"][0]
        hostile = entry | {"tensors": entry["tensors"] | {"file": name}}
        rewrite(folder / "model.json", tasks=[hostile, *content["tasks"][1:]])

    return change


def ten_gigabytes(folder, content):
    """A header that declares far more than the file holds; size and hash of the file are right."""
    header = json.dumps(
        {"image.weight": {"dtype": "F32", "shape": [2500000000], "data_offsets": [0, 10**10]}}
    )
    blob = struct.pack("<Q", len(header)) + header.encode()
    digest = hashlib.sha256(blob).hexdigest()
    name = f"birds-{digest[:16]}.safetensors"
    (folder / name).write_bytes(blob)
    entry = {"file": name, "sha256": digest, "bytes": len(blob)}
    rewrite(folder / "model.json", tasks=[content["tasks"][0] | {"tensors": entry}])


def tensors_of_something_else(folder, content):
    first, second = content["tasks"]
    rewrite(folder / "model.json", tasks=[first | {"tensors": content["shared"]}, second])


def a_link(folder, content):
    path = folder / content["tasks"][0]["tensors"]["file"]
    path.rename(folder.parent / "elsewhere.safetensors")
    path.symlink_to(folder.parent / "elsewhere.safetensors")


def changed(part, **changes):
    def change(folder, content):
        rewrite(folder / "model.json", **{part: content[part] | changes})

    return change


def a_misspelt_setting(folder, content):
    method = content["method"]
    config = method["config"] | {"prefix_lenght": 3}
    rewrite(folder / "model.json", method=method | {"config": config})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(pointing_outside("../../etc/passwd"), "refused", id="path out of the folder"),
        pytest.param(pointing_outside("/etc/passwd"), "refused", id="absolute path"),
        pytest.param(ten_gigabytes, "valid tensors", id="oversized header"),
        pytest.param(tensors_of_something_else, "do not fit", id="swapped tensors"),
        pytest.param(a_link, "link", id="link"),
        pytest.param(lambda f, _: rewrite(f / "model.json", format=7), "format 7", id="newer format"),
        pytest.param(changed("method", name="magic"), "'magic'", id="unknown method"),
        pytest.param(a_misspelt_setting, "prefix_length", id="misspelt setting"),
        pytest.param(changed("backbone", activation="gelu"), "activation", id="other activation"),
        pytest.param(changed("backbone", reference="./nowhere"), "nowhere", id="CLIP that is gone"),
    ],
)
def test_hostile_model_folders_are_refused(saved, tmp_path, change, told):
    folder = tmp_path / "hostile"
    shutil.copytree(saved[1], folder)
    change(folder, json.loads((folder / "model.json").read_text()))
    with pytest.raises(InputError) as caught:
        ContinualCLIP.from_pretrained(folder)
    assert "\n" not in str(caught.value)
    assert told in str(caught.value)


def test_a_moved_backbone_can_be_named(toy, saved, tmp_path):
    shutil.copytree(saved[1], tmp_path / "m")
    content = json.loads((tmp_path / "m" / "model.json").read_text())
    moved = content["backbone"] | {"reference": str(tmp_path / "nowhere")}
    rewrite(tmp_path / "m" / "model.json", backbone=moved)
    model = ContinualCLIP.from_pretrained(tmp_path / "m", backbone=toy / "clip")
    assert model.tasks == ["birds", "metals"]


@pytest.mark.parametrize("where", ["header", "data", "end"])
def test_a_flipped_byte_in_a_task_is_refused(saved, tmp_path, where):
    shutil.copytree(saved[1], tmp_path / "m")
    path = next((tmp_path / "m").glob("birds-*.safetensors"))
    content = bytearray(path.read_bytes())
    content[{"header": 10, "data": len(content) // 2, "end": -1}[where]] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match=r"birds-.*SHA-256"):
        ContinualCLIP.from_pretrained(tmp_path / "m")


def test_settings_of_a_learned_model_cannot_be_changed(saved):
    with pytest.raises(InputError, match="already has its settings"):
        ContinualCLIP.from_pretrained(saved[1], settings={"gate": 0.1})
    with pytest.raises(InputError, match="was learned by method 'dpw'"):
        ContinualCLIP.from_pretrained(saved[1], "diki")
