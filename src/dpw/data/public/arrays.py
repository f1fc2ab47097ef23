"""The two datasets that come as arrays: MNIST and CIFAR100."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpw.data.prompts import readable
from dpw.data.public import names
from dpw.data.public.listing import Listing, with_val
from dpw.data.readers.idx import read_idx
from dpw.data.readers.pickled import read_pickle
from dpw.data.root import Root
from dpw.data.split import Split
from dpw.errors import InputError

CIFAR_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class IdxFiles:
    """MNIST: four idx files; a share of train becomes val when the protocol wants one."""

    val_fraction: float | None

    def read(self, root: Root, key: str) -> Listing:
        """Map the four files into memory."""
        splits = {
            part: self._part(root, part, file) for part, file in {"train": "train", "test": "t10k"}.items()
        }
        listing = Listing(names.MNIST, splits)
        return listing if self.val_fraction is None else with_val(listing, self.val_fraction, key)

    def _part(self, root: Root, part: str, file: str) -> Split:
        """Images and labels of one split."""
        remedy = "put the four unpacked idx files there (`dpw data get mnist`)"
        images_path = root.required(f"{file}-images-idx3-ubyte", remedy)
        labels_path = root.required(f"{file}-labels-idx1-ubyte", remedy)
        images, labels = read_idx(images_path), read_idx(labels_path)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise InputError(
                f"{images_path} has shape {images.shape} and {labels_path} {labels.shape}; "
                "they do not belong together, download both again"
            )
        return Split.from_arrays(images, labels.tolist(), f"mnist/{part}")


@dataclass(frozen=True)
class CifarPickles:
    """CIFAR100: the files train, test and meta; a share of train becomes val when the protocol wants one."""

    val_fraction: float | None

    def read(self, root: Root, key: str) -> Listing:
        """Read the three files as plain data."""
        remedy = "put train, test and meta of cifar-100-python there (`dpw data get cifar100`)"
        meta_path = root.required("meta", remedy)
        fine_names = _field(read_pickle(meta_path), "fine_label_names", list, meta_path)
        splits = {}
        for part in ("train", "test"):
            path = root.required(part, remedy)
            content = read_pickle(path)
            pixels = _field(content, "data", np.ndarray, path)
            labels = _field(content, "fine_labels", list, path)
            if pixels.shape != (len(labels), CIFAR_PIXELS) or pixels.dtype != np.uint8:
                raise InputError(
                    f"{path} holds no CIFAR images ({pixels.dtype} {pixels.shape}); download it again"
                )
            images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            splits[part] = Split.from_arrays(images, labels, f"cifar100/{part}")
        listing = Listing(tuple(readable(str(name)) for name in fine_names), splits)
        return listing if self.val_fraction is None else with_val(listing, self.val_fraction, key)


def _field(content: Any, name: str, kind: type, path: Any) -> Any:
    """One field of a CIFAR file."""
    if not isinstance(content, dict) or not isinstance(content.get(name), kind):
        raise InputError(f"{path} has no {name}; it is not a file of cifar-100-python, download it again")
    return content[name]
