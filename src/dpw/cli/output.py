"""What reaches the terminal: plain text, in which nothing that a file or its name holds is obeyed."""

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

import typer

BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def plain(text: str, keep: str = "") -> str:
    """Text with control characters, bytes that are no text, and changes of direction spelled out.

    Example:
        >>> from dpw.cli.output import plain
        >>> plain("a" + chr(27)) == "a" + chr(92) + "x1b"
        True
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or not _acts(one) else ascii(one)[1:-1] for one in text)


def say(text: str = "", *, err: bool = False) -> None:
    """Print one line, whatever names in it hold: a line end in one of them is spelled out."""
    typer.echo(plain(text, "\t"), err=err)


def say_lines(lines: Iterable[str]) -> None:
    """Print lines, none of which becomes two by what stands in it."""
    for line in lines:
        say(line)


def say_text(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text of many lines that was laid out before, such as JSON or a table."""
    typer.echo(plain(text, "\n\t"), err=err, nl=nl)


def wrapped(text: str, indent: int = 0, first: str | None = None) -> list[str]:
    """The lines of a paragraph that is no wider than the terminal, 80 columns where there is none.

    `first` stands before the first line; the others are indented.

    Example:
        >>> from dpw.cli.output import wrapped
        >>> wrapped("what it is", indent=8, first="name    ")
        ['name    what it is']
    """
    width, rest = shutil.get_terminal_size().columns, " " * indent
    before = rest if first is None else first
    return textwrap.wrap(text, width, initial_indent=before, subsequent_indent=rest, break_on_hyphens=False)


def say_sentence(text: str) -> None:
    """Print a sentence: broken between words for a terminal that is narrower, elsewhere in one line."""
    say_lines(_broken(plain(text)) if terminal_width() else [text])


def terminal_width() -> int | None:
    """The columns of the terminal that answers go to; None where they go to a file or another program."""
    return shutil.get_terminal_size().columns if _on_a_terminal(sys.stdout) else None


def say_error(text: str) -> None:
    """Print one sentence about what went wrong, in one line but for a terminal that is narrower."""
    with suppress(OSError):  # nobody hears it, but the exit code still tells
        said = f"dpw: {plain(text)}"
        typer.echo("\n".join(_broken(said)) if _on_a_terminal(sys.stderr) else said, err=True)


def _on_a_terminal(stream: TextIO | None) -> bool:
    """Whether somebody reads a stream on a terminal; one that was closed before the start is None."""
    return stream is not None and not stream.closed and stream.isatty()


def _broken(text: str) -> list[str]:
    """A sentence in lines of the terminal's width; paths that are longer stay whole."""
    width, indent = shutil.get_terminal_size().columns, len(text) - len(text.lstrip(" "))
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def _acts(character: str) -> bool:
    """Whether a terminal does something with a character instead of showing it."""
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in BIDIRECTIONAL
