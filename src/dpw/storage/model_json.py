"""`model.json`, which says all about a learned model but its tensors: read without torch."""

from pathlib import Path
from typing import Any

from dpw.errors import DamagedFileError
from dpw.storage import files
from dpw.storage.schema import ModelContent, check_content

KIND, FILE = "dpw-model", "model.json"


def is_model(folder: Path) -> bool:
    """Whether a folder looks like one of ours (and not like a CLIP checkpoint)."""
    return (folder / FILE).is_file()


def read_model(folder: Path) -> dict[str, Any]:
    """The JSON of a model, checked."""
    content = files.read_json(folder / FILE, "dpw model")
    if content.get("kind") != KIND:
        raise DamagedFileError(f"{folder / FILE} is a {content.get('kind')!r}, not a model")
    check_content(ModelContent, content, folder / FILE)
    return content
