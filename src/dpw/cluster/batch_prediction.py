"""Predictions for more images than one process can do: shards of images, one file of answers for each.

Images are listed once and cut into shards. A shard is answered by one worker and written as one Parquet file
that is there whole or not at all, under a name that only this shard has. So a shard that is answered again,
because its worker died, replaces the same file: there is exactly one row for each image.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpw.cluster.workers import worker_failed
from dpw.data.root import image_files
from dpw.errors import DpwError, InputError
from dpw.learner import ContinualCLIP
from dpw.storage import files
from dpw.storage.model_folder import digest as model_digest

MANIFEST = "_dpw.json"
COLUMNS = ("image", "class", "probability", "task", "confidence", "typicality", "error", "alternatives")
SHARD = 2048  # images of one shard
BATCH = 64  # rows of a Parquet file that are held at once
SENTENCE = "sentence"  # why a worker could not answer a shard at all
BYTES = "bytes"  # of a column of images in a Parquet file, as `datasets` writes them


@dataclass(frozen=True)
class Question:
    """What is asked about every image: a model, and between which classes it chooses."""

    model: str
    classes: tuple[str, ...] | None = None
    template: str = "a photo of a {}."
    top: int = 1
    unknown: float | None = None
    backbone: str | None = None


@dataclass(frozen=True)
class Shard:
    """Some of the images: files, or the rows of a Parquet file from `start` to `stop`."""

    number: int
    names: tuple[str, ...] = ()
    table: str | None = None
    start: int = 0
    stop: int = 0

    @property
    def count(self) -> int:
        """How many images there are."""
        return len(self.names) or self.stop - self.start

    @property
    def file(self) -> str:
        """The file of its answers."""
        return f"part-{self.number:06d}.parquet"


# ------------------------------------------------------------------------------------- what is asked about


def shards(source: str, size: int = SHARD) -> list[Shard]:
    """The images of a folder, a Parquet file or a bucket (`s3://...`, `gs://...`), in an order that stays."""
    if source.endswith(".parquet"):
        with _readable(source):
            table = _table(source)
            _image_column(source, table)  # a mistake is found before the work
            rows = table.metadata.num_rows
        starts = range(0, rows, size)
        return [
            Shard(number, (), source, start, min(start + size, rows)) for number, start in enumerate(starts)
        ]
    if "://" not in source and not Path(source).exists():
        raise InputError(f"there is no {source}: give a folder, a Parquet file or a bucket of images")
    names = _bucket_images(source) if "://" in source else map(str, image_files([Path(source)]))
    return list(_cut(names, size))


def _table(source: str) -> Any:
    """A Parquet file."""
    import pyarrow.parquet as pq

    system, path = _file_system(source)
    return pq.ParquetFile(path, filesystem=system)


def _cut(names: Iterable[str], size: int) -> Iterator[Shard]:
    """Names in shards of a size."""
    held: list[str] = []
    number = 0
    for name in names:
        held.append(name)
        if len(held) == size:
            yield Shard(number, tuple(held))
            held, number = [], number + 1
    if held:
        yield Shard(number, tuple(held))


def _file_system(source: str) -> tuple[Any, str]:
    """The file system of an address and the path on it; plain paths are of this machine."""
    from pyarrow import fs

    if "://" not in source:
        if not Path(source).exists():
            raise InputError(f"there is no {source}: give a folder, a Parquet file or a bucket of images")
        return fs.LocalFileSystem(), source
    with _readable(source):
        found: tuple[Any, str] = fs.FileSystem.from_uri(source)
        return found


@contextmanager
def _readable(source: str) -> Iterator[None]:
    """Turn what Arrow says about an address or a file that it cannot open into one sentence."""
    from pyarrow import ArrowException

    try:
        yield
    except InputError:  # a ValueError that is a sentence already
        raise
    except (ArrowException, OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(
            f"{source} cannot be opened ({reason:.300}): mend the address, the rights or the file"
        ) from error


def _bucket_images(source: str) -> list[str]:
    """The addresses of all images in a bucket below a prefix, sorted."""
    from PIL import Image
    from pyarrow import fs

    system, path = _file_system(source)
    with _readable(source):
        found = system.get_file_info(fs.FileSelector(path, recursive=True))
    known = tuple(Image.registered_extensions())
    scheme = source.partition("://")[0]
    names = [one.path for one in found if one.is_file and one.path.lower().endswith(known)]
    return [f"{scheme}://{name}" for name in sorted(names)]


# ------------------------------------------------------------------------------------------------ the answers


@lru_cache(maxsize=1)
def _learner(question: Question) -> ContinualCLIP:
    """The model, loaded once in every process."""
    return ContinualCLIP.from_pretrained(question.model, backbone=question.backbone, allow_download=False)


def answer(shard: Shard, question: Question, folder: Path) -> dict[str, int]:
    """Answer one shard and commit its file; gives how many images it has and how many could not be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names, images = _images(shard)
    found = _learner(question).predict_stream(
        images,
        classes=question.classes,
        template=question.template,
        top=question.top,
        unknown=question.unknown,
    )
    rows = [{**one.as_json(), "image": name} for name, one in zip(names, found, strict=True)]
    for row in rows:
        row["alternatives"] = json.dumps(row["alternatives"])
        for key in ("image", "error"):  # names of files need not be text, cells of a table must
            row[key] = row[key] and row[key].encode("utf-8", "backslashreplace").decode()
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=_schema()), sink)
    files.write_bytes(folder / shard.file, sink.getvalue().to_pybytes())
    failed = sum(row["error"] is not None for row in rows)
    return {"shard": shard.number, "images": len(rows), "failed": failed, "worker": os.getpid()}


