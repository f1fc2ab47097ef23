"""MATLAB 5 files: the numbers, texts, cells and structs that Flowers102 and StanfordCars come with."""

import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from dpw.errors import InputError

COMPRESSED, MATRIX = 15, 14
CELL, STRUCT, CHAR = 1, 2, 4
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"} | {
    16: "u1",
    17: "u2",
}
UNPACKED_AT_MOST = 1 << 28


def read_mat(path: Path) -> dict[str, Any]:
    """Read all variables: numbers as arrays, text as str, cells as lists, struct arrays as lists of dicts."""
    content = path.read_bytes()
    if len(content) < 128 or content[126:128] not in (b"IM", b"MI"):
        raise InputError(f"{path} is not a MATLAB 5 file; download it again")
    order = "<" if content[126:128] == b"IM" else ">"
    try:
        return dict(
            named for kind, body in _elements(content[128:], order) if (named := _variable(kind, body, order))
        )
    except (struct.error, zlib.error, ValueError, IndexError, KeyError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}); download it again") from error


def _variable(kind: int, body: bytes, order: str) -> tuple[str, Any] | None:
    """Name and value of one element at the top of the file."""
    if kind == COMPRESSED:
        unpacked = zlib.decompressobj().decompress(body, UNPACKED_AT_MOST)
        return _variable(*_elements(unpacked, order)[0], order)
    return _matrix(body, order) if kind == MATRIX else None


def _elements(content: bytes, order: str) -> list[tuple[int, bytes]]:
    """Cut a run of bytes into its tagged elements."""
    elements = []
    offset = 0
    while offset + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, offset)
        if kind >> 16:
            elements.append((kind & 0xFFFF, content[offset + 4 : offset + 4 + (kind >> 16)]))
            offset += 8
            continue
        body = content[offset + 8 : offset + 8 + size]
        if len(body) < size:
            raise ValueError("it ends inside an element")
        elements.append((kind, body))
        offset += 8 + (size if kind == COMPRESSED else -(-size // 8) * 8)
    return elements


def _matrix(body: bytes, order: str) -> tuple[str, Any]:
    """Name and value of one matrix; an empty body is an empty matrix."""
    if not body:
        return "", np.zeros((0, 0))
    flags, dimensions, name, *parts = _elements(body, order)
    kind = struct.unpack(f"{order}I", flags[1][:4])[0] & 0xFF
    shape = tuple(int(length) for length in _numbers(dimensions, order))
    if kind == CELL:
        value: Any = [_matrix(part, order)[1] for _, part in parts]
    elif kind == STRUCT:
        value = _struct(parts, math.prod(shape), order)
    elif kind == CHAR:
        value = "".join(chr(code) for code in _numbers(parts[0], order)) if parts else ""
    else:
        value = _numbers(parts[0], order).reshape(shape, order="F")
    return name[1].decode("ascii"), value


def _struct(parts: list[tuple[int, bytes]], count: int, order: str) -> list[dict[str, Any]]:
    """A struct array as one dict for each record."""
    width = int(_numbers(parts[0], order)[0])
    names = parts[1][1]
    fields = [names[start : start + width].split(b"\0")[0].decode() for start in range(0, len(names), width)]
    values = iter(parts[2:])
    return [{field: _matrix(next(values)[1], order)[1] for field in fields} for _ in range(count)]


def _numbers(element: tuple[int, bytes], order: str) -> np.ndarray[Any, Any]:
    """The numbers of a plain element."""
    kind, body = element
    return np.frombuffer(body, dtype=np.dtype(NUMBERS[kind]).newbyteorder("<" if order == "<" else ">"))
