"""Archives are unpacked without links and without a way out of the folder."""

import gzip
import io
import tarfile
import zipfile

import pytest

from dpw.data.archives import unpack
from dpw.errors import InputError


def tar(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def link(kind):
    info = tarfile.TarInfo("a/link")
    info.type, info.linkname = kind, "/etc/passwd"
    return info


def test_files_and_folders_come_out(tmp_path):
    archive = tar(tmp_path / "a.tar.gz", [("top/a.txt", b"one"), ("top/deep/b.txt", b"two")])
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out" / "top" / "deep" / "b.txt").read_bytes() == b"two"


def test_zip_and_gz(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("2750/x.txt", "x")
        archive.writestr("__MACOSX/._x.txt", "shadow")
    (tmp_path / "plain.gz").write_bytes(gzip.compress(b"content"))
    unpack(tmp_path / "a.zip", tmp_path / "out")
    unpack(tmp_path / "plain.gz", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["2750", "plain"]


@pytest.mark.parametrize("name", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt", "..\\evil.txt"])
def test_members_that_climb_out_are_refused(tmp_path, name):
    (tmp_path / "in").mkdir()
    archive = tar(tmp_path / "in" / "a.tar.gz", [(name, b"evil")])
    with pytest.raises(InputError, match=r"a\.tar\.gz has the member .* leads out"):
        unpack(archive, tmp_path / "in" / "out")
    with zipfile.ZipFile(tmp_path / "in" / "b.zip", "w") as zipped:
        zipped.writestr(name.replace("\\", "/"), "evil")
    with pytest.raises(InputError, match="leads out"):
        unpack(tmp_path / "in" / "b.zip", tmp_path / "in" / "out")
    assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    archive = tar(tmp_path / "a.tar.gz", [(link(kind), b"")])
    with pytest.raises(InputError, match="a/link, a link or device"):
        unpack(archive, tmp_path / "out")


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(InputError, match="link or device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip", "a.gz", "a.rar"])
@pytest.mark.parametrize("content", [b"nonsense", b"\x1f\x8b\x08\x00broken"])
def test_damaged_archives_get_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        unpack(tmp_path / name, tmp_path)


def test_encrypted_archives_and_endless_names_are_one_sentence(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "one")
    content = path.read_bytes()
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):  # set the bit of encryption in both headers
        place = content.index(mark) + (6 if mark == b"PK\x03\x04" else 8)
        content = content[:place] + bytes([content[place] | 1]) + content[place + 1 :]
    path.write_bytes(content)
    with pytest.raises(InputError, match="is encrypted"):
        unpack(path, tmp_path / "out")
    for name in ("x" * 300, "a/" * 600 + "b"):
        with pytest.raises(InputError, match="endless name"):
            unpack(tar(tmp_path / "b.tar.gz", [(name, b"")]), tmp_path / "out")
