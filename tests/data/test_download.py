"""Downloads go on where they stopped, are checked, and never leave half a file in the dataset's folder."""

import dataclasses
import functools
import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading

import pytest
from typer.testing import CliRunner

from dpw.cli import app
from dpw.data.download import fetch, get_public
from dpw.data.public import DATASETS, get_dataset
from dpw.data.public.downloads import Download
from dpw.errors import InputError
from tests.helpers.checks import nonempty

CONTENT = bytes(range(256)) * 4000


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, understands ranges, and can break off."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        path = server.folder / self.path.lstrip("/")
        server.requests.append(self.headers.get("Range"))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        start = 0
        if server.ranges and self.headers.get("Range"):
            start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : server.break_at or None])
        server.break_at = None
        self.close_connection = True


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler))
    serving.folder, serving.requests, serving.ranges, serving.break_at = folder, [], True, None
    serving.url = f"http://127.0.0.1:{serving.server_port}"
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
    thread.start()
    yield serving
    serving.shutdown()
    thread.join()
    serving.server_close()


def silent(*_):
    pass


def one_file(server, **checks):
    (server.folder / "data.bin").write_bytes(CONTENT)
    return Download(f"{server.url}/data.bin", (("", "data.bin"),), ("data.bin",), **checks)


def test_a_file_is_fetched_checked_and_progress_told(server, tmp_path):
    told = []
    download = one_file(server, md5=hashlib.md5(CONTENT).hexdigest(), size=len(CONTENT))
    path = fetch(download, tmp_path, lambda *state: told.append(state))
    assert path.read_bytes() == CONTENT
    assert told[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert not list(tmp_path.glob("*.part"))


def test_a_broken_connection_is_resumed(server, tmp_path):
    download = one_file(server, sha256=hashlib.sha256(CONTENT).hexdigest())
    server.break_at = 1000
    with pytest.raises(InputError, match="run the same command again to go on"):
        fetch(download, tmp_path, silent)
    assert (tmp_path / "data.bin.part").stat().st_size == 1000
    assert not (tmp_path / "data.bin").exists()
    assert fetch(download, tmp_path, silent).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=1000-"]


def test_a_server_without_ranges_starts_anew(server, tmp_path):
    server.ranges = False
    (tmp_path / "data.bin.part").write_bytes(b"old rubbish")
    assert fetch(one_file(server), tmp_path, silent).read_bytes() == CONTENT


def test_a_complete_part_is_taken_as_it_is(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    download = one_file(server, sha256=hashlib.sha256(CONTENT).hexdigest())
    assert fetch(download, tmp_path, silent).read_bytes() == CONTENT


@pytest.mark.parametrize("checks", [{"md5": "0" * 32}, {"sha256": "0" * 64}, {"size": 5}])
def test_a_wrong_file_is_deleted_and_named(server, tmp_path, checks):
    with pytest.raises(InputError, match=r"data\.bin has .* instead of .*; it was deleted"):
        fetch(one_file(server, **checks), tmp_path, silent)
    assert not list(tmp_path.glob("data.bin*"))


def test_an_absent_file_gets_one_sentence(server, tmp_path):
    download = Download(f"{server.url}/gone.zip", (("", ""),), ("x",))
    with pytest.raises(InputError, match=r"gone\.zip cannot be fetched \(.*404"):
        fetch(download, tmp_path, silent)


def archive(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def dataset(server, **downloads):
    made = []
    for name, (content, take, provides) in downloads.items():
        file = name.replace("_", ".")
        (server.folder / file).write_bytes(content)
        made.append(Download(f"{server.url}/{file}", take, provides, md5=hashlib.md5(content).hexdigest()))
    return dataclasses.replace(get_dataset("dtd"), downloads=tuple(made))


def test_a_dataset_lands_in_its_layout(server, tmp_path):
    wanted = dataset(
        server,
        images_tar_gz=(
            archive({"dtd/images/a.jpg": b"a", "dtd/labels/t.txt": b"t"}),
            (("dtd", ""),),
            ("images",),
        ),
        split_json=(b"{}", (("", "split.json"),), ("split.json",)),
        idx_gz=(gzip.compress(b"idx"), (("idx", "idx"),), ("idx",)),
    )
    assert get_public(wanted, tmp_path / "data", silent) == ["images", "labels", "split.json", "idx"]
    folder = tmp_path / "data" / "dtd"
    assert sorted(path.name for path in folder.iterdir()) == ["idx", "images", "labels", "split.json"]
    assert (folder / "idx").read_bytes() == b"idx"
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["dtd"]


def test_what_is_there_is_not_fetched_again(server, tmp_path):
    wanted = dataset(server, split_json=(b"{}", (("", "split.json"),), ("split.json",)))
    (tmp_path / "dtd").mkdir()
    (tmp_path / "dtd" / "split.json").write_text("mine")
    assert get_public(wanted, tmp_path, silent) == []
    assert server.requests == []
    assert (tmp_path / "dtd" / "split.json").read_text() == "mine"


def test_a_hostile_archive_leaves_nothing_behind(server, tmp_path):
    wanted = dataset(server, images_tar_gz=(archive({"../../evil": b"x"}), (("dtd", ""),), ("images",)))
    with pytest.raises(InputError, match="leads out"):
        get_public(wanted, tmp_path / "data", silent)
    assert not list((tmp_path / "data" / "dtd").iterdir())
    assert not list(tmp_path.rglob("evil"))


def test_an_archive_inside_an_archive(server, tmp_path):
    inner = archive({"101/a.jpg": b"a"})
    wanted = dataset(server, outer_tar_gz=(archive({"o/inner.tar.gz": inner}), (("101", "101"),), ("101",)))
    nested = dataclasses.replace(wanted.downloads[0], inner="o/inner.tar.gz")
    get_public(dataclasses.replace(wanted, downloads=(nested,)), tmp_path, silent)
    assert (tmp_path / "dtd" / "101" / "a.jpg").read_bytes() == b"a"


def test_a_second_address_is_asked_where_the_first_has_no_such_file(server, tmp_path):
    there = one_file(server, md5=hashlib.md5(CONTENT, usedforsecurity=False).hexdigest())
    moved = dataclasses.replace(there, url=f"{server.url}/old/data.bin", second=there.url)
    assert fetch(moved, tmp_path, silent).read_bytes() == CONTENT
    nowhere = dataclasses.replace(moved, second=f"{server.url}/older/data.bin")
    (tmp_path / "data.bin").unlink()
    with pytest.raises(InputError, match=r"old/data.bin cannot be fetched \(.*404"):
        fetch(nowhere, tmp_path, silent)


def test_a_changed_source_is_named(server, tmp_path):
    wanted = dataset(server, images_tar_gz=(archive({"other": b"x"}), (("dtd", ""),), ("images",)))
    with pytest.raises(InputError, match="does not hold dtd; the source has changed"):
        get_public(wanted, tmp_path, silent)


@pytest.mark.parametrize(("name", "folder"), [("stanfordcars", "stanford_cars"), ("sun397", "sun397")])
def test_what_must_be_done_by_hand_is_said_when_the_rest_is_there(server, tmp_path, name, folder):
    offered = dataset(server, split_json=(b"{}", (("", "split.json"),), ("split.json",))).downloads
    wanted = dataclasses.replace(get_dataset(name), downloads=offered)
    with pytest.raises(InputError, match=f"official links .* are dead; .* into .*{folder} by hand"):
        get_public(wanted, tmp_path, silent)
    assert (tmp_path / folder / "split.json").is_file()
    for part in nonempty(wanted.by_hand.needs):
        (tmp_path / folder / part).mkdir()
    assert get_public(wanted, tmp_path, silent) == []


def test_every_dataset_can_be_got_or_says_how():
    for entry in nonempty(DATASETS.values()):
        assert entry.downloads or entry.by_hand
        for download in entry.downloads:
            assert download.url.startswith(("https://", "http://"))
            assert download.provides


def test_the_command_tells_what_was_added(server, tmp_path, monkeypatch):
    wanted = dataset(server, split_json=(b"{}", (("", "split.json"),), ("split.json",)))
    monkeypatch.setitem(DATASETS, "dtd", wanted)
    first = CliRunner().invoke(app, ["data", "get", "dtd", "--root", str(tmp_path), "--json"])
    assert json.loads(first.output) == {
        "name": "dtd",
        "folder": str(tmp_path / "dtd"),
        "added": ["split.json"],
    }
    again = CliRunner().invoke(app, ["data", "get", "DTD", "--root", str(tmp_path)])
    assert again.output == f"DTD is in {tmp_path / 'dtd'}\n"
