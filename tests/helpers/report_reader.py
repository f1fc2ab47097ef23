"""Read a report back: its tables by id, and everything it refers to."""

from html.parser import HTMLParser


class ReportReader(HTMLParser):
    """Collects tables (text and unrounded values), references, figures and headings of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, float | None]]]] = {}
        self.references: list[str] = []
        self.figures: list[str] = []
        self.headings: list[str] = []
        self._table: list[list[tuple[str, float | None]]] | None = None
        self._cell: list | None = None
        self._heading = False

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.references += [values[name] for name in ("src", "href", "xlink:href") if values.get(name)]
        if tag == "table":
            self._table = self.tables.setdefault(values["id"].removeprefix("table-"), [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            value = values.get("data-value")
            self._cell = ["", None if value is None else float(value)]
        elif tag == "figure":
            self.figures.append(values["id"].removeprefix("figure-"))
        self._heading = tag in ("h1", "h2", "h3")
        if self._heading:
            self.headings.append("")

    def handle_data(self, data):
        if self._cell is not None:
            self._cell[0] += data
        elif self._heading:
            self.headings[-1] += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._table[-1].append(tuple(self._cell))
            self._cell = None
        self._heading = False


def read_report(path) -> ReportReader:
    """The report at a path."""
    reader = ReportReader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader
