"""A task: one image domain with its class names, its prompt templates and its images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpw.data.checks import split_problems, structural_problems
from dpw.data.content import TaskContent
from dpw.data.folder_task import read_folder, read_whole_folder
from dpw.data.hub_task import HubChoice, read_dataset
from dpw.data.prompts import DEFAULT_TEMPLATE, spell
from dpw.data.protocol import get_protocol
from dpw.data.split import Sample, Split, join
from dpw.data.table_task import TableColumns, read_table
from dpw.errors import (
    InputError,
    a_number,
    a_path,
    a_text,
    a_whole_number,
    named_texts,
    some_texts,
    wrong,
)

__all__ = ["DEFAULT_TEMPLATES", "Sample", "Split", "Task"]

DEFAULT_TEMPLATES = (DEFAULT_TEMPLATE,)


@dataclass(frozen=True)
class Task:
    """One step of continual learning: what the classes are called and which images show them.

    Args:
        name: What the task is called; a word without slashes.
        classes: Class names; an image's label is an index into them.
        templates: Prompts with one `{}` for the class name; the first is the one used in training.
        train: Training images.
        val: Validation images, by which the best epoch is chosen, or None.
        test: Test images, or None.
        protocol: How the task is measured, `coop` (one template) or `zscl` (all templates, random crops).

    Raises:
        InputError: A name, template, label or the protocol cannot be used.

    Example:
        >>> import numpy as np
        >>> from dpw import Task
        >>> from dpw.data.task import Split
        >>> images = np.zeros((2, 32, 32, 3), dtype=np.uint8)
        >>> train = Split.from_arrays(images, labels=[0, 1], name="toys/train")
        >>> task = Task("toys", classes=("red_car", "boat"), templates=("a photo of a {}.",), train=train)
        >>> task.prompts()
        ['a photo of a red car.', 'a photo of a boat.']
    """

    name: str
    classes: tuple[str, ...]
    templates: tuple[str, ...]
    train: Split
    val: Split | None = None
    test: Split | None = None
    protocol: str = "coop"

    def __post_init__(self) -> None:
        """Refuse names, templates and labels that no method could use; lists become tuples."""
        a_text(self.name, "name")
        get_protocol(self.protocol)
        for field in ("classes", "templates"):
            object.__setattr__(self, field, some_texts(getattr(self, field), field))
        for part, split in {"train": self.train, "val": self.val, "test": self.test}.items():
            if not isinstance(split, Split) and not (split is None and part != "train"):
                raise wrong(part, split, "a Split, such as Split.from_files(paths, labels)")
        if problems := structural_problems(self.content(), self.templates):
            raise InputError(problems[0])

    @classmethod
    def from_content(cls, content: TaskContent, *, templates: Sequence[str], protocol: str) -> "Task":
        """Make a task of what a reader found; the first problem seen without decoding is raised."""
        task = cls(
            name=content.name,
            classes=tuple(content.classes),
            templates=some_texts(templates, "templates"),
            protocol=protocol,
            train=content.splits["train"],
            val=content.splits.get("val"),
            test=content.splits.get("test"),
        )
        if problems := split_problems(content):
            raise InputError(problems[0])
        return task

    @classmethod
    def from_folder(
        cls,
        path: Path | str,
        *,
        name: str | None = None,
        templates: Sequence[str] = DEFAULT_TEMPLATES,
        class_names: Mapping[str, str] | None = None,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        seed: int = 0,
        protocol: str = "coop",
    ) -> "Task":
        """Read `train/CLASS/*.jpg` (`val/`, `test/` beside it), or split `CLASS/*.jpg` by a fixed seed.

        Args:
            path: The folder; nothing outside it is read.
            name: The task's name; that of the folder (or table, or dataset) by default.
            templates: Prompts with one `{}` for the class name.
            class_names: What some classes are called, by their folder's name (or by their label).
            val_fraction: Share of each class for validation, if the folder is not divided yet.
            test_fraction: Share of each class for the test, if the folder is not divided yet; only these are
                measured by `evaluate` (see `for_testing`).
            seed: Decides which images these are.
            protocol: `coop` or `zscl`.

        Returns:
            The task; no image has been decoded yet.

        Raises:
            InputError: The folder, a class or a name in it cannot be used.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from PIL import Image
            >>> from dpw import Task
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     for colour in ("blue", "red"):
            ...         (Path(folder) / colour).mkdir()
            ...         for number in range(10):
            ...             Image.new("RGB", (32, 32), colour).save(Path(folder) / colour / f"{number}.png")
            ...     task = Task.from_folder(folder, name="colours")
            >>> task.classes, len(task.train), len(task.val), len(task.test)
            (('blue', 'red'), 14, 2, 4)
        """
        content = read_folder(
            a_path(path, "path"),
            **_common(name, class_names, val_fraction, test_fraction, seed),
        )
        return cls.from_content(content, templates=templates, protocol=protocol)

    @classmethod
    def for_testing(
        cls,
        path: Path | str,
        *,
        name: str | None = None,
        templates: Sequence[str] = DEFAULT_TEMPLATES,
        class_names: Mapping[str, str] | None = None,
        protocol: str = "coop",
    ) -> "Task":
        """Take all images of a folder for testing and none for training, whatever its layout.

        The arguments are those of `from_folder`, which of `CLASS/*.jpg` keeps only a fifth for testing.

        Args:
            path: A folder of `CLASS/*.jpg`, or of `train`, `val` and `test`, which are taken together.

        Returns:
            A task that can be measured but not learned.

        Raises:
            InputError: The folder, a class or a name in it cannot be used.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from PIL import Image
            >>> from dpw import Task
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     (Path(folder) / "red").mkdir()
            ...     for number in range(10):
            ...         Image.new("RGB", (32, 32), "red").save(Path(folder) / "red" / f"{number}.png")
            ...     task = Task.for_testing(folder, name="colours")
            >>> len(task.train), len(task.test)
            (0, 10)
        """
        content = read_whole_folder(
            a_path(path, "path"),
            name=_name(name),
            class_names=_renamed(class_names),
        )
        train, test = content.splits["train"], content.splits["test"]
        prompts = some_texts(templates, "templates")
        return cls(content.name, content.classes, prompts, train, None, test, protocol)

    @classmethod
    def from_table(
        cls,
        path: Path | str,
        *,
        name: str | None = None,
        root: Path | str | None = None,
        path_column: str = "path",
        label_column: str = "label",
        split_column: str = "split",
        classes: Sequence[str] | None = None,
        class_names: Mapping[str, str] | None = None,
        templates: Sequence[str] = DEFAULT_TEMPLATES,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        seed: int = 0,
        protocol: str = "coop",
    ) -> "Task":
        """Read a CSV or Parquet table of image paths (inside `root`) and labels, with or without splits.

        The arguments that are not listed here are those of `from_folder`.

        Args:
            path: The table, `.csv` or `.parquet`, with one row for each image.
            root: The folder that the paths in the table are relative to; the table's own by default.
            path_column: The column of image paths.
            label_column: The column of labels, as words or numbers.
            split_column: The column of train, val or test; without it rows are divided by the seed.
            classes: All class names in order, for numbers as labels or a fixed order.

        Returns:
            The task; no image has been decoded yet.

        Raises:
            InputError: The table, a row or a path in it cannot be used.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from PIL import Image
            >>> from dpw import Task
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     for colour in ("blue", "red"):
            ...         Image.new("RGB", (32, 32), colour).save(Path(folder) / f"{colour}.png")
            ...     table = Path(folder) / "colours.csv"
            ...     size = table.write_text("path,label\\nblue.png,blue\\nred.png,red")
            ...     task = Task.from_table(table)
            >>> task.name, task.classes
            ('colours', ('blue', 'red'))
        """
        content = read_table(
            a_path(path, "path"),
            root=None if root is None else a_path(root, "root"),
            columns=TableColumns(*some_texts((path_column, label_column, split_column), "columns")),
            classes=None if classes is None else some_texts(classes, "classes"),
            **_common(name, class_names, val_fraction, test_fraction, seed),
        )
        return cls.from_content(content, templates=templates, protocol=protocol)

    @classmethod
    def from_dataset(
        cls,
        source: Path | str,
        *,
        name: str | None = None,
        config: str | None = None,
        image_column: str = "image",
        label_column: str = "label",
        train_split: str = "train",
        val_split: str | None = None,
        test_split: str | None = "test",
        class_names: Mapping[str, str] | None = None,
        templates: Sequence[str] = DEFAULT_TEMPLATES,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        cache_folder: Path | str | None = None,
        allow_download: bool = True,
        seed: int = 0,
        protocol: str = "coop",
    ) -> "Task":
        """Read a Hugging Face dataset by hub name or from a local copy.

        Arguments that are not listed are those of `from_folder`.

        Args:
            source: A hub name, a folder written by `save_to_disk`, or a folder of data files.
            config: Which configuration of the dataset.
            image_column, label_column: The columns of images and of labels, numbers with names or words.
            train_split, val_split, test_split: The dataset's splits; without a test, train is divided.
            cache_folder: Where the datasets library keeps downloads; its own folder by default.
            allow_download: Whether a hub name may be fetched from the network.

        Returns:
            The task; no image has been decoded yet.

        Raises:
            InputError: The dataset cannot be loaded, or a split or column is missing in it.

        Example:
            >>> import datasets, tempfile
            >>> from PIL import Image
            >>> from dpw import Task
            >>> images = [Image.new("RGB", (32, 32), colour) for colour in ("blue", "red")]
            >>> rows = datasets.Dataset.from_dict({"image": images, "label": ["blue", "red"]})
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     rows.save_to_disk(folder)
            ...     task = Task.from_dataset(folder, name="colours", test_fraction=0.0)
            >>> task.classes, len(task.train)
            (('blue', 'red'), 2)
        """
        some_texts((image_column, label_column, train_split), "columns and train_split")
        some_texts((config or "", val_split or "", test_split or ""), "config, val_split and test_split")
        cache = None if cache_folder is None else a_path(cache_folder, "cache_folder")
        splits = (train_split, val_split, test_split)
        content = read_dataset(
            str(a_path(source, "source")),
            choice=HubChoice(config, image_column, label_column, *splits, cache, allow_download),
            **_common(name, class_names, val_fraction, test_fraction, seed),
        )
        return cls.from_content(content, templates=templates, protocol=protocol)

    def prompts(self, template: str | None = None) -> list[str]:
        """One prompt for each class, by the first template unless another is given."""
        chosen = self.templates[0] if template is None else template
        return [spell(chosen, name) for name in self.classes]

    def splits(self) -> dict[str, Split]:
        """The splits that exist, by name."""
        named = {"train": self.train, "val": self.val, "test": self.test}
        return {name: split for name, split in named.items() if split is not None}

    def content(self) -> TaskContent:
        """The plain parts of the task: name, classes and splits."""
        return TaskContent(self.name, self.classes, self.splits())

    def describe(self) -> dict[str, Any]:
        """Say what is in the task, in values that JSON knows, without decoding any image."""
        return {
            "name": self.name,
            "protocol": self.protocol,
            "classes": len(self.classes),
            "templates": list(self.templates),
            **{split: len(images) for split, images in self.splits().items()},
        }


def _name(name: Any) -> str | None:
    """A name that was given, or None for that of the source."""
    if isinstance(name, str) and not name:
        raise wrong("name", name, "a word, or leave it out")
    return None if name is None else a_text(name, "name")


def _renamed(class_names: Any) -> dict[str, str]:
    """What some classes are called, by their folder or label."""
    return {} if class_names is None else named_texts(class_names, "class_names")


def _common(
    name: str | None,
    class_names: Mapping[str, str] | None,
    val_fraction: float,
    test_fraction: float,
    seed: int,
) -> dict[str, Any]:
    """What every reader of tasks is told, checked."""
    return {
        "name": _name(name),
        "class_names": _renamed(class_names),
        "fractions": _fractions(val_fraction, test_fraction),
        "seed": a_whole_number(seed, "seed"),
    }


def _fractions(val: Any, test: Any) -> tuple[float, float]:
    """Shares of images; how big both may be together is asked where they are used."""
    return a_number(val, "val_fraction"), a_number(test, "test_fraction")


def whole_task(task: Task) -> Task:
    """The task with all its images among those it learns from, and none kept apart."""
    known = [split for split in (task.train, task.val, task.test) if split is not None and len(split)]
    return replace(task, train=join(known), val=None, test=None)
