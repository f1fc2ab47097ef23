"""How docstrings are read for the site: `Example:` is a section, and arguments may be explained together."""

import re
from typing import Any

from griffe import Extension, Object

TOGETHER = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +.*)*)$", flags=re.MULTILINE)


def adapted(text: str) -> str:
    """A docstring in the spelling that the reader of docstrings expects.

    Example:
        >>> print(adapted("Args:\\n    low, high: bounds."))
        Args:
            low: bounds.
            high: bounds.
    """
    apart = TOGETHER.sub(
        lambda found: "\n".join(f"{found[1]}{one}: {found[3]}" for one in found[2].split(", ")), text
    )
    return re.sub(r"^( *)Example:$", r"\1Examples:", apart, flags=re.MULTILINE)


class Docstrings(Extension):
    """Adapts every docstring before it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every function, class and module."""
        if obj.docstring is not None:
            obj.docstring.value = adapted(obj.docstring.value)
