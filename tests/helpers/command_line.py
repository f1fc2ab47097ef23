"""Calling `dpw` as a user does, inside this process."""

import sys

from dpw.cli import main


def dpw(capsys, *arguments) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    before, sys.argv = sys.argv, ["dpw", *map(str, arguments)]
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.argv = before
    captured = capsys.readouterr()
    return code, captured.out, captured.err
