"""A split: labelled images that are decoded one by one, only when they are asked for."""

import hashlib
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, overload

import numpy as np
import numpy.typing as npt
from PIL import Image

from dpw.data.decoding import missing, open_image
from dpw.errors import InputError, wrong


class Sample(NamedTuple):
    """One image, RGB and upright, with the index of its class."""

    image: Image.Image
    label: int


class ImageSource(Protocol):
    """Where a split's images come from: anything that can open, identify and locate the i-th one."""

    def __len__(self) -> int:
        """How many images there are."""
        ...

    def image(self, index: int) -> Image.Image:
        """Decode one image."""
        ...

    def key(self, index: int) -> str:
        """Identify the content of one image, so that caches can trust it."""
        ...

    def where(self, index: int) -> str:
        """Say where the image is, for error messages."""
        ...


class FileImages:
    """Images in files."""

    def __init__(self, paths: Iterable[Path | str]) -> None:
        """Remember the paths; no file is touched yet."""
        if isinstance(paths, str | bytes) or not isinstance(paths, Iterable):
            raise wrong("paths", paths, "a list of image files")
        self.paths = tuple(str(path) for path in paths)

    def __len__(self) -> int:
        """How many files there are."""
        return len(self.paths)

    def image(self, index: int) -> Image.Image:
        """Open and decode one file."""
        return open_image(Path(self.paths[index]))

    def key(self, index: int) -> str:
        """Identify a file by its path, size and times; the time of its status cannot be set back."""
        try:
            found = Path(self.paths[index]).stat()
        except (OSError, ValueError) as error:
            raise missing(self.paths[index]) from error
        path = Path(self.paths[index]).absolute()
        return content_key(os.fsencode(f"{path}|{found.st_size}|{found.st_mtime_ns}|{found.st_ctime_ns}"))

    def where(self, index: int) -> str:
        """Give the path."""
        return self.paths[index]


class ArrayImages:
    """Images that are already in memory: uint8, H×W×3 or H×W."""

    def __init__(self, images: Sequence[npt.NDArray[np.uint8]] | npt.NDArray[np.uint8], name: str) -> None:
        """Keep the arrays by reference; `name` is what error messages call them."""
        if not isinstance(images, Sequence | np.ndarray):
            raise wrong("images", images, "an array, or a list of arrays")
        self.images = images
        self.name = name
        for index in range(1 if isinstance(images, np.ndarray) and len(images) else len(images)):
            _check_array(images[index], self.where(index))

    def __len__(self) -> int:
        """How many arrays there are."""
        return len(self.images)

    def image(self, index: int) -> Image.Image:
        """Wrap one array."""
        return Image.fromarray(np.ascontiguousarray(self.images[index])).convert("RGB")

    def key(self, index: int) -> str:
        """Identify an array by its pixels."""
        array = np.ascontiguousarray(self.images[index])
        return content_key(str(array.shape).encode() + array.tobytes())

    def where(self, index: int) -> str:
        """Give the position, such as `mnist/train[17]`."""
        return f"{self.name}[{index}]"


class JoinedImages:
    """The images of several splits, one after another."""

    def __init__(self, splits: Sequence["Split"]) -> None:
        """Remember where each split begins."""
        self._locations = [(split, index) for split in splits for index in range(len(split))]

    def __len__(self) -> int:
        """How many images there are."""
        return len(self._locations)

    def image(self, index: int) -> Image.Image:
        """Decode one image."""
        split, inside = self._locations[index]
        return split[inside].image

    def key(self, index: int) -> str:
        """Identify one image as its own split does."""
        split, inside = self._locations[index]
        return split.key(inside)

    def where(self, index: int) -> str:
        """Say where one image is, as its own split does."""
        split, inside = self._locations[index]
        return split.where(inside)

    def paths(self) -> list[str] | None:
        """The files of all images, or None if one of them is not in a file of its own."""
        of_split = {id(split): split.paths() for split, _ in self._locations}
        if None in of_split.values():
            return None
        return [(of_split[id(split)] or [])[inside] for split, inside in self._locations]


