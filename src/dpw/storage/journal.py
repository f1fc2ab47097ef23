"""What stands in a lock file: first who holds it, then the name of every file that was made; one JSON a line.

Anybody may have written it, so nothing in it is believed beyond what a writer of ours could have noted.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

TEMPORARY = re.compile(r"\.[^/]{1,200}\.dpw-[0-9a-f]{8}\.tmp")
TENSOR_FILE = re.compile(r"[A-Za-z0-9._-]{1,100}-[0-9a-f]{16}\.safetensors")
LONGEST = 1 << 20  # bytes of a lock file that are read


def parsed(content: bytes) -> list[Any]:
    """The lines of a lock file; one that was cut off is passed over."""
    found = []
    for line in content.splitlines():
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return found


def holder_of(lines: Sequence[Any]) -> Mapping[str, Any]:
    """What a writer said of itself; nothing where it had no time to."""
    return lines[0] if lines and isinstance(lines[0], dict) else {}


def names(lines: Sequence[Any]) -> set[str]:
    """The files that a journal names, as far as they can be a writer's own."""
    plain = {line for line in lines if isinstance(line, str) and ".." not in line.split("/")}
    return {
        name
        for name in plain
        if not name.startswith("/") and (TEMPORARY.fullmatch(last(name)) or is_tensor_file(name))
    }


def is_tensor_file(name: str) -> bool:
    """Whether a name with folders is that of a tensor file."""
    return TENSOR_FILE.fullmatch(last(name)) is not None


def last(name: str) -> str:
    """The file's own name in a name with folders."""
    return name.rpartition("/")[2]
