"""CIFAR's pickles, read by a small machine that calls nothing a file names.

A pickle is a program. This reader knows only the instructions that build dicts, lists, tuples, strings,
numbers and numpy arrays of numbers; every other instruction, and every other name, is refused.
"""

import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpw.errors import InputError

ARRAY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
BUFFER_MODULES = ("numpy.core.numeric", "numpy._core.numeric")
ARRAY_TYPES = ("u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f4", "f8")


class _RefusedError(Exception):
    """The pickle wants something other than data."""


class _Name:
    """A name the pickle mentions; it is compared, never looked up."""

    def __init__(self, module: str, name: str) -> None:
        """Remember the two parts."""
        self.full = (module, name)


class _Array:
    """An array between its creation and the arrival of its content."""

    value: np.ndarray[Any, Any] | None = None


class _Mark:
    """Where a group of values on the stack begins."""


def read_pickle(path: Path) -> Any:
    """Read plain data from a pickle; refuse everything that is more than data."""
    try:
        return _finished(_Machine().run(path.read_bytes()))
    except _RefusedError as refusal:
        raise InputError(
            f"{path} is not plain data ({refusal}) and was not read; download the original file again"
        ) from refusal
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        MemoryError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise InputError(f"{path} is damaged ({error}); download it again") from error


class _Machine:
    """Follows the instructions of one pickle."""

    def __init__(self) -> None:
        """Begin with an empty stack and memo."""
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """Follow every instruction up to STOP."""
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name == "STOP":
                return self.stack.pop()
            if opcode.name in _CONSTANTS:
                self.stack.append(_CONSTANTS[opcode.name]())
            elif opcode.name in _LITERALS:
                self.stack.append(argument)
            elif opcode.name in _ACTIONS:
                _ACTIONS[opcode.name](self, argument)
            elif opcode.name not in ("PROTO", "FRAME"):
                raise _RefusedError(f"instruction {opcode.name}")
        raise ValueError("it ends before its STOP")

    def since_mark(self) -> list[Any]:
        """Take the values above the last mark off the stack."""
        values: list[Any] = []
        while not isinstance(value := self.stack.pop(), _Mark):
            values.append(value)
        return values[::-1]

    def tuple_of(self, count: int) -> None:
        """Replace the last values by a tuple of them."""
        values = [self.stack.pop() for _ in range(count)][::-1]
        self.stack.append(tuple(values))

    def extend(self, values: list[Any]) -> None:
        """Add values to the list on top."""
        _expect(self.stack[-1], list).extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Add pairs to the dict on top."""
        _expect(self.stack[-1], dict).update(zip(values[::2], values[1::2], strict=True))

    def new_dict(self, values: list[Any]) -> None:
        """Push a dict of pairs."""
        self.stack.append({})
        self.set_items(values)

    def name(self, argument: str | None) -> None:
        """Push a name, given in the instruction or as two strings on the stack."""
        if argument is not None:
            module, _, name = argument.partition(" ")
        else:
            name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(_Name(module, name))

    def reduce(self) -> None:
        """Build an array, a dtype or bytes; no other name can be applied to anything."""
        arguments, name = _expect(self.stack.pop(), tuple), _expect(self.stack.pop(), _Name)
        self.stack.append(_built(name.full, arguments))

    def build(self) -> None:
        """Fill an array with its content; a dtype's extra state changes nothing here."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, np.dtype):
            return
        _, shape, dtype, fortran, content = state
        _expect(target, _Array).value = _array(content, dtype, shape, "F" if fortran else "C")


def _built(name: tuple[str, str], arguments: tuple[Any, ...]) -> Any:
    """What one of the few known names makes of its arguments."""
    if name in [(module, "_reconstruct") for module in ARRAY_MODULES]:
        return _Array()
    if name in [(module, "_frombuffer") for module in BUFFER_MODULES]:
        return _array(*arguments)
    if name == ("numpy", "dtype"):
        return _dtype(arguments[0])
    if name == ("_codecs", "encode") and arguments[1] == "latin1":
        return _expect(arguments[0], str).encode("latin1")
    raise _RefusedError(f"name {'.'.join(name)}")


def _dtype(code: Any) -> np.dtype[Any]:
    """A dtype of numbers; objects and records are refused."""
    if code not in ARRAY_TYPES:
        raise _RefusedError(f"array type {code!r}")
    dtype: np.dtype[Any] = np.dtype(code)
    return dtype


def _array(content: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    """An array whose size is that of the bytes present, whatever the pickle claims."""
    data = (
        content.encode("latin1") if isinstance(content, str) else bytes(_expect(content, bytes | bytearray))
    )
    return np.frombuffer(data, dtype=_expect(dtype, np.dtype)).reshape(
        shape, order="F" if order == "F" else "C"
    )


def _expect(value: Any, kind: Any) -> Any:
    """Refuse a value of another kind than the instruction works on."""
    if not isinstance(value, kind):
        raise _RefusedError(f"{type(value).__name__} where something else belongs")
    return value


def _finished(value: Any) -> Any:
    """Replace arrays in dicts by their content."""
    if isinstance(value, _Array | _Name | _Mark):
        if isinstance(value, _Array) and value.value is not None:
            return value.value
        raise _RefusedError("something unfinished")
    if isinstance(value, dict):
        return {str(key): _finished(item) for key, item in value.items()}
    return value


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "MARK": _Mark,
}

_LITERALS = frozenset(
    {
        "BININT",
        "BININT1",
        "BININT2",
        "INT",
        "LONG",
        "LONG1",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
    }
)

_ACTIONS: dict[str, Callable[[_Machine, Any], Any]] = {
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.since_mark())),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "LIST": lambda machine, _: machine.stack.append(machine.since_mark()),
    "APPEND": lambda machine, _: machine.extend([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "DICT": lambda machine, _: machine.new_dict(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.set_items([machine.stack.pop(), machine.stack.pop()][::-1]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "PUT": lambda machine, key: machine.memo.update({key: machine.stack[-1]}),
    "BINPUT": lambda machine, key: machine.memo.update({key: machine.stack[-1]}),
    "LONG_BINPUT": lambda machine, key: machine.memo.update({key: machine.stack[-1]}),
    "MEMOIZE": lambda machine, _: machine.memo.update({len(machine.memo): machine.stack[-1]}),
    "GET": lambda machine, key: machine.stack.append(machine.memo[key]),
    "BINGET": lambda machine, key: machine.stack.append(machine.memo[key]),
    "LONG_BINGET": lambda machine, key: machine.stack.append(machine.memo[key]),
    "GLOBAL": lambda machine, argument: machine.name(argument),
    "STACK_GLOBAL": lambda machine, _: machine.name(None),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}
