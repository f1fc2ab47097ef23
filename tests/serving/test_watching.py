"""A model that is taught while it is served: new states are taken over, damaged ones refused."""

import threading
import time

from dpw import ContinualCLIP
from dpw.serving.served import load_served
from dpw.serving.watching import ModelWatcher
from dpw.storage.model_folder import remove_task
from tests.helpers.toy_learner import task
from tests.serving.conftest import as_form, told


def test_a_new_state_is_taken_over_and_a_damaged_one_refused(serving, folder, toy, photos):
    with serving() as client:
        before = client.get("/readyz").json()["model"]
        learner = ContinualCLIP.from_pretrained(folder)
        learner.learn(task(toy, "signs"))
        learner.save_pretrained(folder)
        assert client.watcher.look()
        ready = client.get("/readyz").json()
        assert ready["tasks"] == ["birds", "metals", "signs"]
        assert ready["model"] != before
        reply = client.post("/predict", files=as_form(photos)).json()
        assert reply["model"] == ready["model"]
        wanted = told(ContinualCLIP.from_pretrained(folder).predict(list(photos.values()), top=1))
        assert [one | {"image": ""} for one in reply["predictions"]] == wanted

        whole = (folder / "model.json").read_bytes()
        (folder / "model.json").write_bytes(whole[:-40])
        assert not client.watcher.look()
        damaged = client.get("/readyz").json()
        assert damaged["ready"]
        assert damaged["model"] == ready["model"]
        assert "model.json is damaged" in damaged["refused"]
        again = client.post("/predict", files=as_form(photos)).json()
        assert again == reply
        numbers = client.get("/metrics").text
        assert "dpw_model_reloads_total 1" in numbers
        assert "dpw_model_refusals_total 1" in numbers

        (folder / "model.json").write_bytes(whole)
        assert not client.watcher.look()
        assert client.get("/readyz").json()["refused"] is None


def test_a_flipped_byte_of_a_task_is_refused(serving, folder):
    with serving() as client:
        path = sorted(folder.glob("birds-*.safetensors"))[0]
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        assert not client.watcher.look()
        assert "SHA-256 differs" in client.get("/readyz").json()["refused"]
        assert not client.watcher.look()  # said once, not at every look
        assert client.watcher.refusals == 1


def test_requests_accepted_before_a_change_are_answered_by_the_old_state(
    serving, folder, photos, monkeypatch
):
    form = as_form(dict(list(photos.items())[:1]))
    entered, go_on = threading.Event(), threading.Event()
    with serving() as client:
        old = client.watcher.current
        usual = old.answer

        def slow(*arguments):
            entered.set()
            go_on.wait(20)
            return usual(*arguments)

        monkeypatch.setattr(old, "answer", slow)
        replies = []
        asking = threading.Thread(target=lambda: replies.append(client.post("/predict", files=form).json()))
        asking.start()
        assert entered.wait(20)
        remove_task(folder, "birds")
        assert client.watcher.look()
        go_on.set()
        asking.join()
        assert replies[0]["model"] == old.revision
        assert client.post("/predict", files=form).json()["model"] == client.watcher.current.revision


def test_the_watching_thread_sees_a_change_and_ends(folder):
    watcher = ModelWatcher(folder, lambda: load_served(folder), seconds=0.01)
    watcher.start()
    remove_task(folder, "metals")
    until = time.monotonic() + 20
    while watcher.current.learner.tasks != ["birds"] and time.monotonic() < until:
        time.sleep(0.01)
    watcher.stop()
    assert watcher.current.learner.tasks == ["birds"]


def test_a_failing_look_does_not_end_the_watching(folder, monkeypatch):
    watcher = ModelWatcher(folder, lambda: load_served(folder), seconds=0.01)
    looks = []

    def fail():
        looks.append(1)
        raise RuntimeError("no disk")

    monkeypatch.setattr(watcher, "look", fail)
    watcher.start()
    until = time.monotonic() + 20
    while len(looks) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    watcher.stop()
    assert len(looks) >= 3
    assert "no disk" in watcher.refused
