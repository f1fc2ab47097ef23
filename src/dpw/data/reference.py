"""Data beyond the task that some methods look at: unlabelled images, sentences, images with prompts.

A setting names it by a word or a path; what a program gives through `method.reference` is used where no
setting does. Which rows a step sees depends only on the seed, the task's name and the step.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from dpw.clip.backbone import Backbone
from dpw.data.hub_task import HubImages, refuse_outside
from dpw.data.pixels import PixelCache
from dpw.data.root import Root
from dpw.data.split import Split
from dpw.data.task import Task
from dpw.errors import InputError

OWN_IMAGES = "task"
OWN_PROMPTS = "class-prompts"
PROMPTS_FILE = "prompts.csv"
# Tables of images with prompts, with their two columns: ours, and that of GIFT's authors.
PAIR_TABLES = {PROMPTS_FILE: ("file", "prompt"), "image_text.csv": ("image", "text")}
SENTENCE_COLUMNS = ("sentence", "caption", "prompt", "text", "title")
_IMAGE_PLACE = re.compile(r"://|\.(jpe?g|png|webp|gif|bmp|tiff?)$")  # an address, or a file


@dataclass(frozen=True)
class Pairs:
    """Images with one prompt each."""

    images: Split
    prompts: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse lists of different length."""
        if len(self.images) != len(self.prompts):
            raise InputError(f"{len(self.prompts)} prompts for {len(self.images)} images; give one for each")

    def first(self, count: int) -> "Pairs":
        """At most the first `count` pairs."""
        return Pairs(self.images[:count], self.prompts[:count])


@dataclass(frozen=True)
class ReferenceData:
    """Reference data handed over by a program, such as a benchmark that brings its own."""

    images: Split | None = None
    sentences: tuple[str, ...] | None = None
    pairs: Pairs | None = None


# ------------------------------------------------------------------------------------- what a setting names


def reference_images(setting: str | None, given: ReferenceData, task: Task, method: str) -> Split:
    """Unlabelled images: `task` (its own training images), a folder of images, or a saved dataset."""
    if setting == OWN_IMAGES:
        return task.train
    if setting is not None:
        return _images_at(Path(setting))
    if given.images is None:
        raise InputError(
            f"method {method!r} needs images beside the task's: give reference_images=FOLDER "
            f"(images, or a dataset saved by `save_to_disk`) or reference_images={OWN_IMAGES}"
        )
    return given.images


def reference_sentences(
    setting: str | None, given: ReferenceData, task: Task, method: str
) -> tuple[str, ...]:
    """Sentences: `class-prompts` (the task's own), a captions file, or a saved dataset."""
    if setting == OWN_PROMPTS:
        return tuple(task.prompts())
    if setting is not None:
        return read_sentences(Path(setting))
    if given.sentences is None:
        raise InputError(
            f"method {method!r} needs sentences beside the task's prompts: give reference_sentences=FILE "
            f"(one a line, or .csv, .tsv, .jsonl) or reference_sentences={OWN_PROMPTS}"
        )
    return given.sentences


def reference_pairs(setting: str | None, given: ReferenceData, task: Task, method: str) -> Pairs:
    """Images with prompts: a folder with a table of both (`read_pairs`), or such a folder for each task."""
    if setting is not None:
        own = Path(setting) / task.name
        return read_pairs(own if own.is_dir() else Path(setting))
    if given.pairs is None:
        raise InputError(
            f"method {method!r} needs images with prompts: give synthetic=FOLDER with {PROMPTS_FILE} in it "
            "(columns file and prompt), or diffusion=PIPELINE to make them"
        )
    return given.pairs


def check_reference(config: Any, given: ReferenceData, tasks: Sequence[Task], method: str) -> None:
    """Look at the reference data that settings name or the method needs, before anything is learned.

    What a method can do without, or makes itself before a task, is not asked for.
    """
    needed = getattr(config, "needed_reference", ())
    images = getattr(config, "reference_images", None)
    if images != OWN_IMAGES and (images is not None or "reference_images" in needed):
        reference_images(images, given, tasks[0], method)
    sentences = getattr(config, "reference_sentences", None)
    if sentences != OWN_PROMPTS and (sentences is not None or "reference_sentences" in needed):
        reference_sentences(sentences, given, tasks[0], method)
    pairs = getattr(config, "synthetic", None)
    if (pairs is not None or "synthetic" in needed) and getattr(config, "diffusion", None) is None:
        for task in tasks:
            reference_pairs(pairs, given, task, method)


