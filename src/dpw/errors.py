"""Errors a person can act on: one sentence that names the thing, what was expected and what to do."""


class DpwError(Exception):
    """Root of all errors that `dpw` raises on purpose."""


class InputError(DpwError, ValueError):
    """Something the user gave (file, value, name) cannot be used; the command line exits with code 2."""


class StoreError(InputError):
    """A file of a model or run folder is damaged, missing, foreign or unsafe."""


class Interrupted(DpwError):  # noqa: N818
    """Someone asked to stop; everything up to the last finished step is saved."""
