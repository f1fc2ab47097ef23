"""Names below a root are found; names and links that lead out are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpw.data.root import Root, image_files
from dpw.errors import InputError
from tests.helpers.dataset_layouts import image

parts = st.sampled_from(["..", ".", "", "a", "b.jpg", "c:", "\\", "secret.jpg", "inside"])


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    top = tmp_path_factory.mktemp("top")
    image(top / "secret.jpg", 1)
    image(top / "root" / "a" / "b.jpg", 2)
    image(top / "root" / "b.jpg", 3)
    (top / "root" / "out").symlink_to(top)
    (top / "root" / "inside").symlink_to(top / "root" / "a")
    return Root(top / "root")


@given(st.lists(parts, max_size=5))
def test_no_name_leads_out(root, names):
    name = "/".join(names)
    if root.problem(name, "a list") is None:
        assert (root.path / name).resolve().is_relative_to(root.path)
        assert (root.path / name).exists()


def test_links_that_stay_inside_may_be_followed(root):
    assert root.file("inside/b.jpg", "a list").read_bytes() == (root.path / "a" / "b.jpg").read_bytes()


@pytest.mark.parametrize("name", ["out/secret.jpg", "out"])
def test_links_that_lead_out_are_refused(root, name):
    with pytest.raises(InputError, match="is a link that leads out of"):
        root.file(name, "a list")


@pytest.mark.parametrize("name", ["../secret.jpg", "/etc/passwd", "a/../../secret.jpg", "c:\\x", "c:x", ""])
def test_names_that_lead_out_are_refused(root, name):
    with pytest.raises(InputError, match=r"a list names .* which leads out of"):
        root.file(name, "a list")


def test_a_colon_in_a_name_is_no_drive(tmp_path):
    image(tmp_path / "Star Wars: Episode IV" / "1.jpg", 1)
    assert Root(tmp_path).file("Star Wars: Episode IV/1.jpg", "a list").exists()


def test_images_are_listed_below_every_folder_in_ascii_order(root):
    assert root.images("a") == ["a/b.jpg"]
    assert root.folders() == ["a", "inside", "out"]


def test_one_name_has_one_place(root):
    assert {root.path_text(name) for name in ("a/b.jpg", "./a/b.jpg", "a//b.jpg", "a/./b.jpg")} == {
        str(root.path / "a" / "b.jpg")
    }


def test_images_of_files_and_folders_come_in_order(tmp_path):
    for name in ("b/2.JPG", "b/1.png", "a.jpg", ".x/3.png", "c/notes.txt", "empty/.keep"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "z").symlink_to(tmp_path, target_is_directory=True)
    found = [path.relative_to(tmp_path).as_posix() for path in image_files([tmp_path])]
    assert found == ["a.jpg", "b/1.png", "b/2.JPG", "z"]
    given = [tmp_path / "absent.jpg", tmp_path / "empty", tmp_path / "c" / "notes.txt"]
    assert list(image_files(given)) == given
