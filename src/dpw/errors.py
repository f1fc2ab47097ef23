"""Errors that a reader may want to catch: one root, and one kind for each thing that can be done about it.

`InputError`: something that was given cannot be used (a name, a value, a file); give something else.
`DamagedFileError`: a stored file is damaged, changed, missing or unsafe; restore it. Also an `InputError`.
`StorageError`: the system refused to write (disk full, no permission); make room. Also an `OSError`.
`Interrupted`: somebody asked to stop, and everything up to the last step is saved; resume.

Every message is one sentence that names the thing, what was expected and what to do. The command line prints
it and exits with code 2 (130 or 143 when a signal stopped it).
"""


class DpwError(Exception):
    """Root of all errors that `dpw` raises on purpose."""


class InputError(DpwError, ValueError):
    """Something that was given (file, value, name) cannot be used."""


class DamagedFileError(InputError):
    """A file of a model, a run or a checkpoint is damaged, changed, missing, foreign or unsafe to read."""


StoreError = DamagedFileError  # its former name


class StorageError(DpwError, OSError):
    """The system refused to write a file; `errno` says why, and nothing that was complete is lost."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        """Keep the number of the system's error beside a sentence that people understand."""
        super().__init__(message)
        self.errno = errno


class Interrupted(DpwError):  # noqa: N818
    """Someone asked to stop; everything up to the last finished step is saved."""
