"""`dpw play` in a real browser: ask, look inside, teach, forget, bad files, two people, reload, phone."""

import shutil
import socket

import pytest

from tests.helpers.browser import MISSING, Visit, browsing

pytest.importorskip("gradio", reason="gradio is not installed (make browser)")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def free_port() -> int:
    """A port nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def opened(saved, tmp_path_factory):
    """`opened(read_only)` puts a copy of the toy model at an address; gives the address and the folder."""
    from dpw.serving.desk import Desk
    from dpw.serving.play import build, open_page

    pages = []

    def start(read_only=False):
        folder = shutil.copytree(saved[1], tmp_path_factory.mktemp("play") / "model")
        page = build(Desk(str(folder), read_only=read_only))
        pages.append(page)
        return open_page(page, host="127.0.0.1", port=free_port(), browser=False), folder

    yield start
    for page in pages:
        page.close()


@pytest.fixture(scope="module")
def browser():
    with browsing() as one:
        yield one


def files_of(toy, task, label):
    """Test images of one class."""
    return [str(path) for path in sorted((toy / "data" / task / "train" / label).glob("*.png"))]


def drop(visit, where, paths):
    """Give files to a drop area."""
    visit.page.set_input_files(f"#{where} input[type=file]", paths)


def tab(visit, name):
    visit.page.get_by_role("tab", name=name).click()


def test_play(opened, browser, toy, picture, tmp_path):
    address, folder = opened()
    one = Visit(browser, address)
    page = one.page

    drop(one, "files", [str(picture)])
    page.wait_for_selector("#answers .dpw-class")
    card = page.inner_text("#answers")
    assert "task birds" in card
    assert "zero-shot:" in card
    page.wait_for_selector("#why img")
    assert "metals" in page.inner_text("#likelihoods")
    everything = page.get_attribute("#why img", "src")
    page.locator("#layer input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#layer input[type=range]").dispatch_event("pointerup")
    page.wait_for_function("before => document.querySelector('#why img').src !== before", arg=everything)

    page.fill("#classes textarea, #classes input", "oak, fir")
    page.click("#ask")
    page.wait_for_function("document.querySelector('#answers .dpw-class').textContent.match(/oak|fir/)")

    (tmp_path / "bad.png").write_bytes(b"no image")
    two = Visit(browser, address)  # another person, whose page knows nothing of the first
    assert "task birds" not in two.page.inner_text("#answers")
    drop(two, "files", [str(tmp_path / "bad.png")])
    two.page.wait_for_selector("#answers .dpw-bad")
    assert "bad.png is not an image" in two.page.inner_text("#answers .dpw-bad")
    assert "oak" in page.inner_text("#answers") or "fir" in page.inner_text("#answers")

    tab(one, "Teach")
    for label in ("stop", "yield"):
        page.fill("#teach-class textarea, #teach-class input", label)
        drop(one, "teach-files", files_of(toy, "signs", label))
        page.wait_for_function(
            "document.querySelectorAll('#teach-files .file-preview tr, #teach-files table tr').length >= 8"
        )
        page.click("#teach-add")
        page.wait_for_function(f"document.querySelector('#teach-gathered').innerText.includes('{label}: 8')")
    page.fill("#teach-name textarea, #teach-name input", "signs")
    page.click("#teach")
    page.wait_for_selector("#teach-progress progress")
    page.wait_for_function("document.querySelector('#teach-progress').innerText.includes('learned signs')")
    assert any(path.name.startswith("signs-") for path in folder.glob("*.safetensors"))

    assert one.errors == []
    page.reload()
    one.errors.clear()  # gradio complains that its stream was cut off, which is what a reload does
    tab(one, "Tasks")
    page.wait_for_function("document.querySelector('#tasks').innerText.includes('signs')")
    page.click("#forget-which input")
    page.get_by_role("option", name="signs").click()
    page.click("#forget")
    page.wait_for_selector("#forget-yes")
    assert any(path.name.startswith("signs-") for path in folder.glob("*.safetensors"))  # only asked so far
    page.click("#forget-no")
    page.wait_for_selector("#forget-yes", state="hidden")
    page.click("#forget")
    page.click("#forget-yes")
    page.wait_for_function("document.querySelector('#forget-outcome').innerText.includes('forgot signs')")
    assert not any(path.name.startswith("signs-") for path in folder.glob("*.safetensors"))

    for visit in (one, two):
        assert visit.outside() == []
        assert visit.errors == []
        visit.close()


def test_read_only_on_a_phone(opened, browser, picture):
    address, _ = opened(read_only=True)
    phone = Visit(browser, address, viewport={"width": 390, "height": 844})
    drop(phone, "files", [str(picture)])
    phone.page.wait_for_selector("#answers .dpw-class")
    assert [one.inner_text() for one in phone.page.get_by_role("tab").all()] == ["Ask", "Tasks"]
    assert phone.page.locator("#forget").count() == 0
    ends = "[...document.querySelectorAll('#ask, #answers, #why, #classes, #unknown')]"
    assert phone.page.evaluate(f"Math.max(...{ends}.map(one => one.getBoundingClientRect().right))") <= 390
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    fonts = phone.page.evaluate("getComputedStyle(document.querySelector('.gradio-container')).fontFamily")
    assert fonts == "system-ui, sans-serif"
    assert phone.outside() == []
    assert phone.errors == []
    phone.close()
