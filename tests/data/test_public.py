"""Every public dataset is read under both protocols by the rules of the benchmarks."""

import json
import shutil
from collections import Counter

import pytest

from dpw.data.protocol import get_protocol
from dpw.data.public import DATASETS, get_dataset, load_public
from dpw.data.task import Task
from dpw.errors import InputError
from tests.helpers.checks import nonempty
from tests.helpers.dataset_layouts import BUILDERS

COOP_CLASSES = {
    "aircraft": ("707-320", "BAE 146-200", "F/A-18"),
    "caltech101": ("face", "leopard", "airplane", "car_side"),
    "dtd": ("banded", "polka-dotted", "woven"),
    "eurosat": ("Annual Crop Land", "Herbaceous Vegetation Land", "Sea or Lake"),
    "flowers": ("pink primrose", "hard-leaved pocket orchid", "canterbury bells"),
    "food": ("apple_pie", "baby_back_ribs", "waffles"),
    "oxfordpet": ("abyssinian", "american_pit_bull_terrier", "bengal"),
    "stanfordcars": ("2000 AM General Hummer SUV", "2012 Acura RL Sedan", "2012 Audi TTS Coupe"),
    "sun397": ("abbey", "outdoor apartment_building", "bar"),
}
ZSCL_CLASSES = {
    "aircraft": COOP_CLASSES["aircraft"],
    "caltech101": ("off-center face", "centered face", "leopard", "airplane", "side of a car"),
    "dtd": COOP_CLASSES["dtd"],
    "eurosat": ("annual crop land", "brushland or shrubland", "lake or sea"),
    "flowers": COOP_CLASSES["flowers"],
    "food": ("apple pie", "baby back ribs", "waffles"),
    "oxfordpet": ("Abyssinian", "American Pit Bull Terrier", "Bengal"),
    "stanfordcars": ("AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Audi TTS Coupe 2012"),
    "sun397": ("abbey", "apartment building/outdoor", "bar"),
}
FIRST_PROMPTS = {
    "aircraft": "a photo of a 707-320, a type of aircraft.",
    "caltech101": "a photo of a face.",
    "cifar100": "a photo of a apple.",
    "dtd": "a photo of a banded texture.",
    "eurosat": "a centered satellite photo of Annual Crop Land.",
    "flowers": "a photo of a pink primrose, a type of flower.",
    "food": "a photo of a apple pie, a type of food.",
    "mnist": 'a photo of the number: "0 - zero".',
    "oxfordpet": "a photo of a abyssinian, a type of pet.",
    "stanfordcars": "a photo of a 2000 AM General Hummer SUV, a type of car.",
    "sun397": "a photo of a abbey.",
}
ENSEMBLE_SIZES = {
    "aircraft": 2,
    "caltech101": 34,
    "cifar100": 18,
    "dtd": 8,
    "eurosat": 3,
    "flowers": 1,
    "food": 1,
    "mnist": 1,
    "oxfordpet": 1,
    "stanfordcars": 9,
    "sun397": 2,
}
COOP_SIZES = dict.fromkeys(COOP_CLASSES, (15, 6, 9)) | {
    "caltech101": (20, 8, 12),
    "cifar100": (400, 100, 100),
    "mnist": (40, 10, 20),
}
ZSCL_SIZES = {
    "aircraft": (15, 9),
    "caltech101": (32, 9),
    "cifar100": (500, 100),
    "dtd": (12, 9),
    "eurosat": (24, 6),
    "flowers": (6, 18),
    "food": (21, 9),
    "mnist": (50, 20),
    "oxfordpet": (21, 9),
    "stanfordcars": (21, 9),
    "sun397": (24, 6),
}
NAMES = list(BUILDERS)
everywhere = pytest.mark.parametrize("name", NAMES)


def files(task: Task) -> dict[str, set[str]]:
    return {part: {split.where(i) for i in range(len(split))} for part, split in task.splits().items()}


def test_the_table_has_the_eleven_datasets_in_the_first_order():
    assert list(DATASETS) == NAMES
    assert sum(dataset.expected["coop"].classes for dataset in DATASETS.values()) == 1200
    assert sum(dataset.expected["zscl"].classes for dataset in DATASETS.values()) == 1201