# ------------------------------------------------------------------------------------------- reading files


def read_sentences(path: Path) -> tuple[str, ...]:
    """Sentences of a text file (one a line), a table with a column of sentences, or a saved dataset."""
    if path.is_dir():
        rows = _saved_dataset(path)
        column = _sentence_column(rows.column_names, path)
        found = [str(sentence) for sentence in rows[column]]
    elif not path.is_file():
        raise InputError(f"reference_sentences names {path}, which does not exist; give a file of sentences")
    else:
        try:
            found = _sentences_in(path, path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeError, csv.Error, RecursionError) as error:
            raise InputError(f"{path} cannot be read ({error}); save it as text in UTF-8") from error
    sentences = tuple(sentence.strip() for sentence in found if sentence.strip())
    if not sentences:
        raise InputError(f"{path} holds no sentence; put one in every line")
    return sentences


def has_pairs(folder: Path) -> bool:
    """Whether a folder holds a table of images with prompts."""
    return any((folder / name).is_file() for name in PAIR_TABLES)


def read_pairs(folder: Path) -> Pairs:
    """Images and prompts of a folder with `prompts.csv` or GIFT's `image_text.csv`; rows keep their order."""
    root = Root(folder)
    name = next((name for name in PAIR_TABLES if (folder / name).is_file()), PROMPTS_FILE)
    file, prompt = PAIR_TABLES[name]
    table = root.required(name, f"write a table with the columns {file} and {prompt}")
    try:
        with table.open(encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeError, csv.Error) as error:
        raise InputError(f"{table} cannot be read ({error}); save it as CSV in UTF-8") from error
    if not rows or not {file, prompt} <= rows[0].keys():
        raise InputError(f"{table} needs the columns {file} and {prompt} and at least one row; write them")
    for number, row in enumerate(rows, start=2):
        if not row[file] or not row[prompt]:
            raise InputError(f"line {number} of {table} lacks a {file} or a {prompt}; complete or remove it")
    if name != PROMPTS_FILE:
        # The authors' table names files by where they were made, and also those that a filter removed.
        rows = [row | {file: PurePosixPath(row[file]).name} for row in rows]
        rows = [row for row in rows if (folder / row[file]).is_file()]
        if not rows:
            raise InputError(f"no image that {table} names lies beside it; put the images there")
    paths = [root.file(row[file], str(table)) for row in rows]
    return Pairs(Split.from_files(paths, [0] * len(paths)), tuple(row[prompt] for row in rows))


def _images_at(path: Path) -> Split:
    """All images below a folder, or those of a dataset saved there."""
    if not path.is_dir():
        raise InputError(f"reference_images names {path}, which is no folder; give a folder with images")
    if _is_saved_dataset(path):
        import datasets

        rows = _saved_dataset(path)
        column = _image_column(rows, path)
        encoded = rows.cast_column(column, datasets.Image(decode=False))
        return Split(HubImages(encoded, column, str(path), path), [0] * len(rows))
    root = Root(path)
    names = root.images(".")
    if not names:
        raise InputError(f"{path} holds no images; give a folder with images")
    return Split.from_files([root.file(name, "the folder") for name in names], [0] * len(names))


def _sentences_in(path: Path, text: str) -> list[str]:
    """The sentences of a file by the kind its suffix says."""
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        try:
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
            return [str(row[_sentence_column(list(row), path)]) for row in rows]
        except (ValueError, TypeError) as error:
            raise InputError(f"{path} is no JSON Lines file of objects ({error}); correct it") from error
    if suffix in (".csv", ".tsv"):
        return _sentences_of_table(path, _table_rows(text, quoted=suffix == ".csv"))
    return text.splitlines()


