"""Benchmarks that a user writes in a short YAML file."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpw.benchmarks.benchmark import Benchmark, TaskContext, TaskSource
from dpw.benchmarks.sources import PublicTask
from dpw.data.protocol import Setting, get_protocol
from dpw.data.public import get_dataset
from dpw.data.task import DEFAULT_TEMPLATES, Task
from dpw.data.yaml_text import read_yaml
from dpw.errors import InputError


class _Strict(BaseModel):
    """A part of the file in which unknown words are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_Model = TypeVar("_Model", bound=_Strict)


class _Common(_Strict):
    """What every written task may say."""

    name: str | None = None
    templates: tuple[str, ...] | None = None
    class_names: dict[str, str] = Field(default_factory=dict)
    val_fraction: float = 0.1
    test_fraction: float = 0.2


class _FolderEntry(_Common):
    """A plain image folder."""

    folder: Path


class _TableEntry(_Common):
    """A CSV or Parquet table."""

    table: Path
    root: Path | None = None
    path_column: str = "path"
    label_column: str = "label"
    split_column: str = "split"
    classes: tuple[str, ...] | None = None


class _DatasetEntry(_Common):
    """A Hugging Face dataset."""

    dataset: str
    config: str | None = None
    image_column: str = "image"
    label_column: str = "label"
    train_split: str = "train"
    val_split: str | None = None
    test_split: str | None = "test"
    allow_download: bool = False


class _PublicEntry(_Strict):
    """One of the eleven public datasets."""

    public: str


ENTRIES: dict[str, type[_Strict]] = {
    "folder": _FolderEntry,
    "table": _TableEntry,
    "dataset": _DatasetEntry,
    "public": _PublicEntry,
}


class _File(_Strict):
    """The whole file; tasks are read one by one so that messages can name them."""

    name: str | None = None
    description: str = ""
    setting: Setting = "task-incremental"
    protocol: str = "coop"
    templates: tuple[str, ...] = DEFAULT_TEMPLATES
    shots: int | None = Field(default=None, ge=1)
    merge_equal_names: bool = False
    order: tuple[str, ...] | None = None
    tasks: tuple[dict[str, Any], ...] = Field(min_length=1)


@dataclass(frozen=True)
class WrittenTask:
    """A task from a folder, table or dataset named in the file."""

    name: str
    make: Callable[..., Task]
    source: str
    options: dict[str, Any]

    def load(self, context: TaskContext) -> Task:
        """Read it with the options of the file."""
        return self.make(
            self.source, name=self.name, seed=context.seed, protocol=context.protocol, **self.options
        )

    def sizes(self, protocol: str) -> dict[str, int | None]:  # noqa: ARG002 (unknown before loading)
        """Nothing is known before loading."""
        return {}


def read_benchmark(path: Path) -> Benchmark:
    """Read a benchmark file; paths in it are relative to its own folder."""
    content = read_yaml(path, "a list of tasks")
    file = _validated(_File, content, str(path))
    get_protocol(file.protocol)
    sources = [_source(entry, file, path, number) for number, entry in enumerate(file.tasks, start=1)]
    _refuse_equal_names([source.name for source in sources], path)
    return Benchmark(
        name=file.name or path.stem,
        description=file.description,
        setting=file.setting,
        protocol=file.protocol,
        tasks=in_order(sources, file.order, str(path)),
        merge_equal_names=file.merge_equal_names,
        shots=file.shots,
    )


def in_order(sources: list[TaskSource], order: tuple[str, ...] | None, where: str) -> tuple[TaskSource, ...]:
    """Reorder or shorten a sequence by the names of its tasks."""
    if order is None:
        return tuple(sources)
    by_name = {source.name: source for source in sources}
    for name in order:
        if name not in by_name:
            raise InputError(
                f"order of {where} names {name!r}, but the tasks are {', '.join(by_name)}; use these"
            )
    if not order or len(set(order)) != len(order):
        raise InputError(f"order of {where} must name at least one task and none twice; correct the list")
    return tuple(by_name[name] for name in order)


def _source(entry: dict[str, Any], file: _File, path: Path, number: int) -> TaskSource:
    """Turn one entry into a task source."""
    kinds = [kind for kind in ENTRIES if kind in entry]
    if len(kinds) != 1:
        raise InputError(f"task {number} of {path} must have exactly one of {', '.join(ENTRIES)}; correct it")
    parsed = _validated(ENTRIES[kinds[0]], entry, f"task {number} of {path}")
    if isinstance(parsed, _PublicEntry):
        return PublicTask(get_dataset(parsed.public).name)
    options = {key: value for key, value in parsed.model_dump().items() if key not in (*kinds, "name")}
    options["templates"] = options["templates"] or file.templates
    if isinstance(parsed, _FolderEntry):
        folder = path.parent / parsed.folder
        return WrittenTask(
            parsed.name or Path(os.path.realpath(folder)).name, Task.from_folder, str(folder), options
        )
    if isinstance(parsed, _TableEntry):
        table = path.parent / parsed.table
        options["root"] = None if parsed.root is None else path.parent / parsed.root
        return WrittenTask(parsed.name or table.stem, Task.from_table, str(table), options)
    assert isinstance(parsed, _DatasetEntry)
    local = path.parent / parsed.dataset
    source = str(local) if os.path.isdir(local) else parsed.dataset  # noqa: PTH112
    return WrittenTask(parsed.name or Path(source).name, Task.from_dataset, source, options)


def _validated(model: type[_Model], content: dict[str, Any], where: str) -> _Model:
    """Check a part of the file; the first mistake is one sentence."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(f"{where}: {key}: {first['msg']}; see docs/data.md for what it may say") from error


def _refuse_equal_names(names: list[str], path: Path) -> None:
    """Results are kept by task name, so names must differ."""
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path} has two tasks called {name!r}; give one of them another name")
