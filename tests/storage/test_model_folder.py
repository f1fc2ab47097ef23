"""Model folders: tasks move between them, and a damaged or hostile one is refused."""

import hashlib
import json
import shutil
import struct

import pytest

from dpw import ContinualCLIP
from dpw.errors import DamagedFileError, InputError
from dpw.storage import files as storage_files
from dpw.storage.files import write_json
from dpw.storage.model_folder import export_task, import_task, remove_task
from tests.helpers.checks import nonempty
from tests.helpers.digest import tensors_digest
from tests.helpers.tiny_clip import save_tiny
from tests.helpers.toy_learner import SETTINGS, fresh, task


def files(folder):
    return {path.name: path.read_bytes() for path in nonempty(folder.glob("*.safetensors"))}


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
    content = json.loads(path.read_text())
    write_json(path, content | changes)


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


def test_files_of_others_in_a_model_folder_stay(toy, saved, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(saved[1], folder)
    others = ["thesis-0123456789abcdef.safetensors", ".notes.tmp", ".model.json.77.tmp"]
    for name in others:
        (folder / name).write_text("precious")
    own = set(files(folder)) - set(others)
    remove_task(folder, "birds")
    assert {name for name in others if (folder / name).read_text() == "precious"} == set(others)
    assert len(own - set(files(folder))) == 1, "the file of the forgotten task is gone"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_tensors_that_are_not_finite_are_refused_before_an_import_is_kept(toy, saved, tmp_path, value):
    from dpw.storage.files import write_tensors

    export_task(saved[1], "birds", tmp_path / "birds")
    content = json.loads((tmp_path / "birds" / "task.json").read_text())
    task_entry = content["tasks"][0]
    tensors = saved[0].method.task_state(0)
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point())
    tensors = {**tensors, name: tensors[name] * value}
    task_entry["tensors"] = write_tensors(tmp_path / "birds", "birds", tensors)
    write_json(tmp_path / "birds" / "task.json", content)
    fresh(toy).save_pretrained(tmp_path / "m")
    before = {path: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    with pytest.raises(DamagedFileError, match="NaN or infinite"):
        import_task(tmp_path / "m", tmp_path / "birds")
    assert {path: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before


@pytest.mark.parametrize(
    ("key", "value"),
    [("tasks", "all"), ("tasks", [7]), ("method", []), ("shared", 3), ("backbone", {"reference": 1})],
)
def test_content_of_wrong_types_is_one_sentence(saved, tmp_path, key, value):
    folder = tmp_path / "model"
    shutil.copytree(saved[1], folder)
    rewrite(folder / "model.json", **{key: value})
    with pytest.raises(DamagedFileError, match=f"damaged .*{key}"):
        ContinualCLIP.from_pretrained(folder)


def test_deep_json_is_one_sentence(tmp_path):
    (tmp_path / "model.json").write_text("[" * 200_000)
    with pytest.raises(DamagedFileError, match="damaged"):
        ContinualCLIP.from_pretrained(tmp_path)


@pytest.mark.usefixtures("no_network")
def test_a_model_folder_does_not_reach_the_network_by_itself(saved, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    folder = tmp_path / "model"
    shutil.copytree(saved[1], folder)
    content = json.loads((folder / "model.json").read_text())
    rewrite(folder / "model.json", backbone=content["backbone"] | {"reference": "some-one/some-clip"})
    with pytest.raises(InputError, match="--allow-download"):
        ContinualCLIP.from_pretrained(folder)


def as_before(path):
    """Rewrite a model's JSON as versions did whose fingerprint covered the weights alone."""
    backbone = dict(json.loads(path.read_text())["backbone"])
    rewrite(path, backbone=backbone | {"fingerprint": backbone.pop("weights")})


def other_settings(clip, copied):
    """A copy of a CLIP whose weights are the same and whose text tower reads them otherwise."""
    shutil.copytree(clip, copied)
    config = json.loads((copied / "config.json").read_text())
    config["text_config"]["layer_norm_eps"] = 1e-3
    (copied / "config.json").write_text(json.dumps(config))
    return copied


def test_a_clip_with_other_settings_is_refused(toy, saved, tmp_path):
    clip = other_settings(toy / "clip", tmp_path / "clip")
    with pytest.raises(InputError, match="the configuration's SHA-256 differs"):
        ContinualCLIP.from_pretrained(saved[1], backbone=clip)


def test_a_model_that_names_only_the_weights_of_its_clip_is_still_read(toy, saved, tmp_path):
    folder = shutil.copytree(saved[1], tmp_path / "model")
    export_task(folder, "birds", tmp_path / "birds")
    as_before(folder / "model.json")
    assert ContinualCLIP.from_pretrained(folder).tasks == saved[0].tasks
    remove_task(folder, "birds")
    assert import_task(folder, tmp_path / "birds") == "birds"
    with pytest.raises(InputError, match="the weights' SHA-256 differs"):
        ContinualCLIP.from_pretrained(folder, backbone=save_tiny(tmp_path / "other", seed=3))


def test_saving_again_serialises_only_what_changed(toy, tmp_path, monkeypatch):
    model = fresh(toy)
    model.learn(task(toy, "birds"))
    model.save_pretrained(tmp_path / "m")
    written = []
    real = storage_files.write_tensors
    monkeypatch.setattr(
        storage_files, "write_tensors", lambda *given: written.append(given[1]) or real(*given)
    )
    model.learn(task(toy, "signs"))
    model.save_pretrained(tmp_path / "m")
    assert "signs" in written
    assert "birds" not in written
    again = ContinualCLIP.from_pretrained(tmp_path / "m")
    written.clear()
    again.save_pretrained(tmp_path / "m")
    assert not {"birds", "signs"} & set(written)
    before = files(tmp_path / "m")
    next(again.method.bank[0].parameters()).add_(1)
    again.save_pretrained(tmp_path / "m")
    assert "birds" in written
    assert files(tmp_path / "m") != before
    again.save_pretrained(tmp_path / "new")
    assert len(files(tmp_path / "new")) == len(before)


def test_a_model_json_of_another_program_is_not_replaced(saved, tmp_path):
    (tmp_path / "model.json").write_text('{"format": "layers-model"}')
    with pytest.raises(InputError, match="dpw did not write it"):
        saved[0].save_pretrained(tmp_path)
    assert (tmp_path / "model.json").read_text() == '{"format": "layers-model"}'
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_who_saves_later_does_not_remove_what_another_learned_meanwhile(toy, saved, tmp_path):
    folder = shutil.copytree(saved[1], tmp_path / "m")
    first, second = ContinualCLIP.from_pretrained(folder), ContinualCLIP.from_pretrained(folder)
    first.learn(task(toy, "signs"))
    first.save_pretrained(folder)
    second.forget("birds")
    with pytest.raises(InputError, match="has learned birds, signs, which this model does not know"):
        second.save_pretrained(folder)
    first.forget("birds")
    first.save_pretrained(folder)
    assert ContinualCLIP.from_pretrained(folder).tasks == ["metals", "signs"]
