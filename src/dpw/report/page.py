"""One HTML file that needs nothing else: no network, light and dark, phone and paper, tables that sort."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dpw.report.style import Picture, inline_svg
from dpw.report.tables import Cell, Table, exact, shown

PIXELS_PER_INCH = 96
WRITTEN_BY = b"ritten by dpw "  # in every page, so that no other page is ever replaced
# The one script of a page: a click on the head of a column sorts its table, a second one the other way.
SCRIPT = """
for (const head of document.querySelectorAll("th button")) head.addEventListener("click", () => {
  const cell = head.parentElement, body = cell.closest("table").tBodies[0];
  const down = cell.getAttribute("aria-sort") !== "descending";
  const value = row => row.cells[cell.cellIndex].dataset.value ?? row.cells[cell.cellIndex].textContent;
  const order = (a, b) => value(a) === "–" ? 1 : value(b) === "–" ? -1
    : value(a).localeCompare(value(b), "en", {numeric: true}) * (down ? -1 : 1);
  const exact = (a, b) => value(b) - value(a) ? (value(b) - value(a)) * (down ? 1 : -1) : order(a, b);
  for (const other of cell.parentElement.cells) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...[...body.rows].sort(cell.classList.contains("number") ? exact : order));
});
"""
ALLOWED = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{ALLOWED}'"

CSS = """
:root { color-scheme: light dark; --ink: #1a1a1b; --paper: #ffffff; --soft: #f4f5f7; --line: #c8c8c9;
  --link: #005a8e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ea; --paper: #17181b; --soft: #222429;
  --line: #4a4c52; --link: #7cc4f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1.25rem 4rem; max-width: 64rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.3rem; margin-top: 2.5rem;
  border-top: 2px solid var(--line); padding-top: 1rem; } h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
a { color: var(--link); } nav ul { padding-left: 1.2rem; margin: .2rem 0; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; width: max-content; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top;
  max-width: 36rem; }
td.number, th.number { text-align: right; white-space: nowrap; }
thead th { background: var(--soft); } tbody th { font-weight: 600; white-space: nowrap; }
tbody tr:hover { background: var(--soft); } tr.published { font-style: italic; }
figure { margin: .4rem 0 1rem; } figcaption, .note { font-size: .875rem; margin: .35rem 0; }
figure svg { display: block; height: auto; } .files { font-size: .8rem; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid var(--link); }
th button::after { content: " ↕"; opacity: .35; } th[aria-sort] button::after { opacity: 1; }
th[aria-sort=descending] button::after { content: " ↓"; }
th[aria-sort=ascending] button::after { content: " ↑"; }
.finding { font-size: 1.1rem; padding: .6rem .9rem; background: var(--soft);
  border-left: 4px solid var(--link); }
@media screen and (min-width: 84rem) { body { max-width: 116rem; display: grid; column-gap: 2.5rem;
  grid-template-columns: 15rem minmax(0, 1fr); align-items: start; }
  body > h1, body > p { grid-column: 1 / -1; }
  nav { position: sticky; top: 1rem; font-size: .9rem; } .pictures { display: grid; column-gap: 2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(34rem, 100%), 1fr)); }
  .beside { display: grid; column-gap: 2rem; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); } }
@media (max-width: 40rem) { body { padding: .6rem .7rem 3rem; font-size: 15px; } h1 { font-size: 1.3rem; }
  tbody th { position: sticky; left: 0; background: var(--paper); } }