def _schema() -> Any:
    """The columns of an answer; alternatives are JSON."""
    import pyarrow as pa

    numbers = {"probability", "confidence", "typicality"}
    return pa.schema([(name, pa.float64() if name in numbers else pa.string()) for name in COLUMNS])


def _images(shard: Shard) -> tuple[list[str], Iterator[Any]]:
    """The names of a shard's images, and the images one after another as they are asked for."""
    if shard.table is not None:
        return _table_images(shard)
    if shard.names and "://" in shard.names[0]:
        return list(shard.names), (_bucket_image(name) for name in shard.names)
    return list(shard.names), (Path(name) for name in shard.names)


class NamedImage(io.BytesIO):
    """The content of an image with the name that its error would give; `why` it could not be fetched."""

    def __init__(self, content: bytes, name: str, why: str | None = None) -> None:
        """Hold it."""
        super().__init__(content)
        self.name, self.why = name, why

    def read(self, size: int | None = -1) -> bytes:
        """The content, or why there is none."""
        if self.why is not None:
            raise OSError(self.why)
        return super().read(size)


def _bucket_image(name: str) -> NamedImage:
    """A file in a bucket; one that cannot be fetched says so when it is read."""
    try:
        system, path = _file_system(name)
        with system.open_input_file(path) as file:
            return NamedImage(file.read(), name)
    except (OSError, InputError) as error:
        return NamedImage(b"", name, next(iter(str(error).splitlines()), "cannot be fetched"))


def _table_images(shard: Shard) -> tuple[list[str], Iterator[Any]]:
    """Rows of a Parquet file: a column of images (bytes, or the struct of `datasets`), and perhaps `path`."""
    assert shard.table is not None
    with _readable(shard.table):
        file = _table(shard.table)
        column = _image_column(shard.table, file)
        called = [f"row {row}" for row in range(shard.start, shard.stop)]
        if "path" in file.schema_arrow.names:
            called = [str(path) for path in _values(file, "path", shard)]
    return called, _named(shard, file, column, called)


def _named(shard: Shard, file: Any, column: str, names: Sequence[str]) -> Iterator[NamedImage]:
    """The images of a shard one after another, as they are asked for."""
    assert shard.table is not None
    with _readable(shard.table):
        for name, value in zip(names, _values(file, column, shard), strict=True):
            yield NamedImage(_content(value), name)


