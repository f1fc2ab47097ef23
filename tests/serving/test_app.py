"""`dpw serve` as a client sees it: answers to the digit, and one sentence for whatever is refused."""

import base64
import json
import threading

import pytest

from dpw import ContinualCLIP
from dpw.serving.app import Limits
from tests.serving.conftest import as_form, png, told

JSON = {"headers": {"content-type": "application/json"}}


def nameless(reply):
    """The answers of a reply without the names of the images."""
    assert reply.status_code == 200, reply.text
    return [one | {"image": ""} for one in reply.json()["predictions"]]


def test_answers_are_those_of_the_library_to_the_digit(serving, folder, photos):
    learner = ContinualCLIP.from_pretrained(folder)
    wanted = {name: learner.predict(content, top=3) for name, content in photos.items()}
    with serving() as client:
        reply = client.post("/predict", files=as_form(photos), data={"top": "3"})
        assert [one["image"] for one in reply.json()["predictions"]] == list(photos)
        assert nameless(reply) == told(wanted.values())
        for name in list(photos)[::7]:
            alone = client.post("/predict", files=as_form({name: photos[name]}), data={"top": "3"})
            assert nameless(alone) == told([wanted[name]])


def test_json_asks_the_same_as_a_form(serving, photos):
    few = dict(list(photos.items())[:3])
    coded = [base64.b64encode(content).decode() for content in few.values()]
    images = [coded[0], {"name": "b.png", "data": coded[1]}, f"data:image/png;base64,{coded[2]}"]
    question = {"classes": ["oak", "fir"], "template": "a {}.", "top": 2}
    with serving() as client:
        by_form = client.post("/predict", files=as_form(few), data=question | {"classes": "oak, fir"})
        by_json = client.post("/predict", json={"images": images, **question})
        assert nameless(by_json) == nameless(by_form)
        assert [one["image"] for one in by_json.json()["predictions"]] == ["image 0", "b.png", "image 2"]
        assert {one["class"] for one in by_json.json()["predictions"]} <= {"oak", "fir"}


def test_unknown_is_answered_as_the_library_does(serving, folder):
    strange = png(colour="magenta")
    with serving() as client:
        reply = client.post("/predict", files=as_form({"x": strange}), data={"unknown": "0.5"})
    assert nameless(reply) == told(
        [ContinualCLIP.from_pretrained(folder).predict(strange, top=1, unknown=0.5)]
    )


def test_one_bad_image_does_not_lose_the_others(serving, photos):
    name = next(iter(photos))
    with serving() as client:
        reply = client.post("/predict", files=as_form({"bad.png": b"no image", name: photos[name]}))
        bad, good = reply.json()["predictions"]
        assert "bad.png" in bad["error"]
        assert good["class"]
        alone = client.post("/predict", files=as_form({"bad.png": b"no image"}))
        assert alone.status_code == 400
        assert "bad.png" in alone.json()["error"]


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"content": b"x", "headers": {"content-type": "text/plain"}}, 400, "content type is 'text/plain'"),
        ({}, 400, "the request has no content type"),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "no JSON"),
        ({"json": [1]}, 400, "no JSON object"),
        ({"json": {"images": []}}, 400, "no image"),
        ({"json": {"images": "abc"}}, 400, "no list"),
        ({"json": {"images": [7]}}, 400, "neither base64"),
        ({"json": {"images": ["%%%"]}}, 400, "no base64"),
        ({"json": {"images": ["QUJD"]}}, 400, "image 0"),
        ({"json": {"images": ["QUJD"], "colour": 1}}, 400, "no field 'colour'"),
        ({"json": {"images": ["QUJD"], "top": 0}}, 400, "top = 0"),
        (
            {"content": b'{"images": [{"name": "\\ud800", "data": "QUJD"}]}', **JSON},
            400,
            "d800 is not an",
        ),
        ({"content": b'{"images": [{"name": "\\ud800", "data": "%"}]}', **JSON}, 400, "ud800 is no base64"),
        ({"content": b'{"images": ["QUJD"], "classes": ["\\ud800"]}', **JSON}, 400, "half of a character"),
        ({"content": b"[" * 40_000, **JSON}, 400, "no JSON (RecursionError)"),
        ({"json": {"images": ["QUJD"], "classes": ["a" * 1001]}}, 400, "1001 letters"),
        (
            {"json": {"images": ["QUJD"], "classes": ["a"], "template": "b" * 999 + "{}"}},
            400,
            "1001 letters",
        ),
        ({"files": as_form({"a.png": png((3000, 2000))})}, 413, "6 megapixels together"),
        ({"json": {"images": ["QUJD"], "top": True}}, 400, "top is True"),
        ({"json": {"images": ["QUJD"], "unknown": 2}}, 400, "unknown = 2"),
        ({"json": {"images": ["QUJD"], "unknown": "x"}}, 400, "unknown is 'x'"),
        ({"json": {"images": ["QUJD"], "classes": []}}, 400, "at least one class"),
        ({"json": {"images": ["QUJD"], "classes": "crow"}}, 400, "classes is 'crow'"),
        ({"json": {"images": ["QUJD"], "classes": ["a", "a"]}}, 400, "only once"),
        ({"json": {"images": ["QUJD"], "template": "a {}."}}, 400, "template has no effect"),
        ({"json": {"images": ["QUJD"] * 5}}, 413, "at most 4"),
        ({"json": {"images": ["QUJD"], "classes": ["a", "b", "c", "d"]}}, 413, "at most 3"),
        ({"files": as_form({str(n): b"x" for n in range(6)})}, 413, "at most 4"),
        ({"data": {"images": "text"}, "files": [("image", ("a", b"x"))]}, 400, "must be files"),
        ({"json": {"images": ["Q" * 60_000]}}, 413, "at most 0.05 MB"),
        (
            {"content": b"no boundary", "headers": {"content-type": "multipart/form-data"}},
            400,
            "form cannot be read",
        ),
    ],
)
def test_refusals_are_one_sentence(serving, sent, status, words):
    with serving(
        Limits(wait=0, request_images=4, request_bytes=50_000, classes=3, pixels=5 * 10**6)
    ) as client:
        reply = client.post("/predict", **sent)
        assert reply.status_code == status, reply.text
        assert words in reply.json()["error"]
        assert "\n" not in reply.json()["error"]
        assert client.get("/readyz").json()["ready"]


