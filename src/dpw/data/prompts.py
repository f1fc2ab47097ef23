"""How class names become prompts; the one place where they are spelled."""

import unicodedata

DEFAULT_TEMPLATE = "a photo of a {}."


def readable(name: str) -> str:
    """A class name as a person reads it, with spaces for underscores; equal classes have equal ones.

    An accent is part of its letter, whether a system (macOS in folder names) wrote it apart or not.
    """
    return unicodedata.normalize("NFC", name.replace("_", " "))


def is_text(name: str) -> bool:
    """Whether a name can be written down; one of a file that is not in UTF-8, or cut apart, cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def spell(template: str, name: str) -> str:
    """The prompt of a class: its name in the place of `{}`, with spaces for underscores throughout."""
    return readable(template.replace("{}", name))
