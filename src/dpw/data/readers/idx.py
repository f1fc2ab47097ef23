"""MNIST's idx files: a small header, then bytes."""

import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpw.errors import InputError

UNSIGNED_BYTE = 8


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Map an idx file of unsigned bytes into memory without reading it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(4)
        if start[:2] == b"\x1f\x8b":
            raise InputError(f"{path} is still compressed; unpack it with gunzip")
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] != UNSIGNED_BYTE:
            raise InputError(f"{path} is not an idx file of unsigned bytes; download it again")
        header = file.read(4 * start[3])
    if len(header) < 4 * start[3]:
        raise InputError(f"{path} ends inside its header; download it again")
    shape = struct.unpack(f">{start[3]}I", header)
    offset = 4 + len(header)
    if size != offset + math.prod(shape):
        raise InputError(
            f"{path} has {size} bytes but its header promises {offset + math.prod(shape)}; download it again"
        )
    if not math.prod(shape):
        return np.zeros(shape, np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r", offset=offset, shape=shape)