def _image_column(source: str, file: Any) -> str:
    """The column of a Parquet file that holds images."""
    names = file.schema_arrow.names
    for name in ("image", BYTES):
        if name in names:
            return name
    raise InputError(f"{source} has the columns {', '.join(names)}; one must be called image")


def _values(file: Any, column: str, shard: Shard) -> Iterator[Any]:
    """A shard's rows of one column, a few at a time; only the row groups that hold them are read."""
    first = 0
    for group in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if first < shard.stop and first + count > shard.start:
            start = first
            for batch in file.iter_batches(BATCH, row_groups=[group], columns=[column]):
                low, high = max(shard.start - start, 0), min(shard.stop - start, len(batch))
                if low < high:
                    yield from batch.column(0).slice(low, high - low).to_pylist()
                start += len(batch)
        first += count


def _content(value: Any) -> bytes:
    """The bytes of an image in a table; a missing one is no image."""
    held = value.get(BYTES) if isinstance(value, dict) else value
    return held if isinstance(held, bytes) else b""


# ---------------------------------------------------------------------------------------------- all shards


def prepare(source: str, question: Question, target: Path, size: int = SHARD) -> list[Shard]:
    """The shards that are not answered yet; answers of another question or other images are refused."""
    found = shards(source, size)
    if not found:
        raise InputError(f"{source} holds no images: give a folder, a Parquet file or a bucket of images")
    manifest = target / MANIFEST
    if not manifest.is_file() and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} is there already and no folder of predictions: choose another --to")
    digest = hashlib.sha256()
    for one in found:
        digest.update(json.dumps(asdict(one)).encode())
    learner = _learner(question)
    learner.question(question.classes, question.template)  # mistakes are found before the work
    wanted = {
        "images": digest.hexdigest(),
        "question": json.loads(json.dumps(asdict(question))),
        "model": model_digest(learner.method),
    }
    if manifest.is_file():
        stored = files.read_json(manifest, "folder of predictions")
        if {key: stored.get(key) for key in wanted} != wanted:
            raise InputError(
                f"{target} holds answers to another question, of another model or about other images: choose "
                "another --to"
            )
    files.write_json(manifest, {"format": files.FORMAT, **wanted})
    return [one for one in found if not (target / one.file).is_file()]


class Answering:
    """A worker that answers shards, with the model in memory."""

    def __init__(self, question: Question, target: Path) -> None:
        """The model is loaded with the first shard."""
        self.question, self.target = question, target

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """One shard; a sentence for the user comes back as a value, since Ray would bury an exception."""
        given = json.loads(row["shard"])
        shard = Shard(**{**given, "names": tuple(given["names"])})
        try:
            return {**answer(shard, self.question, self.target), SENTENCE: ""}
        except DpwError as error:
            nothing = {"shard": shard.number, "images": 0, "failed": 0, "worker": os.getpid()}
            return {**nothing, SENTENCE: str(error)}


def predict_on_cluster(
    ray: Any, left: Sequence[Shard], question: Question, target: Path, workers: int
) -> Iterator[Mapping[str, int]]:
    """Answer shards by Ray Data as they stream through a pool of workers, each with the model in memory.

    Raises:
        InputError: a worker could not go on, with its sentence; what was answered is kept.
    """
    from ray.data import ActorPoolStrategy, DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.max_errored_blocks = 0
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    items = [{"shard": json.dumps(asdict(one))} for one in left]  # names travel with their shard alone
    rows = ray.data.from_items(items, override_num_blocks=len(items))
    answered = rows.map(
        Answering,
        fn_constructor_args=(question, target),
        compute=ActorPoolStrategy(min_size=1, max_size=min(workers, len(left))),
        num_cpus=1,
        num_gpus=gpus,
        max_restarts=-1,
        max_task_retries=-1,
    )
    try:
        for one in answered.iter_rows():
            if one[SENTENCE]:
                raise InputError(one[SENTENCE])
            yield one
    except ray.exceptions.RayError as error:
        raise InputError(worker_failed(error)) from error