def test_a_body_without_a_length_is_cut_off_too(serving):
    with serving(Limits(request_bytes=1000)) as client:
        pieces = (b"x" * 600 for _ in range(4))
        reply = client.post("/predict", content=pieces, headers={"content-type": "application/json"})
    assert reply.status_code == 413


def test_a_token_is_asked_for(serving, photos):
    form = as_form(dict(list(photos.items())[:1]))
    with serving(token="sesame") as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic sesame"}):
            refused = client.post("/predict", files=form, headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert client.get("/tasks").status_code == client.get("/metrics").status_code == 401
        assert client.post("/predict", files=form, headers={"Authorization": "Bearer sesame"}).is_success
        assert all(client.get(path).is_success for path in ("/", "/healthz", "/readyz", "/openapi.json"))


def test_a_full_queue_says_when_to_come_back(serving, photos, monkeypatch):
    form = as_form(dict(list(photos.items())[:1]))
    entered, go_on = threading.Event(), threading.Event()
    with serving(Limits(queue=2, wait=0)) as client:
        model = client.watcher.current
        usual = model.answer

        def slow(*arguments):
            entered.set()
            go_on.wait(20)
            return usual(*arguments)

        monkeypatch.setattr(model, "answer", slow)
        statuses = []
        ask = lambda: statuses.append(client.post("/predict", files=form).status_code)  # noqa: E731
        waiting = [threading.Thread(target=ask) for _ in range(2)]
        for one in waiting:
            one.start()
        assert entered.wait(20)
        while "dpw_images_waiting 2" not in client.get("/metrics").text:
            pass
        refused = client.post("/predict", files=form)
        go_on.set()
        for one in waiting:
            one.join()
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert statuses == [200, 200]
        assert client.post("/predict", files=form).is_success


def test_a_failure_of_ours_is_a_500_with_a_sentence(serving, photos, monkeypatch):
    with serving() as client:

        def fail(*_):
            raise RuntimeError("bits fell out")

        monkeypatch.setattr(client.watcher.current, "answer", fail)
        reply = client.post("/predict", files=as_form(photos))
        assert (reply.status_code, reply.json()) == (500, {"error": "the server failed: its log says why"})
        assert 'dpw_requests_total{status="500"} 1' in client.get("/metrics").text


def test_what_else_can_be_asked(serving):
    with serving() as client:
        told = client.get("/tasks").json()
        assert [task["name"] for task in told["tasks"]] == ["birds", "metals"]
        assert told["tasks"][1]["classes"] == ["gold", "rust"]
        assert client.get("/healthz").json() == {"alive": True}
        ready = client.get("/readyz").json()
        assert (ready["ready"], ready["refused"], ready["model"]) == (True, None, told["model"])
        gone = client.get("/nothing")
        assert (gone.status_code, "there is no GET /nothing" in gone.json()["error"]) == (404, True)
        assert client.get("/predict").status_code == 405


def test_the_description_is_complete_and_its_page_stays_at_home(serving):
    with serving() as client:
        api, page = client.get("/openapi.json").json(), client.get("/").text
        assert set(api["paths"]) == {"/predict", "/tasks", "/healthz", "/readyz", "/metrics"}
        body = api["paths"]["/predict"]["post"]["requestBody"]["content"]
        assert set(body) == {"multipart/form-data", "application/json"}
        assert json.dumps(api)
        assert "http://" not in page
        assert "https://" not in page
        assert client.get("/docs").text == page
