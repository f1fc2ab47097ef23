"""Reading a task from a Hugging Face dataset, by hub name or from a local copy."""

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from dpw.data.content import TaskContent, divided
from dpw.data.decoding import open_image
from dpw.data.labels import number_labels
from dpw.data.root import is_inside_name
from dpw.data.split import Split, content_key
from dpw.data.yaml_text import ERRORS, parse_yaml, read_yaml
from dpw.errors import InputError

CARD_BYTES = 1_000_000
LONGEST = 1000  # letters of a name; file systems take at most 255 in a part


@dataclass(frozen=True)
class HubChoice:
    """Which parts of a dataset make the task."""

    config: str | None = None
    image_column: str = "image"
    label_column: str = "label"
    train: str = "train"
    val: str | None = None
    test: str | None = "test"
    cache_folder: Path | None = None
    allow_download: bool = True


class HubImages:
    """The image column of a dataset; rows are read from disk when they are asked for."""

    def __init__(self, rows: Any, column: str, name: str, allowed: Path) -> None:
        """Keep the dataset; rows that only name a file may name it below `allowed`."""
        self._rows, self._column, self._name = rows, column, name
        self._allowed = Path(os.path.realpath(allowed))

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def image(self, index: int) -> Image.Image:
        """Decode the image of one row."""
        content = self._content(index)
        return open_image(content if isinstance(content, Path) else io.BytesIO(content), self.where(index))

    def key(self, index: int) -> str:
        """Identify an image by its encoded bytes."""
        content = self._content(index)
        return content_key(content.read_bytes() if isinstance(content, Path) else content)

    def where(self, index: int) -> str:
        """Give the row, such as `cifar100/train[17]`."""
        return f"{self._name}[{index}]"

    def _content(self, index: int) -> bytes | Path:
        """The encoded image, or the file that holds it."""
        value = self._rows[index][self._column]
        if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
            return bytes(value["bytes"])
        if isinstance(value, dict) and isinstance(value.get("path"), str):
            path = Path(os.path.realpath(value["path"]))
            if path.is_relative_to(self._allowed):
                return path
            raise InputError(
                f"{self.where(index)} names {path}, outside {self._allowed}; copy the image into it"
            )
        raise InputError(
            f"{self.where(index)} has no image in column {self._column!r}; choose another column"
        )


def read_dataset(
    source: str,
    *,
    name: str | None,
    choice: HubChoice,
    class_names: Mapping[str, str],
    fractions: tuple[float, float],
    seed: int,
) -> TaskContent:
    """Read a dataset; without a test split in it, train is divided by a seed."""
    import datasets

    name = name or Path(source).name
    content = _load(source, choice)
    allowed = Path(source) if Path(source).is_dir() else Path(datasets.config.HF_CACHE_HOME)
    wanted = {"train": choice.train, "val": choice.val, "test": choice.test}
    if choice.test not in content:
        wanted["test"] = None
    parts: dict[str, Split] = {}
    classes: tuple[str, ...] = ()
    for part, key in wanted.items():
        if key is None:
            continue
        rows = _rows(content, key, choice, source)
        found, labels = _labels(rows, choice.label_column, classes, class_names, f"{source} ({key})")
        classes = classes or found
        images = rows.cast_column(choice.image_column, datasets.Image(decode=False))
        parts[part] = Split(HubImages(images, choice.image_column, f"{name}/{key}", allowed), labels)
    if "test" not in parts:
        val_fraction = 0.0 if "val" in parts else fractions[0]
        parts |= divided(parts["train"], (val_fraction, fractions[1]), f"{seed}-{name}-hub")
    return TaskContent(name, classes, parts)


def _load(source: str, choice: HubChoice) -> Any:
    """Load all splits: a folder written by `save_to_disk`, any other folder of data files, or a hub name."""
    import datasets

    cache = None if choice.cache_folder is None else str(choice.cache_folder)
    if len(source) > LONGEST:
        raise InputError(f"{source:.80}... has {len(source)} letters: give the name of a dataset or a folder")
    saved = any((Path(source) / file).is_file() for file in ("dataset_dict.json", "dataset_info.json"))
    if Path(source).is_dir():
        refuse_outside(Path(source))
    try:
        with _network(choice.allow_download and not Path(source).is_dir()):
            if saved:
                content = datasets.load_from_disk(source)
            else:
                content = datasets.load_dataset(source, choice.config, cache_dir=cache)
    except Exception as error:  # the library raises many kinds, also from network and parsers
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"dataset {source!r} cannot be loaded ({reason}); check name, configuration and network, "
            "or give a folder with a local copy"
            + ("" if choice.allow_download else " (allow_download: true in the YAML lets it be fetched)")
        ) from error
    return content if isinstance(content, dict) else {choice.train: content}