class Split(Sequence[Sample]):
    """An immutable sequence of labelled images over a source; slicing and shuffling copy no image.

    Args:
        source: Where the images are; `from_files` and `from_arrays` make the usual ones.
        labels: An index into the task's classes for each image.
        indices: Which images of the source, in which order; all by default.

    Raises:
        InputError: The number of labels is not that of the images.

    Example:
        >>> import numpy as np
        >>> from dpw.data.task import Split
        >>> images = np.zeros((3, 32, 32, 3), dtype=np.uint8)
        >>> split = Split.from_arrays(images, labels=[0, 1, 1], name="toys/train")
        >>> split[1:], split[0].label, split.where(2)
        (Split(2 images, 1 classes), 0, 'toys/train[2]')
    """

    def __init__(
        self, source: ImageSource, labels: Sequence[int], indices: Sequence[int] | None = None
    ) -> None:
        """Take the images of `source` at `indices` (all by default), each with its label."""
        chosen = range(len(source)) if indices is None else tuple(indices)
        try:
            self._labels = tuple(map(int, labels))
        except (TypeError, ValueError, OverflowError) as error:
            raise wrong("labels", labels, "a whole number for each image") from error
        if len(chosen) != len(self._labels):
            raise InputError(
                f"{len(self._labels)} labels were given for {len(chosen)} images; give one for each"
            )
        self._source = source
        self._indices: Sequence[int] = chosen

    @classmethod
    def from_files(cls, paths: Iterable[Path | str], labels: Sequence[int]) -> "Split":
        """Take images from files, which are opened when they are asked for.

        Args:
            paths: The image files.
            labels: An index into the task's classes for each file.

        Raises:
            InputError: The number of labels is not that of the files.

        Example:
            >>> from dpw.data.task import Split
            >>> Split.from_files(["cat.jpg", "dog.jpg"], labels=[0, 1]).where(1)
            'dog.jpg'
        """
        return cls(FileImages(paths), labels)

    @classmethod
    def from_arrays(
        cls,
        images: Sequence[npt.NDArray[np.uint8]] | npt.NDArray[np.uint8],
        labels: Sequence[int],
        name: str,
    ) -> "Split":
        """Take images from arrays in memory.

        Args:
            images: uint8 arrays of shape (H, W, 3) or (H, W), or one array of them.
            labels: An index into the task's classes for each array.
            name: What messages call them, such as `mnist/train`.

        Raises:
            InputError: An array is no image, or the number of labels is not that of the arrays.

        Example:
            >>> import numpy as np
            >>> from dpw.data.task import Split
            >>> split = Split.from_arrays(np.full((1, 2, 2), 255, dtype=np.uint8), labels=[0], name="white")
            >>> split[0].image.getpixel((0, 0))
            (255, 255, 255)
        """
        return cls(ArrayImages(images, name), labels)

    def __len__(self) -> int:
        """How many images there are."""
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> "Split": ...

    def __getitem__(self, index: int | slice) -> "Sample | Split":
        """Decode one image, or cut a smaller split out without decoding anything."""
        if isinstance(index, slice):
            return self.select(range(len(self))[index])
        return Sample(self._source.image(self._indices[index]), self._labels[index])

    def __iter__(self) -> Iterator[Sample]:
        """Decode the images one after another."""
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        """Show the size, not the images."""
        return f"Split({len(self)} images, {len(set(self._labels))} classes)"

    @property
    def labels(self) -> Sequence[int]:
        """The labels of all images, without decoding anything."""
        return self._labels

    def key(self, index: int) -> str:
        """Identify the content of one image; equal keys mean equal pixels."""
        return self._source.key(self._indices[index])

    def where(self, index: int) -> str:
        """Say where one image is: its path, or its position such as `mnist/train[17]`."""
        return self._source.where(self._indices[index])

    def paths(self) -> list[str] | None:
        """The files of the images in order, or None if the images are not in files of their own."""
        every: Sequence[str] | None = None
        if isinstance(self._source, JoinedImages):
            every = self._source.paths()
        elif isinstance(self._source, FileImages):
            every = self._source.paths
        return None if every is None else [every[index] for index in self._indices]

    @property
    def in_memory(self) -> bool:
        """Whether no image has to be read from anywhere."""
        return isinstance(self._source, ArrayImages)

    def select(self, indices: Iterable[int]) -> "Split":
        """Take the images at these indices, in this order."""
        chosen = list(indices)
        return Split(
            self._source, [self._labels[i] for i in chosen], [self._indices[index] for index in chosen]
        )

    def relabelled(self, labels: Sequence[int]) -> "Split":
        """Give the same images other labels."""
        return Split(self._source, labels, self._indices)

    def shuffled(self, seed: int) -> "Split":
        """Reorder by a seed; the same seed always gives the same order."""
        order = list(range(len(self)))
        random.Random(f"{seed}-shuffle").shuffle(order)
        return self.select(order)


def join(splits: Sequence[Split]) -> Split:
    """One split with the images of several, in their order."""
    return Split(JoinedImages(splits), [label for split in splits for label in split.labels])


def _check_array(array: npt.NDArray[np.uint8], where: str) -> None:
    """Refuse arrays that are not images."""
    if not isinstance(array, np.ndarray):
        raise wrong(where, array, "a numpy array of uint8")
    if array.dtype != np.uint8 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)):
        raise InputError(
            f"{where} is {array.dtype} of shape {array.shape}; give uint8 of shape (H, W, 3) or (H, W)"
        )


def content_key(content: bytes) -> str:
    """Shorten content to a fixed-length identity."""
    return hashlib.sha256(content).hexdigest()[:40]
