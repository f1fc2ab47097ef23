"""YAML that anybody may have written: plain values, from a plain file, and never more than stand in it."""

import stat
from pathlib import Path
from typing import Any

import yaml

from dpw.errors import InputError

LARGEST_FILE = 1_000_000  # bytes
MOST_VALUES = 100_000  # with every alias written out
ERRORS = (yaml.YAMLError, ValueError, RecursionError)


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a YAML file; `what` says in messages what the file should hold."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path} is a folder, a pipe or a device; give a YAML file with {what}")
        if found.st_size > LARGEST_FILE:
            raise InputError(f"{path} has more than {LARGEST_FILE} bytes; give a YAML file with {what}")
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}: give a YAML file with {what}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}); give a YAML file with {what}") from error
    except ERRORS as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not valid YAML ({reason}); correct that line") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} must be a mapping with {what}; see the docs for an example")
    return content


def parse_yaml(text: str) -> Any:
    """Plain values from YAML; aliases that hold each other or multiply are refused, as other mistakes are.

    Example:
        >>> from dpw.data.yaml_text import parse_yaml
        >>> parse_yaml("{shots: 4, order: [birds]}")
        {'shots': 4, 'order': ['birds']}
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _count(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for, each alias counted as what it repeats; NUL is refused."""
    if isinstance(node, yaml.ScalarNode):
        if "\0" in node.value:  # no name, path or number has one, and the system knows no such file
            raise yaml.YAMLError(f"the character NUL in {node.value[:40]!r}")
        return 1
    if id(node) not in known:
        known[id(node)] = MOST_VALUES  # found again inside itself, it has no end
        inside = [one for pair in node.value for one in (pair if isinstance(pair, tuple) else (pair,))]
        known[id(node)] = 1 + sum(_count(one, known) for one in inside)
    if known[id(node)] > MOST_VALUES:
        raise yaml.YAMLError(f"its aliases stand for more than {MOST_VALUES} values")
    return known[id(node)]
