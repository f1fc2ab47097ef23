"""Models travel by a hub: pushed whole with a card, loaded from its cache, refused when something changed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpw import ContinualCLIP, DamagedFileError, InputError
from dpw.serving.hub import pull, push_to_hub
from tests.helpers.hub_server import HubServer

NAME = "some-one/two-tasks"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub on this machine, and a user who is logged in there with an empty cache."""
    import huggingface_hub.constants as constants

    server = HubServer()
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    addresses = server.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", addresses)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield server
    server.close()


@pytest.fixture
def pushed(hub, saved):
    push_to_hub(saved[1], NAME, licence="apache-2.0", clip="some-one/some-clip")
    return hub.repositories[NAME]


def test_a_model_is_pushed_with_a_card_and_nothing_of_this_machine(pushed, saved):
    tensors = {path.name for path in saved[1].glob("*.safetensors")}
    assert set(pushed) == {"model.json", "README.md", *tensors}
    card = pushed["README.md"].decode()
    loading = f'from_pretrained("{NAME}"'
    for said in ('license: "apache-2.0"', "birds", "crow, robin, swan", "dpw-ridge", loading):
        assert said in card
    assert not any(str(saved[1].parent).encode() in content for content in pushed.values())


def test_a_name_on_the_hub_is_loaded_from_its_cache(pushed, toy, saved, picture, tmp_path, monkeypatch):
    model = ContinualCLIP.from_pretrained(NAME, backbone=toy / "clip")
    assert model.predict(picture) == saved[0].predict(picture)
    snapshot = next((tmp_path / "cache").glob("models--*/snapshots/*"))
    assert any(path.is_symlink() for path in snapshot.iterdir())
    assert ContinualCLIP.from_pretrained(snapshot, backbone=toy / "clip").tasks == ["birds", "metals"]


def test_its_clip_is_not_fetched_unless_asked(pushed, hub):
    hub.asked.clear()
    with pytest.raises(InputError, match="--allow-download"):
        ContinualCLIP.from_pretrained(NAME)
    assert not [line for line in hub.asked if "some-clip" in line]


def test_what_changed_on_the_way_is_refused(pushed, toy, tmp_path):
    name = next(path for path in pushed if path.startswith("birds-"))
    pushed[name] = pushed[name][:-1] + bytes([pushed[name][-1] ^ 1])
    with pytest.raises(DamagedFileError, match="SHA-256"):
        ContinualCLIP.from_pretrained(NAME, backbone=toy / "clip")
    with pytest.raises(DamagedFileError, match="SHA-256"):
        pull(NAME, tmp_path / "pulled")
    assert not (tmp_path / "pulled" / "model.json").exists()


def test_a_link_that_leaves_the_cache_is_refused(pushed, toy, tmp_path):
    ContinualCLIP.from_pretrained(NAME, backbone=toy / "clip")
    snapshot = next((tmp_path / "cache").glob("models--*/snapshots/*"))
    tensors = next(snapshot.glob("birds-*"))
    elsewhere = shutil.copy(tensors, tmp_path / "elsewhere")
    tensors.unlink()
    tensors.symlink_to(elsewhere)
    with pytest.raises(DamagedFileError, match="link"):
        ContinualCLIP.from_pretrained(snapshot, backbone=toy / "clip")


def test_a_pulled_model_is_an_ordinary_folder(pushed, toy, saved, tmp_path):
    assert pull(NAME, tmp_path / "pulled") == ["birds", "metals"]
    assert not any(path.is_symlink() for path in (tmp_path / "pulled").iterdir())
    with pytest.raises(InputError, match="already holds"):
        pull(NAME, tmp_path / "pulled")
    with pytest.raises(InputError, match="no model of dpw is found"):
        pull("some-one/nothing", tmp_path / "other")


def test_a_forgotten_task_is_gone_after_the_next_push(pushed, saved, tmp_path):
    from dpw.storage.model_folder import remove_task

    folder = shutil.copytree(saved[1], tmp_path / "model")
    remove_task(folder, "birds")
    push_to_hub(folder, NAME, clip="some-one/some-clip")
    assert not [path for path in pushed if path.startswith("birds-")]
    assert [task["name"] for task in json.loads(pushed["model.json"])["tasks"]] == ["metals"]


def test_bad_pushes_are_one_sentence(hub, saved, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="--clip"):
        push_to_hub(saved[1], NAME)
    with pytest.raises(InputError, match="no name on the hub"):
        push_to_hub(saved[1], "birds")
    with pytest.raises(InputError, match="needs no hub"):
        push_to_hub(saved[1], str(tmp_path))
    with pytest.raises(DamagedFileError, match="not a dpw model"):
        push_to_hub(tmp_path, NAME)
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(InputError, match="log in") as refused:
        push_to_hub(saved[1], NAME, clip="some-one/some-clip")
    assert "\n" not in str(refused.value)
    assert not hub.repositories.get(NAME)


def test_the_command_line_with_the_environment_of_a_user(toy, saved, tmp_path):
    server = HubServer()
    mine = {"HF_ENDPOINT": server.url, "HF_TOKEN": "secret", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    script = (
        "import sys; from dpw.cli import app\n"
        f"app(['push', {str(saved[1])!r}, {NAME!r}, '--clip', 'a/b'], standalone_mode=False)\n"
        f"app(['pull', {NAME!r}, {str(tmp_path / 'pulled')!r}], standalone_mode=False)"
    )
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | mine)
    server.close()
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(f"pushed to {server.url}/{NAME}")
    assert second == f"{tmp_path / 'pulled'} knows: birds, metals"
    assert Path(tmp_path / "pulled" / "model.json").is_file()


def test_other_weights_beside_the_model_stay_on_the_hub(pushed, saved, tmp_path):
    from dpw.storage.model_folder import remove_task

    pushed["model.safetensors"] = pushed["adapter-0123456789abcdef.safetensors"] = b"of somebody else"
    folder = shutil.copytree(saved[1], tmp_path / "model")
    remove_task(folder, "birds")
    push_to_hub(folder, NAME, clip="some-one/some-clip")
    assert {"model.safetensors", "adapter-0123456789abcdef.safetensors"} <= set(pushed)
    assert not [path for path in pushed if path.startswith("birds-")]
