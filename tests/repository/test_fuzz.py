"""Mutated input of every kind: a sentence or an answer, never a traceback; `make fuzz` tries for an hour.

DPW_FUZZ_EXAMPLES says how many examples every kind gets; the suite takes about a minute with its default.
None may take more than ten seconds of a processor (not of the clock, which a busy machine stretches), and
all together no more than 2 GB.
"""

import base64
import contextlib
import hashlib
import io
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from dpw import Backbone, ContinualCLIP, Task
from dpw.benchmarks import load_benchmark
from dpw.cli import main
from dpw.data.decoding import open_image
from dpw.data.reference import read_pairs, read_sentences
from dpw.errors import DpwError, Interrupted
from dpw.runs.config import RunOptions
from dpw.runs.gathering import read_runs, sections
from dpw.runs.run import resume_run
from dpw.storage import files
from dpw.storage.checkpoint import TrainingCheckpoint
from dpw.storage.lock import FILE, writing

EXAMPLES = int(os.environ.get("DPW_FUZZ_EXAMPLES", "60"))
pytestmark = pytest.mark.usefixtures("no_network")


def fuzzed(share: float = 1.0):
    """The settings of one kind of input."""
    return settings(
        max_examples=max(5, int(EXAMPLES * share)),
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Fails where one input costs too much."""
    began = time.process_time()
    yield
    assert time.process_time() - began < 10, "more than ten seconds"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2**21, "more than 2 GB"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["../../etc/passwd", "/dev/zero", "\x1b[31m", "a" * 5000, "some-one/some-thing", "{}", "drop"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
COMMANDS = ["learn", "predict", "tasks", "forget", "resume", "run", "compare", "report", "figures", "explain"]
COMMANDS += ["benchmarks", "methods", "list", "export", "import"]
OPTIONS = ["into", "model", "method", "name", "template", "preset", "set", "seed", "seeds", "top", "classes"]
OPTIONS += ["json", "order", "shots", "protocol", "output", "only", "backbone", "format", "help", "version"]
OPTIONS += ["discard-unfinished", "checkpoint-seconds", "allow-download"]
OTHERS = [
    "training.epochs=1",
    "gate=x",
    "nowhere",
    ".",
    "/",
    "..",
    "0",
    "-1",
    "nan",
    "1e999",
    "{}",
    "x.png",
    "csv",
]
WORDS = st.sampled_from([*COMMANDS, *(f"--{option}" for option in OPTIONS), *OTHERS]) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12
)


def set_at(content, place: int, value):
    """Replace or drop one of all the values inside nested content, chosen by a number."""
    spots = []

    def walk(inside):
        for key in inside if isinstance(inside, dict) else range(len(inside)):
            spots.append((inside, key))
            if isinstance(inside[key], dict | list):
                walk(inside[key])

    walk(content)
    inside, key = spots[place % len(spots)]
    if value == "drop":
        del inside[key]
    else:
        inside[key] = value
    return content


def mutated(content: bytes, changes: list[tuple[int, int]], cut: int) -> bytes:
    """Some bytes changed and, now and then, the end cut off."""
    changed = bytearray(content)
    for place, value in changes:
        changed[place % len(changed)] = value
    return bytes(changed[: cut % len(changed)] if cut % 3 == 0 else changed)


CHANGES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8)


@fuzzed()
@given(st.lists(WORDS, max_size=7))
def test_command_lines(tmp_path_factory, words):
    empty = tmp_path_factory.getbasetemp() / "empty"
    empty.mkdir(exist_ok=True)
    before, here = sys.argv, Path.cwd()
    sys.argv = ["dpw", *words]
    out = io.StringIO()
    try:
        os.chdir(empty)
        with (
            bounded(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
            pytest.raises(SystemExit) as stop,
        ):
            main()
    finally:
        sys.argv = before
        os.chdir(here)
    assert stop.value.code in (0, 1, 2)
    assert "Traceback" not in out.getvalue()
    assert not set(out.getvalue()) & {chr(code) for code in (*range(9), *range(11, 32), 127)}


@fuzzed()
@given(st.integers(0, 1000), VALUES)
def test_benchmark_files(toy, tmp_path_factory, place, value):
    path = tmp_path_factory.mktemp("yaml") / "b.yaml"
    content = {
        "name": "b",
        "setting": "task-incremental",
        "shots": 1,
        "order": ["birds"],
        "templates": ["a {}"],
    }
    content["tasks"] = [{"folder": str(toy / "data" / "birds"), "name": "birds", "val_fraction": 0.1}]
    path.write_text(json.dumps(set_at(content, place, value)))
    with bounded(), contextlib.suppress(DpwError):
        load_benchmark(path).describe()


@fuzzed()
@given(
    st.text(max_size=80)
    | st.sampled_from(["[" * 3000, "a: &a [*a]", "!!python/object:os.system x", "- " * 500])
)
def test_benchmark_files_of_any_text(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("yaml") / "b.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with bounded(), contextlib.suppress(DpwError):
        load_benchmark(path)


@fuzzed()
@given(st.binary(max_size=200), st.sampled_from([".txt", ".csv", ".tsv", ".jsonl"]))
def test_captions(tmp_path_factory, content, suffix):
    path = tmp_path_factory.mktemp("captions") / f"c{suffix}"
    path.write_bytes(content)
    with bounded(), contextlib.suppress(DpwError):
        read_sentences(path)
    path.rename(path.with_name("prompts.csv"))
    with contextlib.suppress(DpwError):
        read_pairs(path.parent)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """One small picture in every format."""
    folder = tmp_path_factory.mktemp("drawn")
    for suffix in ("png", "jpg", "bmp", "gif", "webp", "tiff", "ppm"):
        Image.linear_gradient("L").resize((24, 20)).convert("RGB").save(folder / f"p.{suffix}")
    return [path.read_bytes() for path in sorted(folder.iterdir())]


@fuzzed(5)
@given(st.integers(0, 6), CHANGES, st.integers(0, 10**6))
def test_images(drawn, tmp_path_factory, number, changes, cut):
    path = tmp_path_factory.getbasetemp() / "fuzzed-image"
    path.write_bytes(mutated(drawn[number], changes, cut))
    with bounded(), contextlib.suppress(DpwError):
        assert open_image(path).mode == "RGB"


@fuzzed(0.7)
@given(st.integers(0, 1000), VALUES)
def test_model_folders(saved, tmp_path_factory, place, value):
    folder = tmp_path_factory.mktemp("models") / "m"
    shutil.copytree(saved[1], folder)
    content = json.loads((folder / "model.json").read_text())
    files.write_json(folder / "model.json", set_at(content, place, value))
    with bounded(), contextlib.suppress(DpwError):
        ContinualCLIP.from_pretrained(folder)
    shutil.rmtree(folder)


@fuzzed(0.7)
@given(st.sampled_from(["results.json", "run.json", "rows/000.json"]), st.integers(0, 1000), VALUES)
def test_run_folders(dpw_run, tmp_path_factory, name, place, value):
    folder = tmp_path_factory.mktemp("runs") / "r"
    shutil.copytree(dpw_run, folder)
    content = json.loads((folder / name).read_text())
    files.write_json(folder / name, set_at(content, place, value))
    with bounded(), contextlib.suppress(DpwError):
        sections(read_runs([folder]))
    if name != "results.json":
        with bounded(), contextlib.suppress(DpwError):
            resume_run(folder, RunOptions(should_stop=lambda: True))
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def unfinished(toy, tmp_path_factory):
    """A training that was stopped after two steps: its state, and the way to go on until the next step."""
    learner, folder = ContinualCLIP.from_pretrained(toy / "clip"), tmp_path_factory.mktemp("learning") / "l"
    birds = Task.from_folder(toy / "data" / "birds")

    def go_on(state, steps):
        left = iter(range(steps))
        stop = lambda: next(left, None) is None  # noqa: E731
        learner.learn(birds, steps=9, learning_rate=0.01, checkpoint=state, should_stop=stop)

    with pytest.raises(Interrupted):
        go_on(folder, 2)
    return folder, go_on


@fuzzed(0.4)
@given(st.sampled_from(["progress.json", "plan.json"]), st.integers(0, 1000), VALUES)
def test_unfinished_trainings(unfinished, tmp_path_factory, name, place, value):
    folder = tmp_path_factory.mktemp("learning") / "l"
    shutil.copytree(unfinished[0], folder)
    content = json.loads((folder / name).read_text())
    files.write_json(folder / name, set_at(content, place, value))
    with bounded(), contextlib.suppress(DpwError):
        unfinished[1](folder, 0)
    with bounded(), contextlib.suppress(DpwError):
        TrainingCheckpoint(folder, {}).clear()
    shutil.rmtree(folder)


@fuzzed(0.4)
@given(
    st.sampled_from(["config.json", "preprocessor_config.json", "tokenizer.json"]),
    st.integers(0, 400),
    VALUES,
)
def test_clip_folders(toy, tmp_path_factory, name, place, value):
    folder = tmp_path_factory.mktemp("clips") / "c"
    shutil.copytree(toy / "clip", folder)
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(set_at(content, place, value)))
    with bounded(), contextlib.suppress(DpwError):
        Backbone.from_pretrained(folder)
    shutil.rmtree(folder)


@fuzzed(0.4)
@given(CHANGES, st.integers(0, 10**6), st.booleans())
def test_tensor_files(saved, picture, tmp_path_factory, changes, cut, header):
    """Bytes of a task's tensors, or only those of their header, under hashes that are right again."""
    folder = tmp_path_factory.mktemp("models") / "m"
    shutil.copytree(saved[1], folder)
    content = json.loads((folder / "model.json").read_text())
    old = folder / content["tasks"][0]["tensors"]["file"]
    if header:
        changes, cut = [(place % 1000, value) for place, value in changes], 1
    written = mutated(old.read_bytes(), changes, cut)
    digest = hashlib.sha256(written).hexdigest()
    entry = {"file": f"birds-{digest[:16]}.safetensors", "sha256": digest, "bytes": len(written)}
    (folder / entry["file"]).write_bytes(written)
    content["tasks"][0]["tensors"] = entry
    files.write_json(folder / "model.json", content)
    with bounded(), contextlib.suppress(DpwError):
        ContinualCLIP.from_pretrained(folder).predict(picture)
    shutil.rmtree(folder)


@fuzzed(0.4)
@given(st.binary(max_size=200), st.booleans())
def test_tables(toy, tmp_path_factory, content, begun):
    path = tmp_path_factory.mktemp("tables") / "t.csv"
    path.write_bytes(b"path,label,split\n" * begun + content)
    with bounded(), contextlib.suppress(DpwError):
        Task.from_table(path, root=toy)


NAMES = st.sampled_from(
    ["birds-0123456789abcdef.safetensors", ".x.dpw-0123abcd.tmp", "sub/.x.dpw-0123abcd.tmp", "model.json"]
)


@fuzzed(0.4)
@given(st.lists(VALUES | NAMES | NAMES.map("../o/".__add__) | NAMES.map("link/".__add__), max_size=5))
def test_journals(tmp_path_factory, lines):
    """Whatever a lock file says: outside its folder, and of other names, nothing is removed."""
    base = tmp_path_factory.mktemp("journals")
    for folder in ("m", "o", "m/sub"):
        (base / folder).mkdir()
        for name in ("birds-0123456789abcdef.safetensors", ".x.dpw-0123abcd.tmp", "model.json"):
            (base / folder / name).write_text("{}")
    (base / "m" / "link").symlink_to(base / "o")
    (base / "m" / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with bounded(), writing(base / "m"):
        files.commit(base / "m" / "new.json", {"format": 1}, [], [])
    assert len(list((base / "o").iterdir())) == 3
    assert (base / "m" / "model.json").exists()
    assert (base / "m" / "sub" / "birds-0123456789abcdef.safetensors").exists()
    shutil.rmtree(base)


@pytest.fixture(scope="module")
def client(saved):
    """A client of a served model that asks for a token."""
    from starlette.testclient import TestClient

    from dpw.serving.app import Limits, make_app
    from dpw.serving.served import load_served
    from dpw.serving.watching import ModelWatcher

    watcher = ModelWatcher(saved[1], lambda: load_served(saved[1]), seconds=3600)
    with TestClient(make_app(watcher, Limits(wait=0.0, pixels=10**6), token="word")) as found:
        yield found


def answered(reply) -> None:
    """An answer, or one sentence; never a failure of the server."""
    assert reply.status_code in (200, 400, 401, 404, 405, 408, 413, 429), reply.text
    if reply.status_code != 200:
        assert isinstance(reply.json()["error"], str)


@fuzzed(0.5)
@given(st.integers(0, 1000), VALUES)
def test_requests_as_json(client, drawn, place, value):
    coded = base64.b64encode(drawn[0]).decode()
    content = {"images": [coded, {"name": "b", "data": coded}], "classes": ["a", "b"], "template": "a {}"}
    content |= {"top": 2, "unknown": 0.1}
    body = json.dumps(set_at(content, place, value))
    headers = {"authorization": "Bearer word", "content-type": "application/json"}
    with bounded():
        answered(client.post("/predict", content=body.encode(), headers=headers))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a part that was cut off
@fuzzed(0.5)
@given(st.integers(0, 6), CHANGES, st.integers(0, 10**6))
def test_requests_as_forms(client, drawn, number, changes, cut):
    """The form itself is mutated: boundaries, headers and images."""
    head = b'--B\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n'
    body = head % (b"images", b'; filename="a.png"') + drawn[number][:400] + b"\r\n"
    body += head % (b"top", b"") + b"2\r\n" + head % (b"classes", b"") + b"a,b\r\n--B--\r\n"
    headers = {"authorization": "Bearer word", "content-type": "multipart/form-data; boundary=B"}
    with bounded():
        answered(client.post("/predict", content=mutated(body, changes, cut), headers=headers))
