"""Splits from the datasets' own lists and folders, as torchvision reads them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpw.data.draws import divide
from dpw.data.public.listing import Entry, Listing, list_files, read_json, read_lines, with_val
from dpw.data.public.names import unchanged
from dpw.data.readers.mat import read_mat
from dpw.data.root import Root
from dpw.errors import InputError

Names = Callable[[str], str]
Division = Callable[[list[int], str], dict[str, list[int]]]

ZSCL_SEED = 42
ZSCL_TRAIN_SHARE = 0.8


def random_80_20(labels: list[int], key: str) -> dict[str, list[int]]:  # noqa: ARG001 (seed 42 is the protocol)
    """ZSCL's split: the first 80 % of torch's permutation with seed 42."""
    import torch

    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(ZSCL_SEED)).tolist()
    cut = int(ZSCL_TRAIN_SHARE * len(labels))
    return {"train": order[:cut], "test": order[cut:]}


def division_50_20_30(labels: list[int], key: str) -> dict[str, list[int]]:
    """CoOp's way to make a split file anew: half of each class to train, a fifth to val."""
    train, val, test = divide(labels, (0.5, 0.2), f"{key}-rebuild")
    return {"train": train, "val": val, "test": test}


def _divided(root: Root, classes: list[str], entries: list[Entry], division: Division, key: str) -> Listing:
    """List all entries and divide them."""
    everything = list_files(root, classes, {"all": entries}, "the layout")
    images = everything.splits["all"]
    parts = division(list(images.labels), key)
    splits = {part: images.select(indices) for part, indices in parts.items()}
    return Listing(everything.classes, splits, everything.problems)


@dataclass(frozen=True)
class ClassFolders:
    """One folder for each class; classes and files in ASCII order, then divided."""

    folder: str
    names: Names
    division: Division
    without: tuple[str, ...] = ()

    def read(self, root: Root, key: str) -> Listing:
        """List every image of every class."""
        root.required(self.folder, "unpack the images there")
        folders = [name for name in root.folders(self.folder) if name not in self.without]
        if not folders:
            raise InputError(f"{root.path / self.folder} has no class folders; unpack the images there")
        entries = [
            (image, label)
            for label, name in enumerate(folders)
            for image in root.images(f"{self.folder}/{name}")
        ]
        return _divided(root, [self.names(name) for name in folders], entries, self.division, key)


@dataclass(frozen=True)
class DtdPartition:
    """DTD's own partition 1: `labels/train1.txt` and `labels/test1.txt`."""

    def read(self, root: Root, key: str) -> Listing:  # noqa: ARG002 (the lists decide everything)
        """Number the classes by the sorted names in the lists."""
        remedy = "it is in dtd-r1.0.1.tar.gz (`dpw data get dtd`)"
        lists = {part: read_lines(root.required(f"labels/{part}1.txt", remedy)) for part in ("train", "test")}
        classes = sorted({line.split("/")[0] for lines in lists.values() for line in lines})
        parts = {
            part: [(f"images/{line}", classes.index(line.split("/")[0])) for line in lines]
            for part, lines in lists.items()
        }
        return list_files(root, classes, parts, "the list of partition 1")


@dataclass(frozen=True)
class FlowerLabels:
    """Flowers102: labels in a MATLAB file; the official split in another, or a division of everything."""

    division: Division | None = None

    def read(self, root: Root, key: str) -> Listing:
        """Number the classes as `cat_to_name.json` does, from 0."""
        remedy = "`dpw data get flowers` fetches it"
        named = read_json(root.required("cat_to_name.json", remedy))
        labels_path = root.required("imagelabels.mat", remedy)
        labels = [int(label) - 1 for label in _variable(labels_path, "labels").ravel()]
        classes = _flower_names(named, root.path / "cat_to_name.json")
        if self.division is not None:
            entries = [_flower(index + 1, label) for index, label in enumerate(labels)]
            return _divided(root, classes, entries, self.division, key)
        ids_path = root.required("setid.mat", remedy)
        parts: dict[str, list[Entry]] = {}
        for part, variable in {"train": "trnid", "test": "tstid"}.items():
            ids = [int(number) for number in _variable(ids_path, variable).ravel()]
            if any(not 1 <= number <= len(labels) for number in ids):
                raise InputError(
                    f"{ids_path} names images without a label in {labels_path}; download both again"
                )
            parts[part] = [_flower(number, labels[number - 1]) for number in ids]
        return list_files(root, classes, parts, str(ids_path))


def _flower(number: int, label: int) -> Entry:
    """The entry of one numbered flower."""
    return f"jpg/image_{number:05d}.jpg", label


def _flower_names(named: Any, path: Path) -> list[str]:
    """Names by label from the JSON object with keys "1", "2", ..."""
    expected = [str(number + 1) for number in range(len(named) if isinstance(named, dict) else 0)]
    if not expected or set(named) != set(expected):
        raise InputError(f"{path} must map the keys 1, 2, ... to names; download it again")
    return [str(named[number]) for number in expected]


