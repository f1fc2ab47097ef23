"""Where the public datasets come from, as their authors or the torchvision project publish them."""

from dataclasses import dataclass
from typing import NamedTuple

_VGG = "https://www.robots.ox.ac.uk/~vgg/data"
_VGG_SECOND = "https://thor.robots.ox.ac.uk/~vgg/data"  # where the pets were when the first was dead
_SPLITS = (
    "https://raw.githubusercontent.com/linzhiqiu/cross_modal_adaptation/"
    "c7e7e68ae4eeadfab98e7886b2d6c9cf48a7ceb5/splits"
)
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"


@dataclass(frozen=True)
class Download:
    """One file to fetch and what to take out of it.

    `take` maps a path inside the archive (or, with "", all of it) to a path inside the dataset's folder;
    `inner` is an archive inside the archive; nothing is fetched when all that it `provides` is there.
    `second` is asked where the first address answers that it does not have the file.
    """

    url: str
    take: tuple[tuple[str, str], ...]
    provides: tuple[str, ...]
    md5: str | None = None
    sha256: str | None = None
    size: int | None = None
    inner: str | None = None
    second: str | None = None

    @property
    def file(self) -> str:
        """The name of the downloaded file."""
        return self.url.rpartition("/")[2]


class ByHand(NamedTuple):
    """What nobody offers for download any more: names inside the dataset's folder, and what to do."""

    needs: tuple[str, ...]
    says: str


def _split_file(name: str) -> Download:
    """A CoOp split file (or name list) from the public copy."""
    return Download(f"{_SPLITS}/{name}", (("", name),), (name,))


AIRCRAFT = (
    Download(
        f"{_VGG}/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz",
        (("fgvc-aircraft-2013b/data", ""),),
        ("images", "variants.txt", "images_variant_train.txt"),
        md5="d4acdd33327262359767eeaa97a4f732",
    ),
)
CALTECH101 = (
    Download(
        "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
        (("101_ObjectCategories", "101_ObjectCategories"),),
        ("101_ObjectCategories",),
        size=137414764,
        inner="caltech-101/101_ObjectCategories.tar.gz",
    ),
    _split_file("split_zhou_Caltech101.json"),
)
CIFAR100 = (
    Download(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        (("cifar-100-python", ""),),
        ("train", "test", "meta"),
        md5="eb9058c3a382ffc7106e4002c42a8d85",
    ),
)
DTD = (
    Download(
        f"{_VGG}/dtd/download/dtd-r1.0.1.tar.gz",
        (("dtd", ""),),
        ("images", "labels"),
        md5="fff73e5086ae6bdbea199a49dfb8a4c1",
    ),
    _split_file("split_zhou_DescribableTextures.json"),
)
EUROSAT = (
    Download(
        "https://huggingface.co/datasets/torchgeo/eurosat/resolve/"
        "c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip",
        (("2750", "2750"),),
        ("2750",),
        md5="c8fa014336c82ac7804f0398fcb19387",
    ),
    _split_file("split_zhou_EuroSAT.json"),
)
FLOWERS = (
    Download(
        f"{_VGG}/flowers/102/102flowers.tgz",
        (("jpg", "jpg"),),
        ("jpg",),
        md5="52808999861908f626f3c1f4e79d11fa",
    ),
    Download(
        f"{_VGG}/flowers/102/imagelabels.mat",
        (("", "imagelabels.mat"),),
        ("imagelabels.mat",),
        md5="e0620be6f572b9609742df49c70aed4d",
    ),
    Download(
        f"{_VGG}/flowers/102/setid.mat",
        (("", "setid.mat"),),
        ("setid.mat",),
        md5="a5357ecc9cb78c4bef273ce3793fc85c",
    ),
    _split_file("cat_to_name.json"),
    _split_file("split_zhou_OxfordFlowers.json"),
)
FOOD = (
    Download(
        "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
        (("food-101", ""),),
        ("images", "meta"),
        md5="85eeb15f3717b99a5da872d97d918f87",
    ),
    _split_file("split_zhou_Food101.json"),
)
MNIST = tuple(
    Download(f"{_MNIST}/{name}.gz", ((name, name),), (name,), md5=md5)
    for name, md5 in (
        ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"),
    )
)
OXFORD_PET = (
    Download(
        f"{_VGG}/pets/data/images.tar.gz",
        (("images", "images"),),
        ("images",),
        md5="5c4f3ee8e5d25df40f4fd59a7f44e54c",
        second=f"{_VGG_SECOND}/pets/images.tar.gz",
    ),
    Download(
        f"{_VGG}/pets/data/annotations.tar.gz",
        (("annotations", "annotations"),),
        ("annotations",),
        md5="95a8c909bbe2e81eed6a22bccdf3f68f",
        second=f"{_VGG_SECOND}/pets/annotations.tar.gz",
    ),
    _split_file("split_zhou_OxfordPets.json"),
)
STANFORD_CARS = (_split_file("split_zhou_StanfordCars.json"),)
STANFORD_CARS_BY_HAND = ByHand(
    ("cars_train", "cars_test", "devkit", "cars_test_annos_withlabels.mat"),
    "the official links of Stanford Cars are dead; put {missing} of a copy into {folder} by hand",
)
SUN397 = (_split_file("split_zhou_SUN397.json"),)
# Princeton's addresses have answered 404 since 2025 (pytorch/vision#9348, KaiyangZhou/CoOp#90).
SUN397_BY_HAND = ByHand(
    ("SUN397",),
    "the official links of SUN397 are dead; unpack the folder SUN397 of a copy of SUN397.tar.gz (MD5 "
    "8ca2778205c41d23104230ba66911c7a) into {folder} by hand; protocol zscl also needs ClassName.txt there",
)
