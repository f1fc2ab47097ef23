"""What produced the numbers: the versions that every result names."""

import platform

from dpw import __version__

PROGRAM = f"dpw {__version__}"


def versions() -> dict[str, str]:
    """The versions of this package and of what it computes with."""
    import accelerate
    import torch
    import transformers

    return {
        "dpw": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "accelerate": accelerate.__version__,
    }
