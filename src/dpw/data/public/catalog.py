"""The table of public datasets: adding one is adding an entry."""

from collections.abc import Mapping
from dataclasses import dataclass

from dpw.data.prompts import readable
from dpw.data.public import downloads, names, templates
from dpw.data.public.arrays import CifarPickles, IdxFiles
from dpw.data.public.coop import VariantLists, ZhouSplit
from dpw.data.public.downloads import ByHand, Download
from dpw.data.public.listing import Rule
from dpw.data.public.official import (
    CarsDevkit,
    ClassFolders,
    DtdPartition,
    FlowerLabels,
    FoodMeta,
    PetLists,
    SunFolders,
    division_50_20_30,
    random_80_20,
)
from dpw.errors import InputError

CALTECH_BACKGROUND = "BACKGROUND_Google"


@dataclass(frozen=True)
class Expected:
    """The official figures of a dataset under one protocol."""

    classes: int
    train: int
    val: int | None
    test: int


@dataclass(frozen=True)
class PublicDataset:
    """One dataset: where it lies, how each protocol reads it, and what should be found."""

    name: str
    title: str
    folder: str
    templates: tuple[str, ...]
    rules: Mapping[str, Rule]
    expected: Mapping[str, Expected]
    rebuild: Rule | None = None
    downloads: tuple[Download, ...] = ()
    by_hand: ByHand | None = None


def _expected(
    coop: tuple[int, int, int, int], zscl: tuple[int, int, int], without_val: None = None
) -> dict[str, Expected]:
    """Classes, train, val, test of `coop` and classes, train, test of `zscl`."""
    return {"coop": Expected(*coop), "zscl": Expected(zscl[0], zscl[1], without_val, zscl[2])}


_ENTRIES = (
    PublicDataset(
        name="aircraft",
        title="Aircraft",
        folder="fgvc_aircraft",
        templates=templates.AIRCRAFT,
        rules={
            "coop": VariantLists(
                {part: f"images_variant_{part}.txt" for part in ("train", "val", "test")},
            ),
            "zscl": VariantLists({part: f"images_variant_{part}.txt" for part in ("train", "test")}),
        },
        expected=_expected((100, 3334, 3333, 3333), (100, 3334, 3333)),
        downloads=downloads.AIRCRAFT,
    ),
    PublicDataset(
        name="caltech101",
        title="Caltech101",
        folder="caltech-101",
        templates=templates.CALTECH101,
        rules={
            "coop": ZhouSplit("split_zhou_Caltech101.json", "101_ObjectCategories"),
            "zscl": ClassFolders(
                "101_ObjectCategories", names.caltech101_zscl, random_80_20, (CALTECH_BACKGROUND,)
            ),
        },
        rebuild=ClassFolders(
            "101_ObjectCategories",
            names.caltech101_coop,
            division_50_20_30,
            (CALTECH_BACKGROUND, "Faces_easy"),
        ),
        expected=_expected((100, 4128, 1649, 2465), (101, 6941, 1736)),
        downloads=downloads.CALTECH101,
    ),
    PublicDataset(
        name="cifar100",
        title="CIFAR100",
        folder="cifar100",
        templates=templates.CIFAR100,
        rules={"coop": CifarPickles(0.2), "zscl": CifarPickles(None)},
        expected=_expected((100, 40000, 10000, 10000), (100, 50000, 10000)),
        downloads=downloads.CIFAR100,
    ),
    PublicDataset(
        name="dtd",
        title="DTD",
        folder="dtd",
        templates=templates.DTD,
        rules={"coop": ZhouSplit("split_zhou_DescribableTextures.json", "images"), "zscl": DtdPartition()},
        rebuild=ClassFolders("images", names.unchanged, division_50_20_30),
        expected=_expected((47, 2820, 1128, 1692), (47, 1880, 1880)),
        downloads=downloads.DTD,
    ),
    PublicDataset(
        name="eurosat",
        title="EuroSAT",
        folder="eurosat",
        templates=templates.EUROSAT,
        rules={
            "coop": ZhouSplit("split_zhou_EuroSAT.json", "2750"),
            "zscl": ClassFolders("2750", names.eurosat_zscl, random_80_20),
        },
        rebuild=ClassFolders("2750", names.eurosat_coop, division_50_20_30),
        expected=_expected((10, 13500, 5400, 8100), (10, 21600, 5400)),
        downloads=downloads.EUROSAT,
    ),
    PublicDataset(
        name="flowers",
        title="Flowers",
        folder="oxford_flowers",
        templates=templates.FLOWERS,
        rules={"coop": ZhouSplit("split_zhou_OxfordFlowers.json", "jpg"), "zscl": FlowerLabels()},
        rebuild=FlowerLabels(division_50_20_30),
        expected=_expected((102, 4093, 1633, 2463), (102, 1020, 6149)),
        downloads=downloads.FLOWERS,
    ),
    PublicDataset(
        name="food",
        title="Food",
        folder="food-101",
        templates=templates.FOOD,
        rules={"coop": ZhouSplit("split_zhou_Food101.json", "images"), "zscl": FoodMeta(readable)},
        rebuild=ClassFolders("images", names.unchanged, division_50_20_30),
        expected=_expected((101, 50500, 20200, 30300), (101, 75750, 25250)),
        downloads=downloads.FOOD,
    ),
    PublicDataset(
        name="mnist",
        title="MNIST",
        folder="mnist",
        templates=templates.MNIST,
        rules={"coop": IdxFiles(0.2), "zscl": IdxFiles(None)},
        expected=_expected((10, 48000, 12000, 10000), (10, 60000, 10000)),
        downloads=downloads.MNIST,
    ),
    PublicDataset(
        name="oxfordpet",
        title="OxfordPet",
        folder="oxford_pets",
        templates=templates.OXFORD_PET,
        rules={"coop": ZhouSplit("split_zhou_OxfordPets.json", "images"), "zscl": PetLists(names.pet_title)},
        rebuild=PetLists(str.lower, 0.2),
        expected=_expected((37, 2944, 736, 3669), (37, 3680, 3669)),
        downloads=downloads.OXFORD_PET,
    ),
    PublicDataset(
        name="stanfordcars",
        title="StanfordCars",
        folder="stanford_cars",
        templates=templates.STANFORD_CARS,
        rules={"coop": ZhouSplit("split_zhou_StanfordCars.json", ""), "zscl": CarsDevkit(names.unchanged)},
        rebuild=CarsDevkit(names.car_year_first, 0.2),
        expected=_expected((196, 6509, 1635, 8041), (196, 8144, 8041)),
        downloads=downloads.STANFORD_CARS,
        by_hand=downloads.STANFORD_CARS_BY_HAND,
    ),
    PublicDataset(
        name="sun397",
        title="SUN397",
        folder="sun397",
        templates=templates.SUN397,
        rules={
            "coop": ZhouSplit("split_zhou_SUN397.json", "SUN397"),
            "zscl": SunFolders(readable, random_80_20),
        },
        rebuild=SunFolders(names.sun_reversed),
        expected=_expected((397, 15880, 3970, 19850), (397, 87003, 21751)),
        downloads=downloads.SUN397,
        by_hand=downloads.SUN397_BY_HAND,
    ),
)

DATASETS = {dataset.name: dataset for dataset in _ENTRIES}


def get_dataset(name: str) -> PublicDataset:
    """Find a public dataset by its name, in any case."""
    if name.lower() not in DATASETS:
        raise InputError(f"dataset {name!r} is unknown; choose one of {', '.join(DATASETS)}")
    return DATASETS[name.lower()]