@everywhere
def test_coop_has_three_splits_one_template_and_coops_names(data_root, name):
    task = load_public(name, data_root)
    assert (len(task.train), len(task.val), len(task.test)) == COOP_SIZES[name]
    assert task.classes == COOP_CLASSES.get(name, task.classes)
    assert task.prompts()[0] == FIRST_PROMPTS[name]
    assert not get_protocol(task.protocol).ensemble
    assert task.protocol == "coop"


@everywhere
def test_zscl_has_no_val_all_templates_and_torchvisions_names(data_root, name):
    task = load_public(name, data_root, protocol="zscl")
    assert (len(task.train), len(task.test)) == ZSCL_SIZES[name]
    assert task.val is None
    assert task.classes == ZSCL_CLASSES.get(name, task.classes)
    assert get_protocol(task.protocol).ensemble
    assert len(task.templates) == len(set(task.templates)) == ENSEMBLE_SIZES[name]
    assert task.protocol == "zscl"


@everywhere
@pytest.mark.parametrize("protocol", ["coop", "zscl"])
def test_no_image_is_in_two_splits_and_every_class_can_be_learnt(data_root, name, protocol):
    task = load_public(name, data_root, protocol=protocol)
    parts = list(files(task).values())
    assert sum(map(len, parts)) == len(set().union(*parts)) == sum(map(len, task.splits().values()))
    assert set(task.train.labels) == set(range(len(task.classes)))


@everywhere
def test_images_decode(data_root, name):
    task = load_public(name, data_root)
    for split in nonempty(task.splits().values()):
        assert split[0].image.mode == "RGB"


def test_names_of_arrays_datasets(data_root):
    assert load_public("cifar100", data_root).classes[:3] == ("apple", "aquarium fish", "class 02")
    assert load_public("mnist", data_root).classes[3] == "3 - three"


def test_labels_belong_to_their_class(data_root):
    for name in ("caltech101", "dtd", "eurosat", "food"):
        for protocol in ("coop", "zscl"):
            task = load_public(name, data_root, protocol=protocol)
            pairs = {
                (task.train.labels[i], task.train.where(i).split("/")[-2]) for i in range(len(task.train))
            }
            assert len({label for label, _ in pairs}) == len(pairs), "one folder for each label"
            assert [folder for _, folder in sorted(pairs)] == sorted(folder for _, folder in pairs)


def test_aircraft_labels_are_lines_of_variants(data_root):
    task = load_public("aircraft", data_root)
    lines = (data_root / "fgvc_aircraft" / "images_variant_test.txt").read_text().splitlines()
    for place, line in enumerate(lines):
        number, _, variant = line.partition(" ")
        assert task.test.where(place).endswith(f"{number}.jpg")
        assert task.classes[task.test.labels[place]] == variant


def test_flowers_labels_are_keys_minus_one(data_root):
    task = load_public("flowers", data_root, protocol="zscl")
    assert [task.train.labels[i] for i in range(6)] == [0, 0, 1, 1, 2, 2]
    assert task.train.where(2).endswith("jpg/image_00011.jpg")


def test_zscl_splits_80_20_by_torchs_permutation_of_seed_42(data_root):
    import torch

    order = torch.randperm(30, generator=torch.Generator().manual_seed(42)).tolist()
    task = load_public("eurosat", data_root, protocol="zscl")
    everything = [
        str(path)
        for folder in sorted((data_root / "eurosat" / "2750").iterdir())
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
    ]
    assert [task.train.where(i) for i in range(24)] == [everything[place] for place in order[:24]]
    assert [task.test.where(i) for i in range(6)] == [everything[place] for place in order[24:]]


@pytest.mark.parametrize("name", ["mnist", "cifar100"])
def test_val_is_a_fifth_of_each_class_drawn_once_from_the_seed(data_root, name):
    first, again = load_public(name, data_root, seed=1), load_public(name, data_root, seed=1)
    other = load_public(name, data_root, seed=2)
    assert set(Counter(first.val.labels).values()) == {1}
    assert files(first) == files(again) != files(other)


