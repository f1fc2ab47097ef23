"""Reading a task from a plain image folder."""

from collections.abc import Mapping
from pathlib import Path

from dpw.data.content import PARTS, TaskContent, divided
from dpw.data.root import Root
from dpw.data.split import Split
from dpw.errors import InputError

# What people call the splits, in folders and tables, in any case.
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}


def read_folder(
    path: Path,
    *,
    name: str | None,
    class_names: Mapping[str, str],
    fractions: tuple[float, float],
    seed: int,
) -> TaskContent:
    """Read `train/CLASS/*`, `val/CLASS/*`, `test/CLASS/*`, or `CLASS/*` split by a seed; classes sorted."""
    root = Root(path)
    name = name or root.path.name
    parts = _given_parts(root)
    classes = root.folders(parts.get("train", ""))
    if not classes:
        raise InputError(f"{path} has no class folders; expected train/CLASS/*.jpg or CLASS/*.jpg in it")
    if unknown := sorted(set(class_names) - set(classes)):
        raise InputError(f"class_names names {unknown[0]!r}, which is no class folder of {path}; remove it")
    splits = (
        {part: _images(root, folder, classes, parts["train"]) for part, folder in parts.items()}
        if parts
        else divided(_images(root, "", classes), fractions, f"{seed}-{name}-folder")
    )
    if "train" not in splits:
        raise InputError(f"{path} has class folders but no image in them; expected CLASS/*.jpg")
    return TaskContent(name, tuple(class_names.get(folder, folder) for folder in classes), splits)


def read_whole_folder(path: Path, *, name: str | None, class_names: Mapping[str, str]) -> TaskContent:
    """All images of a folder for testing: `CLASS/*`, or those of `train`, `val` and `test` together."""
    root = Root(path)
    folders = root.folders()
    divided_already = all(folder.lower() in SPLIT_NAMES and root.folders(folder) for folder in folders)
    parts = folders if divided_already else [""]
    classes = sorted({folder for part in parts for folder in root.folders(part)})
    if not classes:
        raise InputError(f"{path} has no class folders; expected CLASS/*.jpg or test/CLASS/*.jpg in it")
    if unknown := sorted(set(class_names) - set(classes)):
        raise InputError(f"class_names names {unknown[0]!r}, which is no class folder of {path}; remove it")
    files: list[Path] = []
    labels: list[int] = []
    for label, folder in enumerate(classes):
        found = [image for part in parts for image in root.images(f"{part}/{folder}" if part else folder)]
        files += [root.file(image, "the folder") for image in found]
        labels += [label] * len(found)
    if not files:
        raise InputError(f"{path} has class folders but no image in them; expected CLASS/*.jpg")
    images = Split.from_files(files, labels)
    names = tuple(class_names.get(folder, folder) for folder in classes)
    return TaskContent(name or root.path.name, names, {"train": images.select([]), "test": images})


def _given_parts(root: Root) -> dict[str, str]:
    """Which folder holds which split, when the folder is already divided; `train` may also be a class."""
    folders = root.folders()
    if "train" not in folders and any(folder.lower() not in SPLIT_NAMES for folder in folders):
        return {}
    found: dict[str, str] = {}
    for folder in folders:
        part = SPLIT_NAMES.get(folder.lower())
        if part is None or not root.folders(folder):  # images lie in it, so it is no folder of classes
            continue
        if part in found:
            raise InputError(
                f"{root.path} has the folders {found[part]} and {folder} for the same split; keep one of them"
            )
        found[part] = folder
    if found and "train" not in found and len(found) == len(folders):
        raise InputError(
            f"{root.path} has {', '.join(folders)} but no folder train with images to learn from"
        )
    return {part: found[part] for part in PARTS if part in found} if "train" in found else {}


def _images(root: Root, folder: str, classes: list[str], train: str = "train") -> Split:
    """List the images of all classes in one folder."""
    if unknown := sorted(set(root.folders(folder)) - set(classes)):
        raise InputError(
            f"{root.path / folder / unknown[0]} is a class without training images; "
            f"add {root.path / train / unknown[0]} or remove it"
        )
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = root.images(f"{folder}/{name}" if folder else name)
        paths += [root.file(image, "the folder") for image in found]
        labels += [label] * len(found)
    return Split.from_files(paths, labels)
