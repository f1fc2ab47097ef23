"""Names for drawn pictures, known without drawing them: those in the cache need not be drawn again."""

import functools
import hashlib
from pathlib import Path

import numpy as np
import PIL


@functools.cache
def drawing_version() -> str:
    """A hash of the code that draws and of the libraries it draws with: another one, other pictures."""
    sources = sorted(path for path in Path(__file__).parent.glob("*.py") if path.name != "presets.py")
    content = b"".join(path.read_bytes() for path in sources)
    return hashlib.sha256(content + f"{np.__version__} {PIL.__version__}".encode()).hexdigest()


def picture_key(*origin: object) -> str:
    """Identify a picture by what draws it and by what its random numbers start from."""
    return hashlib.sha256(f"{drawing_version()} {origin}".encode()).hexdigest()[:40]
