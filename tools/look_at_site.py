"""Look at every page of the built site in a headless browser: `python tools/look_at_site.py site`.

Each page is opened from its file, at the width of a desk and of a phone, and as it is printed. It must say
nothing on the console, ask for nothing outside its folder, leave out no level of headings, and cut no table,
formula or picture off: what is too wide must scroll by itself, and on paper nothing scrolls.
Needs `pip install 'dpw[browser]'` and Chromium or Chrome.
"""

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}
PAPER = (688, 1017)  # A4 with the margins of site.css, at 96 points an inch
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# What reaches beyond the right edge of the window and lies in nothing that scrolls or hides it on purpose.
CUT_OFF = """() => {
  const scrolls = element => {
    for (let one = element; one && one !== document.body; one = one.parentElement)
      if (["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX)) return true;
    return false;
  };
  return [...document.querySelectorAll("article table, article math, article img, article svg, article pre")]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one))
    .map(one => `${one.tagName.toLowerCase()} ${(one.textContent || one.alt || "").trim().slice(0, 40)}`);
}"""
# What reaches beyond the edge of a sheet of paper, or of the box it would scroll in on a screen.
CUT_ON_PAPER = """() => [...document.querySelectorAll("article :is(table, math, img, svg)")]
  .filter(one => getComputedStyle(one).display !== "none")
  .filter(one => {
    const box = one.closest(".md-typeset__scrollwrap, .formula, article").getBoundingClientRect();
    return one.getBoundingClientRect().right > Math.min(box.right, innerWidth) + 1;
  })
  .map(one => `${one.tagName.toLowerCase()} ${(one.textContent || one.alt || "").trim().slice(0, 40)}`)"""
HEADINGS = """() => [...document.querySelectorAll("article :is(h1, h2, h3, h4, h5, h6)")]
  .map(one => [Number(one.tagName[1]), one.textContent])"""
WIDER = "() => document.documentElement.scrollWidth > innerWidth + 1"


def find_browser() -> str | None:
    """The path of an installed browser, or None."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Any]:
    """A headless browser that reaches no other machine."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=find_browser(),
            args=["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"],
        )
        try:
            yield started
        finally:
            started.close()


def look(site: Path, pages: Iterable[Path], started: Any, pictures: Path | None = None) -> list[str]:
    """Everything that is wrong with some pages of a site, one sentence each."""
    wrong: list[str] = []
    for kind, (width, height) in WIDTHS.items():
        for scheme in ("light", "dark") if pictures else ("light",):
            context = started.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            for path in pages:
                name = str(path.relative_to(site))
                view = context.new_page()
                wrong += [f"{name} ({kind}): {one}" for one in _look_at(view, site, path)]
                if pictures is not None:
                    view.screenshot(path=pictures / f"{name.replace('/', '-')}-{kind}-{scheme}.png")
                view.close()
            context.close()
    context = started.new_context(viewport=dict(zip(("width", "height"), PAPER, strict=True)))
    for path in pages:
        view = context.new_page()
        view.emulate_media(media="print")
        view.goto(path.resolve().as_uri(), wait_until="load")
        wrong += [f"{path.relative_to(site)} (paper): cut off: {one}" for one in view.evaluate(CUT_ON_PAPER)]
        view.close()
    context.close()
    return list(dict.fromkeys(wrong))


def _look_at(view: Any, site: Path, path: Path) -> list[str]:
    """What is wrong with one page."""
    wrong: list[str] = []
    home = site.resolve().as_uri()
    view.on("console", lambda said: wrong.append(f"console: {said.text}"))
    view.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    view.on(
        "request",
        lambda asked: (
            None if asked.url.startswith((home, "data:", "blob:")) else wrong.append(f"asks for {asked.url}")
        ),
    )
    view.goto(path.resolve().as_uri(), wait_until="load")
    wrong += [f"cut off: {one}" for one in view.evaluate(CUT_OFF)]
    if view.evaluate(WIDER):
        wrong.append("the page itself is wider than the window")
    return wrong + skipped_levels(view.evaluate(HEADINGS))


def skipped_levels(headings: Iterable[tuple[int, str]]) -> list[str]:
    """What is wrong with the order of a page's headings, given as level and text.

    Example:
        >>> skipped_levels([(1, "Page"), (3, "Too deep"), (2, "Chapter")])
        ['the heading Too deep is of level 3 below one of level 1']
    """
    wrong, last = [], 0
    for level, text in headings:
        if level > last + 1:
            wrong.append(f"the heading {text} is of level {level} below one of level {last}")
        last = level
    return wrong


def main() -> int:
    """Look at all pages and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path, help="also keep a picture of every page in this folder")
    chosen = parser.parse_args()
    if find_browser() is None:
        print(f"{chosen.site} was not looked at: no browser is installed")
        return 0
    pages = sorted(path for path in chosen.site.rglob("*.html") if path.name != "404.html")  # of servers only
    if chosen.pictures is not None:
        chosen.pictures.mkdir(parents=True, exist_ok=True)
    with browser() as started:
        wrong = look(chosen.site, pages, started, chosen.pictures)
    print("\n".join([*wrong, f"looked at {len(pages)} pages, found {len(wrong)} mistakes"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
