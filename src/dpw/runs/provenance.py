"""What produced the numbers: program, machine, CLIP and data, so that a result can be traced and repeated."""

import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dpw import __version__

PROGRAM = f"dpw {__version__}"
COMPUTES = ("torch", "transformers", "accelerate", "numpy", "pillow", "safetensors", "tokenizers")
DECISIVE = ("commit", "device", "threads", "versions")  # what may change the last digits of a number


def versions() -> dict[str, str]:
    """The versions of this package and of what it computes with."""
    found = {"dpw": __version__, "python": platform.python_version()}
    for name in COMPUTES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a package that came without its metadata
            continue
    return found


def environment(device: Any) -> dict[str, Any]:
    """The program and the machine as they are now."""
    import torch

    return {
        **checkout(Path(__file__).parent),
        "command": shlex.join(sys.argv),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "versions": versions(),
    }


def checkout(folder: Path) -> dict[str, Any]:
    """Commit of the git checkout the program runs from, and whether it was changed; None without one."""
    commit = _git(folder, "rev-parse", "HEAD") if _git(folder, "ls-files", "provenance.py") else None
    if not commit:
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": bool(_git(folder, "status", "--porcelain", "--", str(folder.parent)))}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says about a folder, or None if there is no git or no checkout."""
    program = shutil.which("git")
    if program is None:
        return None
    command = [program, "-C", str(folder), *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return answer.stdout.strip() if answer.returncode == 0 else None


def device_name(device: Any) -> str:
    """The kind of a device and, of an accelerator, what it is called."""
    import torch

    called = getattr(torch.get_device_module(device), "get_device_name", None)
    return str(device.type) if called is None else f"{device.type} ({called(device)})"


def changed(started: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What decides last digits and is not as it was when a run started."""
    return {name: now[name] for name in DECISIVE if started.get(name) != now[name]}