@media print { :root { --ink: #000; --paper: #fff; --soft: #fff; --line: #999; --link: #000; }
  body { max-width: none; padding: 0; font-size: 10pt; } nav, .files { display: none; }
  th button::after { content: none; }
  .wide { overflow: visible; } table { font-size: 7.5pt; width: auto; } th, td { padding: .1rem .25rem; }
  tbody th, td.number, th.number { white-space: normal; }
  figure, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  figure svg { min-width: 0 !important; max-width: min(100%, 13cm) !important; } }
"""


@dataclass(frozen=True)
class Part:
    """A heading with what stands below it: tables and pictures in order."""

    title: str
    anchor: str
    content: tuple[Table | Picture, ...]


@dataclass(frozen=True)
class Chapter:
    """All parts of one comparison, and in a sentence what came out."""

    title: str
    anchor: str
    parts: tuple[Part, ...]
    finding: str = ""


def page(title: str, introduction: str, chapters: Sequence[Chapter], files: str) -> str:
    """The whole document; `files` is the folder beside it with PNG, SVG and CSV."""
    body = "\n".join(_chapter(chapter, files) for chapter in chapters)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Without an own icon a browser would ask the server for one.
        '<link rel="icon" href="data:,">\n'
        # The browser itself refuses whatever would leave the page.
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<p>{escape(introduction)}</p>\n{_contents(chapters)}\n<main>\n{body}\n</main>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _contents(chapters: Sequence[Chapter]) -> str:
    """Links to all parts."""
    lines = []
    for chapter in chapters:
        parts = "".join(
            f'<li><a href="#{part.anchor}">{escape(part.title)}</a></li>' for part in chapter.parts
        )
        lines.append(f'<p><a href="#{chapter.anchor}">{escape(chapter.title)}</a></p><ul>{parts}</ul>')
    return f'<nav aria-label="contents">{"".join(lines)}</nav>'


def _chapter(chapter: Chapter, files: str) -> str:
    """One comparison."""
    parts = "\n".join(_part(part, files) for part in chapter.parts)
    found = f'<p class="finding">{escape(chapter.finding)}</p>\n' if chapter.finding else ""
    return f'<section>\n<h2 id="{chapter.anchor}">{escape(chapter.title)}</h2>\n{found}{parts}\n</section>'


def _part(part: Part, files: str) -> str:
    """One heading and its content."""
    tables = [table_html(one, files) for one in part.content if isinstance(one, Table)]
    pictures = [picture_html(one, files) for one in part.content if isinstance(one, Picture)]
    drawn = ['<div class="pictures">', *pictures, "</div>"] if pictures else []
    below = [*drawn, *tables]
    if len(pictures) == 1 and tables:  # side by side where there is room
        below = ['<div class="beside"><div>', *pictures, "</div><div>", *tables, "</div></div>"]
    return "\n".join([f'<h3 id="{part.anchor}">{escape(part.title)}</h3>', *below])


def table_html(table: Table, files: str) -> str:
    """A real HTML table; the unrounded number stands in `data-value`."""
    numeric = [
        any(exact(row[column]) is not None for row in table.rows) for column in range(len(table.header))
    ]
    head = "".join(
        f'<th scope="col"{_number(is_number)}><button>{escape(name)}</button></th>'
        for name, is_number in zip(table.header, numeric, strict=True)
    )
    body = "\n".join(_row(row, numeric) for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>\n' if table.note else ""
    return (
        f'<div class="wide"><table id="table-{table.name}" aria-label="{escape(table.title)}">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n"
        f'{note}<p class="files"><a href="{escape(files)}/{table.name}.csv">CSV</a></p>'
    )


def _row(row: Sequence[Cell], numeric: Sequence[bool]) -> str:
    """One line; its first cell is its name."""
    published = ' class="published"' if str(row[0]).endswith("(published)") else ""
    cells = [f'<th scope="row">{escape(shown(row[0]))}</th>']
    for cell, is_number in zip(row[1:], numeric[1:], strict=True):
        value = exact(cell)
        data = "" if value is None else f' data-value="{value!r}"'
        cells.append(f"<td{_number(is_number)}{data}>{escape(shown(cell))}</td>")
    return f"<tr{published}>{''.join(cells)}</tr>"


def _number(is_number: bool) -> str:
    """The class of numeric cells."""
    return ' class="number"' if is_number else ""


def picture_html(picture: Picture, files: str) -> str:
    """A drawing inside the page, with its caption and its files."""
    pixels = round(picture.width * PIXELS_PER_INCH)
    size = f"width: 100%; max-width: {pixels}px; min-width: {min(pixels, 460)}px"
    label = f'role="img" aria-label="{escape(picture.title)}" style="{size}"'
    svg = inline_svg(picture).replace("<svg ", f"<svg {label} ", 1)
    kinds = ("png", "svg", "csv") if picture.csv else ("png", "svg")
    links = " · ".join(
        f'<a href="{escape(files)}/{picture.name}.{kind}">{kind.upper()}</a>' for kind in kinds
    )
    return (
        f'<figure id="figure-{picture.name}"><div class="wide">{svg}</div>\n'
        f'<figcaption>{escape(picture.caption)} <span class="files">{links}</span></figcaption></figure>'
    )
