"""The README as package indexes show it, where files of the repository are not beside it; asked by hatchling.

Links to them lead to the repository once `[project.urls]` of pyproject.toml names it as `Source`. Until then
they are plain words, and pictures are left out.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")


def elsewhere(text: str, source: str | None) -> str:
    """A README whose links do not need the files beside it.

    Example:
        >>> elsewhere("See [few images](docs/few-images.md).", None)
        'See few images.'
        >>> elsewhere("See [few images](docs/few-images.md).", "https://example.org/dpw")
        'See [few images](https://example.org/dpw/blob/main/docs/few-images.md).'
    """

    def replaced(found: re.Match[str]) -> str:
        """One link or picture."""
        picture, words, target = found.groups()
        if source is None:
            return "" if picture else words
        return f"{picture}[{words}]({source.rstrip('/')}/{'raw' if picture else 'blob'}/main/{target})"

    return re.sub(r"\n{3,}", "\n\n", LINK.sub(replaced, text))


class LongDescription(MetadataHookInterface):
    """Puts the adapted README into the metadata of wheel and sdist."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called while the metadata is gathered."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        adapted = elsewhere(text, metadata.get("urls", {}).get("Source"))
        metadata["readme"] = {"content-type": "text/markdown", "text": adapted}
