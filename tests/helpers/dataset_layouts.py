"""Tiny copies of the eleven public datasets, with the files and folders of the real ones."""

import json
import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

PARTS = {"train": 5, "val": 2, "test": 3}
CARS = ["AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Audi TTS Coupe 2012"]
SUN = ["/a/abbey", "/a/apartment_building/outdoor", "/b/bar"]
CIFAR_CLASSES = 100


def image(path: Path, seed: int) -> None:
    """Write a small picture that differs from all others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


class Counter:
    """Numbers pictures so that no two are equal."""

    def __init__(self) -> None:
        self.value = 0

    def next(self) -> int:
        self.value += 1
        return self.value


def zhou_split(folder: Path, file: str, prefix: str, classes: dict[str, str], name_of) -> None:
    """Make images of every class and the split file that divides them."""
    counter, content = Counter(), {part: [] for part in PARTS}
    for label, (place, class_name) in enumerate(classes.items()):
        for part, count in PARTS.items():
            for _ in range(count):
                name = name_of(place, counter.next())
                image(folder / prefix / name, counter.value)
                content[part].append([name, label, class_name])
    (folder / file).write_text(json.dumps(content))


def aircraft(root: Path) -> None:
    folder, counter = root / "fgvc_aircraft", Counter()
    folder.mkdir(parents=True)
    variants = ["707-320", "BAE 146-200", "F/A-18"]
    (folder / "variants.txt").write_text("\n".join(variants) + "\n")
    for part, count in PARTS.items():
        lines = []
        for variant in variants:
            for _ in range(count):
                number = f"{counter.next():07d}"
                image(folder / "images" / f"{number}.jpg", counter.value)
                lines.append(f"{number} {variant}")
        (folder / f"images_variant_{part}.txt").write_text("\n".join(lines) + "\n")


def caltech101(root: Path) -> None:
    folder = root / "caltech-101"
    classes = {"Faces": "face", "Leopards": "leopard", "airplanes": "airplane", "car_side": "car_side"}
    zhou_split(
        folder,
        "split_zhou_Caltech101.json",
        "101_ObjectCategories",
        classes,
        lambda place, number: f"{place}/image_{number:04d}.jpg",
    )
    for extra in ("BACKGROUND_Google", "Faces_easy"):
        image(folder / "101_ObjectCategories" / extra / "image_0001.jpg", len(extra))


def cifar_file(path: Path, per_class: int, protocol: int = 2) -> None:
    """Write a CIFAR100 file with as many images of every class."""
    labels = [label for label in range(CIFAR_CLASSES) for _ in range(per_class)]
    pixels = np.random.default_rng(per_class).integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    content = {"filenames": [f"{index}.png" for index in range(len(labels))], "batch_label": "one of one"}
    content |= {"fine_labels": labels, "coarse_labels": labels, "data": pixels}
    path.write_bytes(pickle.dumps(content, protocol=protocol))


def cifar100(root: Path) -> None:
    folder = root / "cifar100"
    folder.mkdir(parents=True)
    names = ["apple", "aquarium_fish", *(f"class_{label:02d}" for label in range(2, CIFAR_CLASSES))]
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}, protocol=2))
    cifar_file(folder / "train", 5)
    cifar_file(folder / "test", 1)


def dtd(root: Path) -> None:
    folder = root / "dtd"
    classes = dict.fromkeys(("banded", "polka-dotted", "woven"))
    zhou_split(
        folder,
        "split_zhou_DescribableTextures.json",
        "images",
        {name: name for name in classes},
        lambda place, number: f"{place}/{place}_{number:04d}.jpg",
    )
    (folder / "labels").mkdir()
    for part, place in {"train": 0, "val": 1, "test": 2}.items():
        lines = [
            f"{name}/{path.name}"
            for name in classes
            for path in sorted((folder / "images" / name).iterdir())[place::3]
        ]
        (folder / "labels" / f"{part}1.txt").write_text("\n".join(lines) + "\n")


def eurosat(root: Path) -> None:
    names = {"AnnualCrop": "Annual Crop Land", "HerbaceousVegetation": "Herbaceous Vegetation Land"}
    zhou_split(
        root / "eurosat",
        "split_zhou_EuroSAT.json",
        "2750",
        names | {"SeaLake": "Sea or Lake"},
        lambda place, number: f"{place}/{place}_{number}.jpg",
    )


def flowers(root: Path) -> None:
    folder = root / "oxford_flowers"
    names = {"1": "pink primrose", "2": "hard-leaved pocket orchid", "3": "canterbury bells"}
    zhou_split(
        folder,
        "split_zhou_OxfordFlowers.json",
        "jpg",
        {name: name for name in names.values()},
        lambda _, number: f"image_{number:05d}.jpg",
    )
    (folder / "cat_to_name.json").write_text(json.dumps(dict(reversed(names.items()))))
    labels = np.repeat(np.arange(1, 4, dtype=np.uint8), 10)[None]
    savemat(folder / "imagelabels.mat", {"labels": labels}, do_compression=True)
    numbers = np.arange(1, 31, dtype=np.uint16).reshape(3, 10)
    ids = {"trnid": numbers[:, :2], "valid": numbers[:, 2:4], "tstid": numbers[:, 4:]}
    savemat(folder / "setid.mat", {name: part.reshape(1, -1) for name, part in ids.items()})


def food(root: Path) -> None:
    folder, names = root / "food-101", ("apple_pie", "baby_back_ribs", "waffles")
    zhou_split(
        folder,
        "split_zhou_Food101.json",
        "images",
        {name: name for name in names},
        lambda place, number: f"{place}/{number}.jpg",
    )
    (folder / "meta").mkdir()
    for part, cut in {"train": slice(0, 7), "test": slice(7, None)}.items():
        content = {
            name: [f"{name}/{path.stem}" for path in sorted((folder / "images" / name).iterdir())[cut]]
            for name in names
        }
        (folder / "meta" / f"{part}.json").write_text(json.dumps(content))


def idx_file(path: Path, array: np.ndarray) -> None:
    """Write an idx file of unsigned bytes."""
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def mnist(root: Path) -> None:
    folder = root / "mnist"
    folder.mkdir(parents=True)
    for file, per_class in {"train": 5, "t10k": 2}.items():
        labels = np.tile(np.arange(10), per_class)
        images = np.random.default_rng(per_class).integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
        idx_file(folder / f"{file}-images-idx3-ubyte", images)
        idx_file(folder / f"{file}-labels-idx1-ubyte", labels)


def oxfordpet(root: Path) -> None:
    folder = root / "oxford_pets"
    names = ("Abyssinian", "american_pit_bull_terrier", "Bengal")
    zhou_split(
        folder,
        "split_zhou_OxfordPets.json",
        "images",
        {name: name.lower() for name in names},
        lambda place, number: f"{place}_{number}.jpg",
    )
    content = json.loads((folder / "split_zhou_OxfordPets.json").read_text())
    (folder / "annotations").mkdir()
    for file, parts in {"trainval": ("train", "val"), "test": ("test",)}.items():
        entries = [entry for part in parts for entry in content[part]]
        lines = [f"{Path(name).stem} {label + 1} 1 1" for name, label, _ in entries]
        (folder / "annotations" / f"{file}.txt").write_text("\n".join(lines) + "\n")


def stanfordcars(root: Path) -> None:
    folder, counter = root / "stanford_cars", Counter()
    (folder / "devkit").mkdir(parents=True)
    content = {part: [] for part in PARTS}
    for label, name in enumerate(CARS):
        words = name.split()
        for part, count in PARTS.items():
            for _ in range(count):
                place = f"cars_{'test' if part == 'test' else 'train'}/{counter.next():05d}.jpg"
                image(folder / place, counter.value)
                content[part].append([place, label, " ".join([words[-1], *words[:-1]])])
    (folder / "split_zhou_StanfordCars.json").write_text(json.dumps(content))
    cells = np.array([[name] for name in CARS], dtype=object).reshape(1, -1)
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": cells})
    cars_annotations(folder / "devkit" / "cars_train_annos.mat", content["train"] + content["val"])
    cars_annotations(folder / "cars_test_annos_withlabels.mat", content["test"])


def cars_annotations(path: Path, entries: list) -> None:
    """Write a devkit file: a struct array with a box, a class from 1 and a file name."""
    kinds = [("bbox_x1", object), ("class", object), ("fname", object)]
    records = np.empty((1, len(entries)), dtype=kinds)
    for place, (name, label, _) in enumerate(entries):
        records[0, place] = (np.uint8(1), np.uint8(label + 1), Path(name).name)
    savemat(path, {"annotations": records}, do_compression=True)


def sun397(root: Path) -> None:
    folder = root / "sun397"
    names = {place[1:]: " ".join(reversed(place[3:].split("/"))) for place in SUN}
    zhou_split(
        folder,
        "split_zhou_SUN397.json",
        "SUN397",
        names,
        lambda place, number: f"{place}/sun_{number:04d}.jpg",
    )
    (folder / "ClassName.txt").write_text("\n".join(SUN) + "\n")
    content = json.loads((folder / "split_zhou_SUN397.json").read_text())
    for file, parts in {"Training_01": ("train", "val"), "Testing_01": ("test",)}.items():
        lines = [f"/{name}" for part in parts for name, _, _ in content[part]]
        (folder / f"{file}.txt").write_text("\n".join(lines) + "\n")


BUILDERS = {
    "aircraft": aircraft,
    "caltech101": caltech101,
    "cifar100": cifar100,
    "dtd": dtd,
    "eurosat": eurosat,
    "flowers": flowers,
    "food": food,
    "mnist": mnist,
    "oxfordpet": oxfordpet,
    "stanfordcars": stanfordcars,
    "sun397": sun397,
}


def build_all(root: Path) -> Path:
    """Make all eleven."""
    for build in BUILDERS.values():
        build(root)
    return root