@contextmanager
def _network(allowed: bool) -> Iterator[None]:
    """Keep the datasets library off the network, unless it is allowed to use it."""
    import datasets
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    if not allowed:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def refuse_outside(folder: Path) -> None:
    """Refuse a local dataset whose card, state or links lead to files outside its folder."""
    own = Path(os.path.realpath(folder))
    own = own.parent.parent if own.parent.name == "snapshots" else own  # in the hub's cache files are links
    for path in folder.rglob("*"):
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(own):
            raise InputError(f"{path} is a link that leads out of {folder}: put the file itself there")
    for name in _named_files(folder):
        elsewhere = "://" in name or ":" in name.split("/", 1)[0]  # addresses of other file systems
        if elsewhere or not is_inside_name(name) or name.startswith(("/", "~")):
            raise InputError(
                f"dataset {folder} names {name!r:.100}, outside its folder: refused, remove the name"
            )


def _named_files(folder: Path) -> Iterator[str]:
    """Every file that a card, as the datasets library reads it, or the states of a saved dataset name."""
    try:
        for head in _heads(folder):
            yield from _texts([head.get("configs"), head.get("data_files")])
        for state in folder.glob("**/state.json"):
            if state.is_file():
                yield from _texts(json.loads(state.read_bytes()).get("_data_files"))
    except (OSError, AttributeError, *ERRORS) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the card or state of dataset {folder} cannot be read ({error}); mend it"
        ) from error


def _heads(folder: Path) -> Iterator[dict[str, Any]]:
    """What the card (the head of `README.md`) and the file that may stand in its place say."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    card, alone = folder / "README.md", folder / ".huggingface.yaml"
    if card.is_file():
        if card.stat().st_size > CARD_BYTES:
            raise InputError(f"{card} has more than {CARD_BYTES} bytes: refused, make it shorter")
        block = REGEX_YAML_BLOCK.search(card.read_text(encoding="utf-8"))
        head = parse_yaml(block.group(2)) if block else None
        yield head if isinstance(head, dict) else {}
    if alone.exists():
        yield read_yaml(alone, "what a card says")


def _texts(value: Any) -> Iterator[str]:
    """All texts in a nested value that stand under a key of files, or bare in a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key in ("data_files", "data_dir", "path", "filename") or isinstance(one, list | dict):
                yield from _texts(one)


def _rows(content: Any, key: str, choice: HubChoice, source: str) -> Any:
    """One split, with the two columns that are needed."""
    if key not in content:
        raise InputError(
            f"dataset {source!r} has no split {key!r} among {', '.join(content)}; choose one of them"
        )
    rows = content[key]
    for column in (choice.image_column, choice.label_column):
        if column not in rows.column_names:
            raise InputError(
                f"dataset {source!r} has no column {column!r} among {', '.join(rows.column_names)}; "
                "choose image_column and label_column"
            )
    return rows.select_columns([choice.image_column, choice.label_column])


def _labels(
    rows: Any, column: str, classes: Sequence[str], class_names: Mapping[str, str], where: str
) -> tuple[tuple[str, ...], list[int]]:
    """Class names and labels of one split; a label feature with names decides both."""
    values = list(rows.with_format(None)[column])
    names = getattr(rows.features[column], "names", None)
    if names is not None:
        return number_labels(values, names, class_names, where)
    if classes:
        renamed = {class_names.get(str(value), str(value)) for value in values}
        if absent := sorted(renamed - set(classes)):
            raise InputError(
                f"{where} has the class {absent[0]!r}, which train does not have; add training images"
            )
        label_of = {name: label for label, name in enumerate(classes)}
        return tuple(classes), [label_of[class_names.get(str(value), str(value))] for value in values]
    return number_labels(values, None, class_names, where)