@dataclass(frozen=True)
class FoodMeta:
    """Food101's own split: `meta/train.json` and `meta/test.json`."""

    names: Names

    def read(self, root: Root, key: str) -> Listing:  # noqa: ARG002 (the lists decide everything)
        """Number the classes by their sorted folder names."""
        remedy = "it is in food-101.tar.gz (`dpw data get food`)"
        content = {part: read_json(root.required(f"meta/{part}.json", remedy)) for part in ("train", "test")}
        for part, lists in content.items():
            if not isinstance(lists, dict) or not all(isinstance(images, list) for images in lists.values()):
                raise InputError(
                    f"{root.path / 'meta' / part}.json must map classes to lists; download it again"
                )
        classes = sorted(content["train"])
        parts = {
            part: [
                (f"images/{image}.jpg", label)
                for label, name in enumerate(classes)
                for image in lists.get(name, [])
            ]
            for part, lists in content.items()
        }
        return list_files(root, [self.names(name) for name in classes], parts, "the lists in meta")


@dataclass(frozen=True)
class PetLists:
    """Oxford Pets' own lists: "image-id class-id species breed-id" in trainval.txt and test.txt."""

    names: Names
    val_fraction: float | None = None

    def read(self, root: Root, key: str) -> Listing:
        """Number the breeds by their class id, from 0."""
        breeds: dict[int, str] = {}
        parts: dict[str, list[Entry]] = {}
        for part, file in {"train": "trainval", "test": "test"}.items():
            path = root.required(
                f"annotations/{file}.txt", "it is in annotations.tar.gz (`dpw data get oxfordpet`)"
            )
            parts[part] = []
            for line in read_lines(path):
                image, *numbers = line.split()
                if not numbers or not numbers[0].isdigit() or int(numbers[0]) < 1:
                    raise InputError(f"{path} has the line {line!r}; expected an image and its class number")
                breeds.setdefault(int(numbers[0]) - 1, image.rpartition("_")[0])
                parts[part].append((f"images/{image}.jpg", int(numbers[0]) - 1))
        if sorted(breeds) != list(range(len(breeds))):
            raise InputError(f"{root.path / 'annotations'} skips class numbers; download the lists again")
        classes = [self.names(breeds[label]) for label in range(len(breeds))]
        listing = list_files(root, classes, parts, "the lists in annotations")
        return listing if self.val_fraction is None else with_val(listing, self.val_fraction, key)


@dataclass(frozen=True)
class CarsDevkit:
    """Stanford Cars' own lists, in MATLAB files."""

    names: Names
    val_fraction: float | None = None

    def read(self, root: Root, key: str) -> Listing:
        """Number the classes as `cars_meta.mat` does, from 0."""
        remedy = "it is part of the devkit, whose official link is dead; take it from a copy of the dataset"
        meta = root.required("devkit/cars_meta.mat", remedy)
        classes = [self.names(str(name)) for name in _variable(meta, "class_names")]
        files = {
            "train": ("devkit/cars_train_annos.mat", "cars_train"),
            "test": ("cars_test_annos_withlabels.mat", "cars_test"),
        }
        parts: dict[str, list[Entry]] = {}
        for part, (file, folder) in files.items():
            path = root.required(file, remedy)
            try:
                parts[part] = [
                    (f"{folder}/{record['fname']}", int(record["class"].ravel()[0]) - 1)
                    for record in _variable(path, "annotations")
                ]
            except (KeyError, TypeError, AttributeError, IndexError) as error:
                raise InputError(f"{path} has records without fname and class; take another copy") from error
        listing = list_files(root, classes, parts, "the devkit")
        return listing if self.val_fraction is None else with_val(listing, self.val_fraction, key)


def _variable(path: Path, name: str) -> Any:
    """One variable of a MATLAB file."""
    content = read_mat(path)
    if name not in content:
        raise InputError(f"{path} has no variable {name}; download it again")
    return content[name]


@dataclass(frozen=True)
class SunFolders:
    """SUN397: classes from `ClassName.txt`; all images divided, or the official lists 01 with a val share."""

    names: Names = unchanged
    division: Division | None = None
    val_fraction: float = 0.2

    def read(self, root: Root, key: str) -> Listing:
        """Number the classes by their line in `ClassName.txt`."""
        remedy = "it is in the original SUN397.tar.gz and Partitions.zip"
        scenes = [line.strip("/") for line in read_lines(root.required("ClassName.txt", remedy))]
        classes = [self.names(scene.partition("/")[2]) for scene in scenes]
        if self.division is not None:
            entries = [
                (image, label)
                for label, scene in enumerate(scenes)
                for image in root.images(f"SUN397/{scene}")
                if image.rpartition("/")[0] == f"SUN397/{scene}"
            ]
            return _divided(root, classes, entries, self.division, key)
        label_of = {scene: label for label, scene in enumerate(scenes)}
        parts: dict[str, list[Entry]] = {}
        for part, file in {"train": "Training_01.txt", "test": "Testing_01.txt"}.items():
            lines = [line.strip("/") for line in read_lines(root.required(file, remedy))]
            if unknown := [line for line in lines if line.rpartition("/")[0] not in label_of]:
                raise InputError(
                    f"{root.path / file} names {unknown[0]}, whose class ClassName.txt does not list"
                )
            parts[part] = [(f"SUN397/{line}", label_of[line.rpartition("/")[0]]) for line in lines]
        return with_val(list_files(root, classes, parts, "the lists 01"), self.val_fraction, key)
