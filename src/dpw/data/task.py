"""A task: one image domain with its class names, its prompt templates and its images."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpw.data.protocol import get_protocol
from dpw.data.split import Sample, Split
from dpw.errors import InputError

__all__ = ["DEFAULT_TEMPLATES", "Sample", "Split", "Task"]

DEFAULT_TEMPLATES = ("a photo of a {}.",)


@dataclass(frozen=True)
class Task:
    """One step of continual learning: what the classes are called and which images show them."""

    name: str
    classes: tuple[str, ...]
    templates: tuple[str, ...]
    train: Split
    val: Split | None = None
    test: Split | None = None
    protocol: str = "coop"

    def __post_init__(self) -> None:
        """Refuse names, templates and labels that no method could use."""
        get_protocol(self.protocol)
        if problems := structural_problems(self.name, self.classes, self.templates, self.splits()):
            raise InputError(problems[0])

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
        """Read `train/CLASS/*.jpg` (`val/`, `test/` beside it), or split `CLASS/*.jpg` by a fixed seed."""
        from dpw.data.folder_task import task_from_folder

        return task_from_folder(
            Path(path),
            name=name,
            templates=tuple(templates),
            class_names=class_names or {},
            fractions=(val_fraction, test_fraction),
            seed=seed,
            protocol=protocol,
        )

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
        """Read a CSV or Parquet table of image paths (inside `root`) and labels, with or without splits."""
        from dpw.data.table_task import TableColumns, task_from_table

        return task_from_table(
            Path(path),
            name=name,
            root=None if root is None else Path(root),
            columns=TableColumns(path_column, label_column, split_column),
            classes=classes,
            class_names=class_names or {},
            templates=tuple(templates),
            fractions=(val_fraction, test_fraction),
            seed=seed,
            protocol=protocol,
        )

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
        seed: int = 0,
        protocol: str = "coop",
    ) -> "Task":
        """Read a Hugging Face dataset by hub name or from a local copy."""
        from dpw.data.hub_task import HubChoice, task_from_dataset

        cache = None if cache_folder is None else Path(cache_folder)
        return task_from_dataset(
            str(source),
            name=name,
            choice=HubChoice(config, image_column, label_column, train_split, val_split, test_split, cache),
            class_names=class_names or {},
            templates=tuple(templates),
            fractions=(val_fraction, test_fraction),
            seed=seed,
            protocol=protocol,
        )

    def templates_at_test(self) -> tuple[str, ...]:
        """The templates whose text features are averaged at test time, as the protocol wants it."""
        return self.templates if get_protocol(self.protocol).ensemble else self.templates[:1]

    def prompts(self, template: str | None = None) -> list[str]:
        """One prompt for each class, by the first template unless another is given."""
        chosen = self.templates[0] if template is None else template
        return [chosen.replace("{}", name).replace("_", " ") for name in self.classes]

    def splits(self) -> dict[str, Split]:
        """The splits that exist, by name."""
        named = {"train": self.train, "val": self.val, "test": self.test}
        return {name: split for name, split in named.items() if split is not None}

    def describe(self) -> dict[str, Any]:
        """Say what is in the task, in values that JSON knows, without decoding any image."""
        return {
            "name": self.name,
            "protocol": self.protocol,
            "classes": len(self.classes),
            "templates": list(self.templates),
            **{split: len(images) for split, images in self.splits().items()},
        }


def structural_problems(
    task: str, classes: Sequence[str], templates: Sequence[str], splits: Mapping[str, Split]
) -> list[str]:
    """Everything wrong with names, templates and labels, each in one sentence; empty when all is well."""
    problems = []
    if not task or "/" in task:
        problems.append(f"task name {task!r} must be a word without slashes; choose another name")
    if not classes:
        problems.append(f"task {task} has no classes; give at least one class with images")
    for name, count in Counter(classes).items():
        if count > 1:
            problems.append(f"task {task} has {count} classes called {name!r}; rename or merge them")
    if not templates:
        problems.append(f"task {task} has no prompt template; give one such as 'a photo of a {{}}.'")
    for template in templates:
        if template.count("{}") != 1:
            problems.append(f"template {template!r} of task {task} needs exactly one {{}} for the class")
    for split_name, split in splits.items():
        problems += _label_problems(f"{split_name} of {task}", split, len(classes))
    return problems


def _label_problems(where: str, split: Split, classes: int) -> list[str]:
    """Labels that point outside the class list, each named once."""
    wrong = sorted({label for label in split.labels if not 0 <= label < classes})
    return [
        f"label {label} of {split.where(split.labels.index(label))} ({where}) is outside 0..{classes - 1}; "
        "correct the label or add the class"
        for label in wrong
    ]
