"""Splits as CoOp and DIKI make them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpw.data.content import PARTS
from dpw.data.public.listing import Entry, Listing, list_files, read_json, read_lines
from dpw.data.root import Root
from dpw.errors import InputError


@dataclass(frozen=True)
class ZhouSplit:
    """A `split_zhou_*.json` file: for each split a list of [path, label, class name]."""

    file: str
    prefix: str

    def read(self, root: Root, key: str) -> Listing:  # noqa: ARG002 (the file decides everything)
        """Take splits and names from the file; names come from the training entries."""
        path = root.required(
            self.file,
            "take it from the folder splits of github.com/linzhiqiu/cross_modal_adaptation "
            "(rebuild_splits makes another one, with other images and other results)",
        )
        content = read_json(path)
        if not isinstance(content, dict) or any(not isinstance(content.get(part), list) for part in PARTS):
            raise InputError(f"{path} must hold the lists train, val and test; download it again")
        problems: list[str] = []
        entries = {part: _valid_entries(content[part], f"{path} ({part})", problems) for part in PARTS}
        classes = _class_names(entries["train"], path, problems)
        prefix = f"{self.prefix}/" if self.prefix else ""
        parts: dict[str, list[Entry]] = {part: [] for part in PARTS}
        for part in PARTS:
            for name, label, class_name in entries[part]:
                if label < len(classes):
                    parts[part].append((prefix + name, label))
                else:
                    problems.append(
                        f"{path} gives {name} label {label} ({class_name}), a class without training images; "
                        "remove the entry or add training images"
                    )
        listing = list_files(root, classes, parts, str(path))
        return Listing(listing.classes, listing.splits, problems + listing.problems)


def _valid_entries(entries: list[Any], where: str, problems: list[str]) -> list[tuple[str, int, str]]:
    """Keep the entries of the right form and note the others."""
    valid = []
    for index, entry in enumerate(entries):
        match entry:
            case [str() as name, int() as label, str() as class_name] if label >= 0 and type(label) is int:
                valid.append((name, label, class_name))
            case _:
                problems.append(
                    f"entry {index} of {where} is {entry!r:.80}; expected [path, label, class name] "
                    "with a label of 0 or more"
                )
    return valid


def _class_names(entries: list[tuple[str, int, str]], path: Path, problems: list[str]) -> list[str]:
    """Names by label, as the training entries give them; labels must run from 0 without gaps."""
    names: dict[int, str] = {}
    for name, label, class_name in entries:
        known = names.setdefault(label, class_name)
        if known != class_name:
            problems.append(
                f"{path} calls label {label} both {known!r} and {class_name!r} (at {name}); give one name"
            )
    for label in range(len(names)):
        if label not in names:
            raise InputError(
                f"{path} has no training images of label {label} although higher labels exist; "
                "number the classes from 0 without gaps or add the images"
            )
    return [names[label] for label in sorted(names)]


@dataclass(frozen=True)
class VariantLists:
    """FGVC Aircraft: one line "image-id variant name" for each image."""

    lists: Mapping[str, str]

    def read(self, root: Root, key: str) -> Listing:  # noqa: ARG002 (the lists decide everything)
        """Number the variants by their line in `variants.txt`."""
        remedy = "unpack fgvc-aircraft-2013b/data into fgvc_aircraft (`dpw data get aircraft`)"
        variants = read_lines(root.required("variants.txt", remedy))
        label_of = {name: label for label, name in enumerate(variants)}
        parts: dict[str, list[Entry]] = {}
        problems: list[str] = []
        for part, file in self.lists.items():
            path = root.required(file, remedy)
            parts[part] = []
            for line in read_lines(path):
                image, _, variant = line.partition(" ")
                if variant in label_of:
                    parts[part].append((f"images/{image}.jpg", label_of[variant]))
                else:
                    problems.append(f"{path} has the variant {variant!r}, which variants.txt does not list")
        listing = list_files(root, variants, parts, "the variant lists")
        return Listing(listing.classes, listing.splits, problems + listing.problems)
