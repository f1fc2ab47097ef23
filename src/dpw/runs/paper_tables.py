"""Every table and figure of the paper as runs: which methods, presets and benchmarks stand in it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpw.errors import InputError
from dpw.methods.dpw import ablations
from dpw.runs.published import ABLATIONS, FIGURES, Published

# Rows of analysis tables that are the method itself.
ITSELF = frozenset(
    f"ablation/{name}" for table in ablations.TABLES.values() for name, preset in table.items() if not preset
) | {"ablation/prefix-x1", "ablation/adapter-svd", "ablation/heads-adaptive"}


@dataclass(frozen=True)
class Line:
    """One row: a run, and what the paper prints for it, if it does."""

    method: str
    preset: str = "default"
    settings: Mapping[str, Any] = field(default_factory=dict)
    benchmark: str = "mtil"
    protocol: str = "coop"
    printed: Published | None = None
    called: str = ""
    """The preset by its name in this table, where the run is that of another table's row."""

    @property
    def label(self) -> str:
        """The row in words."""
        name = self.called or self.preset
        preset = "" if name == "default" else f" {name.removeprefix('ablation/')}"
        chosen = "".join(f" {name}={value}" for name, value in self.settings.items())
        return f"{self.method}{preset}{chosen}"


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper."""

    name: str
    title: str
    lines: tuple[Line, ...]


def _printed(method: str, preset: str, benchmark: str) -> Published | None:
    """The row of a method as the paper prints it, or None."""
    same = (row for row in (*FIGURES, *ABLATIONS) if (row.method, row.benchmark) == (method, benchmark))
    return next((row for row in same if row.preset == preset), None)


def _main(name: str, title: str, *benchmarks: str) -> PaperTable:
    """A table of methods, each under the benchmark and protocol of its own printed row."""
    rows = [row for row in FIGURES if row.benchmark in benchmarks and "DPW" in row.source]
    lines = (Line(row.method, row.preset, {}, row.benchmark, row.protocol, row) for row in rows)
    return PaperTable(name, title, tuple(lines))


def _analysis(name: str, title: str, presets: Iterable[str]) -> PaperTable:
    """A table of variants of the method on MTIL order I; rows with the same settings share their run."""
    named = dict.fromkeys("default" if f"ablation/{p}" in ITSELF else f"ablation/{p}" for p in presets)
    lines = (
        Line("dpw", _same_run(preset), printed=_printed("dpw", preset, "mtil"), called=preset)
        for preset in named
    )
    return PaperTable(name, title, tuple(lines))


def _same_run(preset: str) -> str:
    """The first preset with the same settings: `ablation/softmax` is `ablation/repa` under another name."""
    known = ablations.presets()
    return next((name for name in known if preset in known and known[name] == known[preset]), preset)


def _methods(name: str, title: str, *methods: str) -> PaperTable:
    """A table of whole methods on MTIL order I."""
    rows = [(method, _printed(method, "default", "mtil")) for method in methods]
    lines = (Line(m, protocol=row.protocol if row else "coop", printed=row) for m, row in rows)
    return PaperTable(name, title, tuple(lines))


def _prefix_lengths() -> PaperTable:
    """Parameters against accuracy of the reduced method and of DIKI; the figure prints no numbers."""
    own = [f"ablation/{name}" for name in ablations.PREFIXES]
    lines = [Line("dpw-reduced", "default" if preset in ITSELF else preset) for preset in own]
    lines += [Line("diki", settings={} if n == 8 else {"prefix_length": n}) for n in (4, 8, 16, 32)]
    return PaperTable("prefix-length", "Prefix length (figure)", tuple(lines))


def _figures() -> PaperTable:
    """What the figures look into: the method, and DIKI's scores and a uniform adapter weight beside it."""
    lines = [Line("dpw"), Line("diki"), Line("dpw", "ablation/weight-uniform")]
    lines = [replace(line, printed=_printed(line.method, line.preset, "mtil")) for line in lines]
    return PaperTable("figures", "Figures of the analysis", tuple(lines))


_ADAPTER_WEIGHTS = ("no-rwm", *ablations.ADAPTER_WEIGHTS)

TABLES: dict[str, PaperTable] = {
    table.name: table
    for table in (
        _main("mtil", "MTIL, order I", "mtil"),
        _main("mtil-order2", "MTIL, order II", "mtil-order2"),
        _main("odcl-cil", "ODCL-CIL", "odcl-cil", "odcl-cil-merged"),
        _main("mtil-fs", "MTIL-FS, 16 images a class", "mtil-fs"),
        _analysis("ablations", "The three modules", ablations.MODULES),
        _analysis("scores", "What the scores are made of", ablations.SCORES),
        _analysis("condact", "How scores become weights", ablations.ACTIVATIONS),
        _analysis("cutoff", "Fixed cut-offs against the dynamic one (figure)", ablations.CUTOFFS),
        _prefix_lengths(),
        _analysis("adapter-weight", "What the adapter is weighted by", _ADAPTER_WEIGHTS),
        _analysis("adapter", "The adapter's way down", ablations.ADAPTERS),
        _analysis("heads", "Heads of the prefix branch", ablations.HEADS),
        _methods("throughput", "Inference time", "moe-adapters", "diki", "dpw-reduced", "dpw"),
        _figures(),
    )
}


def refuse_unknown_table(name: str) -> None:
    """Refuse a table that the paper does not have."""
    if name not in (*TABLES, "all"):
        raise InputError(f"no table is called {name!r}; there are {', '.join(TABLES)} and all")


def lines_of(name: str) -> list[Line]:
    """The rows of a table, or of `all` tables, each run once."""
    chosen = TABLES.values() if name == "all" else [TABLES[name]]
    found = {_key(line): line for table in chosen for line in table.lines}
    return list(found.values())


def _key(line: Line) -> tuple[str, ...]:
    """What makes a run: not what is printed beside it."""
    return (line.method, line.preset, str(dict(line.settings)), line.benchmark, line.protocol)
