"""What there is to say about a method without running it: presets, and every setting with its meaning."""

import ast
import functools
import inspect
import itertools
import textwrap
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from dpw.methods.catalog import Entry, Setting
from dpw.methods.config import keys_of
from dpw.methods.registry import METHODS, PRESETS

BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤", "multiple_of": "multiple of"}


def describe(name: str) -> Entry:
    """A registered method in words.

    Example:
        >>> from dpw.methods.description import describe
        >>> describe("wise-ft").presets
        ['default', 'zeroshot']
    """
    kind = METHODS[name]
    return Entry(
        kind.summary, kind.status, kind.isolated, list(PRESETS[name]), settings_of(kind.config_class)
    )


def settings_of(kind: type[BaseModel]) -> list[Setting]:
    """All settings of a kind in the order of its class, those of a section by dotted names."""
    defaults = kind().model_dump(mode="json")
    return [_setting(kind, defaults, name) for name in keys_of(kind)]


def _setting(kind: type[BaseModel], defaults: dict[str, Any], dotted: str) -> Setting:
    """One setting, looked up section by section."""
    value: Any = defaults
    owner: type[BaseModel] = kind
    *sections, name = dotted.split(".")
    for section in sections:
        value = value[section]
        owner = type(getattr(owner(), section))
    return Setting(dotted, value[name], _values(owner, name), meanings(owner).get(name, ""))


def _values(owner: type[BaseModel], name: str) -> str:
    """What a setting may be: its choices, or its type with the bounds."""
    field = owner.model_fields[name]
    bounds = [
        f"{sign} {getattr(rule, bound):g}"
        for rule in field.metadata
        for bound, sign in BOUNDS.items()
        if getattr(rule, bound, None) is not None
    ]
    inner = get_args(field.annotation)
    optional = type(None) in inner
    words = _type(next(one for one in inner if one is not type(None)) if optional else field.annotation)
    return " ".join([words, ", ".join(bounds)]).strip() + (", or null" if optional else "")


def _type(annotation: Any) -> str:
    """A type in the words of a settings file."""
    if get_origin(annotation) is Literal:
        return ", ".join(str(choice) for choice in get_args(annotation))
    plain = {str: "text", bool: "true or false", int: "whole number", float: "number"}
    if annotation in plain:
        return plain[annotation]
    inner = [_type(one) for one in get_args(annotation) if one is not Ellipsis]
    if get_origin(annotation) is dict:
        return f"a {inner[1]} for each task"
    return f"list: {inner[0]}"


@functools.cache
def meanings(kind: type[BaseModel]) -> dict[str, str]:
    """The sentence below each field of a class or of those it derives from.

    Example:
        >>> from dpw.methods.config import TrainingConfig
        >>> from dpw.methods.description import meanings
        >>> meanings(TrainingConfig)["batch_size"]
        'Images in a step.'
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _own_meanings(base)
    return found


def _own_meanings(kind: type[BaseModel]) -> dict[str, str]:
    """The sentences in the body of one class; none where its source is not there."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError):
        return {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    found = {}
    for field, below in itertools.pairwise(statements):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[field.target.id] = " ".join(text.value.split())
    return found