@pytest.mark.parametrize("name", [name for name, dataset in DATASETS.items() if dataset.rebuild])
def test_a_missing_split_file_is_refused_unless_a_rebuilt_one_is_asked_for(tmp_path, name):
    BUILDERS[name](tmp_path)
    folder = tmp_path / get_dataset(name).folder
    original = load_public(name, tmp_path)
    next(folder.glob("split_zhou_*.json")).unlink()
    with pytest.raises(InputError, match=r"split_zhou_\w+\.json is missing; .*rebuild_splits"):
        load_public(name, tmp_path)
    rebuilt = load_public(name, tmp_path, rebuild_splits=True, seed=3)
    assert rebuilt.classes == original.classes
    assert files(rebuilt) == files(load_public(name, tmp_path, rebuild_splits=True, seed=3))
    assert set(rebuilt.splits()) == {"train", "val", "test"}


def test_an_absent_dataset_is_named_with_the_command_that_gets_it(tmp_path):
    with pytest.raises(InputError, match=r"mnist is missing; .*dpw data get mnist"):
        load_public("mnist", tmp_path)


def test_an_unknown_dataset_is_answered_with_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r"'mnits' is unknown; choose one of aircraft, .*mnist"):
        load_public("mnits", tmp_path)


def changed_split(root, change):
    BUILDERS["dtd"](root)
    path = root / "dtd" / "split_zhou_DescribableTextures.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["train"].append(["../../secret.jpg", 0, "banded"]), "leads out of"),
        (lambda c: c["train"].append(["/etc/secret.jpg", 0, "banded"]), "does not exist"),
        (lambda c: c["train"].append(["..\\secret.jpg", 0, "banded"]), "leads out of"),
        (lambda c: c["train"].append(["banded/gone.jpg", 0, "banded"]), r"gone\.jpg, which does not exist"),
        (lambda c: c["val"].append(c["train"][0]), "is in train and val of dtd; remove one"),
        (lambda c: c["train"].append(c["train"][0]), "is twice in train of dtd"),
        (lambda c: c["val"].append(["./" + c["train"][0][0], 0, "banded"]), "is in train and val of dtd"),
        (lambda c: c["val"].append(["banded//" + c["train"][0][0][7:], 0, "banded"]), "is in train and val"),
        (lambda c: c["test"][0].__setitem__(1, 99), "label 99 .*a class without training images"),
        (lambda c: c["test"][0].__setitem__(1, -1), r"expected \[path, label, class name\]"),
        (lambda c: c["train"].append("x"), r"entry 15 of .* is 'x'; expected"),
        (lambda c: c["train"][0].__setitem__(2, "other"), "calls label 0 both 'other' and 'banded'"),
        (lambda c: [e.__setitem__(2, "woven") for e in c["train"] if e[1] == 0], "2 classes called 'woven'"),
        (lambda c: [e.__setitem__(1, 7) for e in c["train"] if e[1] == 0], "no training images of label 0"),
        (lambda c: c.pop("val"), "must hold the lists train, val and test"),
    ],
)
def test_bad_split_files_get_one_sentence(tmp_path, change, words):
    changed_split(tmp_path, change)
    with pytest.raises(InputError, match=words) as caught:
        load_public("dtd", tmp_path)
    assert "\n" not in str(caught.value)


def test_a_link_that_leads_out_is_refused(tmp_path):
    BUILDERS["dtd"](tmp_path)
    victim = tmp_path / "dtd" / "images" / "banded" / "banded_0001.jpg"
    outside = shutil.move(victim, tmp_path / "outside.jpg")
    victim.symlink_to(outside)
    with pytest.raises(InputError, match="is a link that leads out of"):
        load_public("dtd", tmp_path)


def test_the_datasets_folder_itself_may_be_a_link(tmp_path):
    BUILDERS["dtd"](tmp_path / "disk")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dtd").symlink_to(tmp_path / "disk" / "dtd")
    assert len(load_public("dtd", tmp_path / "data").train) == 15


@pytest.mark.real
@pytest.mark.parametrize(
    "name", ["caltech101", "cifar100", "dtd", "flowers", "mnist", "oxfordpet", "stanfordcars"]
)
def test_real_subsets_are_read_the_same_way(real_root, name):
    task = load_public(name, real_root)
    assert task.prompts()[0].count("{}") == 0
    assert set(task.train.labels) == set(range(len(task.classes)))
    for split in nonempty(task.splits().values()):
        assert split[len(split) // 2].image.mode == "RGB"
    if name not in ("dtd", "flowers"):
        assert load_public(name, real_root, protocol="zscl").val is None
