"""Memory of commands that compute: freed blocks are kept, imported modules not looked through for garbage."""

import ctypes
import gc
import sys

# Names and numbers of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT = 2**28  # bytes; more than the largest activation of a usual batch


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks; it would give each back and have the system fill the next with zeros.

    That is a tenth of the time of a small CLIP, for as many bytes more at most. Other systems keep what was
    freed by themselves.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT)
        mallopt(M_TRIM_THRESHOLD, KEPT)


def pass_over_imported() -> None:
    """Have garbage collections leave out what is there now, above all modules, which is never garbage.

    Accelerate collects after every training, a tenth of a second each and more, several times in `dpw learn`.
    """
    gc.freeze()