def _table_rows(text: str, quoted: bool) -> list[list[str]]:
    """The rows of a table; tabs separate where the first line has one, whatever the file is called.

    In `.tsv` files, such as those of Conceptual Captions, a quote is a letter like any other. Semicolons, as
    some spreadsheets write, separate where they part a known column from the rest of the header.
    """
    first, _, _ = text.partition("\n")
    names = {name.strip().strip('"').lower() for name in first.split(";")}
    comma = ";" if ";" in first and names & set(SENTENCE_COLUMNS) else ","
    separator = comma if quoted and "\t" not in first else "\t"
    lines = io.StringIO(text, newline="")
    if quoted:
        return [row for row in csv.reader(lines, delimiter=separator) if row]
    return [row for row in csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE) if row]


def _sentences_of_table(path: Path, rows: list[list[str]]) -> list[str]:
    """The column of sentences; without a header, as in Conceptual Captions, the first.

    Only a table of sentences alone, or of sentences and where their images are, can do without one.
    """
    if not rows:
        return []
    names = [name.strip().lower() for name in rows[0]]
    known = set(names) & set(SENTENCE_COLUMNS)
    if not known and (len(names) == 1 or any(_IMAGE_PLACE.search(name) for name in names[1:])):
        return [row[0] for row in rows]
    column = names.index(_sentence_column(names, path))
    return [row[column] for row in rows[1:] if len(row) > column]


def _sentence_column(names: Sequence[str], path: Path) -> str:
    """The column that holds the sentences."""
    found = next((name for name in SENTENCE_COLUMNS if name in names), None)
    if found is None:
        raise InputError(
            f"{path} has the columns {', '.join(names)}; call that of the sentences "
            f"one of {', '.join(SENTENCE_COLUMNS)}"
        )
    return found


def _is_saved_dataset(path: Path) -> bool:
    """Whether a folder was written by `save_to_disk` of the datasets library."""
    return (path / "state.json").is_file() or (path / "dataset_dict.json").is_file()


def _saved_dataset(path: Path) -> Any:
    """The rows of a saved dataset; of several splits the one called train."""
    if not _is_saved_dataset(path):
        raise InputError(f"{path} is no dataset saved by `save_to_disk`; save one there or give a file")
    import datasets

    refuse_outside(path)
    try:
        content = datasets.load_from_disk(str(path))
    except Exception as error:  # the library raises many kinds
        raise InputError(f"{path} is no readable dataset ({type(error).__name__}); save it again") from error
    if not isinstance(content, dict):
        return content
    if "train" not in content:
        raise InputError(f"{path} has the splits {', '.join(content)}; save the one to be used alone")
    return content["train"]


def _image_column(rows: Any, path: Path) -> str:
    """The first column that holds images."""
    import datasets

    for name, feature in rows.features.items():
        if isinstance(feature, datasets.Image):
            return str(name)
    raise InputError(f"{path} has no column of images among {', '.join(rows.column_names)}; save one with it")


# -------------------------------------------------------------------------------------------- into batches


def seeded(*parts: object) -> torch.Generator:
    """A generator that depends on nothing but what it is given."""
    digest = hashlib.sha256("-".join(map(str, parts)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


class ShuffledRows:
    """Endless passes over rows, each pass in its own order; a step's rows need no earlier step."""

    def __init__(self, size: int, batch: int, *key: object) -> None:
        """`key` names the stream, for example by seed and task."""
        self.size, self.batch, self.key = size, batch, key
        self._pass = -1
        self._order: list[int] = []

    def at(self, step: int) -> list[int]:
        """The rows of one step."""
        return [self._row(position) for position in range(step * self.batch, (step + 1) * self.batch)]

    def _row(self, position: int) -> int:
        """The row at one position of the endless sequence."""
        number, offset = divmod(position, self.size)
        if number != self._pass:
            self._pass = number
            self._order = torch.randperm(self.size, generator=seeded(*self.key, number)).tolist()
        return self._order[offset]


def pixels_of(images: Split, rows: Sequence[int], cache: PixelCache, device: torch.device) -> Tensor:
    """Pixels `(B, 3, H, W)` of some images on a device, prepared as at test time."""
    return torch.from_numpy(cache.pixels(images, rows)).to(device)


def sentence_tokens(sentences: Sequence[str], backbone: Backbone) -> Tensor:
    """Token ids of sentences from outside; one that is too long is cut, as CLIP's own code does."""
    return backbone.tokenize(sentences, truncate=True)
