"""One image, however people have it: a file, a Pillow image, an array, a tensor, bytes or an open file."""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, TypeGuard, Union

import numpy as np
import numpy.typing as npt
from PIL import Image

from dpw.clip.preprocessing import upright_rgb
from dpw.data.decoding import DECODING_ERRORS, open_image
from dpw.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

FileLike = str | os.PathLike[str] | Image.Image | bytes | bytearray | BinaryIO
ArrayLike = Union[npt.NDArray[Any], "Tensor"]
ImageLike = Union[FileLike, ArrayLike]  # noqa: UP007

KINDS = "a path, a Pillow image, a numpy array, a tensor, bytes or an open file"


def is_one_image(given: object) -> bool:
    """Whether something stands for one image, and not for several; four dimensions are a stack of images."""
    if isinstance(given, np.ndarray):
        return given.ndim != 4 and given.dtype.kind not in "OSU"
    if _is_tensor(given):
        return given.dim() != 4
    return isinstance(given, str | os.PathLike | Image.Image | bytes | bytearray) or hasattr(given, "read")


def several_images(given: object) -> Iterable[Any]:
    """Anything that can be gone through, generators too; other things are refused in a sentence."""
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InputError(f"{_kind(given)} is no image; give {KINDS}, or a list or generator of them")
    return given


def image_batches(images: Iterable[Any], size: int) -> Iterator[tuple[list[str], list[Any]]]:
    """Names and images, at most `size` at once, so that a generator of a million needs no more memory."""
    remaining, start = iter(images), 0
    while batch := list(islice(remaining, size)):
        yield [image_name(image, start + row) for row, image in enumerate(batch)], batch
        start += len(batch)


def image_name(image: object, index: int) -> str:
    """What an image is called in answers: its path, or its position among the given ones."""
    if isinstance(image, str | os.PathLike):
        return str(os.fspath(image))
    name = getattr(image, "name", None) if hasattr(image, "read") else None
    return name if isinstance(name, str) else f"image {index}"


def as_picture(image: Any, name: str) -> Image.Image:
    """An image that is not a path as an upright RGB picture, or the reason why that is impossible."""
    if isinstance(image, Image.Image):
        picture = _upright(image, name)
    elif isinstance(image, bytes | bytearray):
        picture = open_image(io.BytesIO(image), name)
    elif isinstance(image, np.ndarray):
        picture = _from_array(image, name, "(H, W, 3) or (H, W), as in array.transpose(1, 2, 0)")
    elif _is_tensor(image):
        picture = _from_tensor(image, name)
    elif hasattr(image, "read"):
        picture = open_image(image, name)
    else:
        raise InputError(f"{name} is {_kind(image)}; give {KINDS}")
    if 0 in picture.size:
        raise InputError(f"{name} has no pixels ({picture.width} × {picture.height}); give another image")
    return picture


def pixel_count(content: bytes) -> int:
    """How many pixels an encoded image says it has, without decoding it; none where it is no image."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.width * image.height
    except DECODING_ERRORS:
        return 0


def _upright(image: Image.Image, name: str) -> Image.Image:
    """A Pillow image, which may only now be read from its file and turn out to be cut off."""
    try:
        return upright_rgb(image)
    except DECODING_ERRORS as error:
        raise InputError(f"{name} cannot be decoded ({error}); give a good copy") from error


def _from_tensor(tensor: "Tensor", name: str) -> Image.Image:
    """A tensor with its channels first, as torch has them."""
    shape = "(3, H, W) or (H, W), as in tensor.permute(2, 0, 1)"
    if tensor.dim() == 3 and tensor.shape[0] not in (1, 3, 4):
        raise InputError(f"{name} is a tensor of shape {tuple(tensor.shape)}; give shape {shape}")
    plain = tensor.detach().cpu()
    array = (plain.float() if plain.is_floating_point() else plain).numpy()
    return _from_array(array.transpose(1, 2, 0) if array.ndim == 3 else array, name, shape)


def _from_array(array: npt.NDArray[Any], name: str, shape: str) -> Image.Image:
    """An array with its channels last: grey, RGB or RGBA; uint8, or floats from 0 to 1."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))) or not array.size:
        raise InputError(f"{name} has shape {array.shape}; give shape {shape}")
    if array.dtype.kind == "f":
        array = _from_floats(array, name)
    if array.dtype != np.uint8:
        raise InputError(f"{name} is of type {array.dtype}; give uint8 from 0 to 255, or floats from 0 to 1")
    return Image.fromarray(np.ascontiguousarray(array)).convert("RGB")


def _from_floats(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    """Floats from 0 to 1 as bytes; other ranges may mean anything and are refused."""
    low, high = float(array.min()), float(array.max())
    if not (low >= 0 and high <= 1):
        raise InputError(
            f"{name} has floats from {low:.4g} to {high:.4g}, which do not say what is black and what is "
            "white; give floats from 0 to 1, or uint8 from 0 to 255"
        )
    scaled: npt.NDArray[np.uint8] = np.rint(array * 255).astype(np.uint8)
    return scaled


def _kind(thing: object) -> str:
    """A thing by its type, for messages."""
    return "None" if thing is None else f"an object of type {type(thing).__name__}"


def _is_tensor(thing: object) -> "TypeGuard[Tensor]":
    """Whether a thing is a tensor of torch, which whoever has one has imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)
