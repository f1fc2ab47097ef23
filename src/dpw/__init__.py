"""Continual learning of CLIP by Dynamic Prefix Weighting.

    from dpw import ContinualCLIP, Task

    learner = ContinualCLIP.from_pretrained("mini")
    learner.learn(Task.from_folder("birds"))
    answer = learner.predict("photo.jpg")  # class, task, and how sure it is of both

`run_benchmark` runs a method through a named benchmark; `dpw.errors` says what can go wrong.
"""

import os
import signal
import sys
from itertools import pairwise


def _stop_at_once(number: int, frame: object) -> None:  # noqa: ARG001
    """End with the customary code: nothing has been begun yet."""
    os._exit(128 + number)


def _is_command_line() -> bool:
    """Whether this process is `dpw` or `python -m dpw`, and not a program of somebody else's."""
    if sys.argv[:1] == ["-m"]:  # a package that is about to be run is being imported
        return ("-m", "dpw") in pairwise(sys.orig_argv)
    return sys.argv[:1] == sys.orig_argv[1:2] and os.path.basename(sys.argv[0]) == "dpw"  # noqa: PTH119


if _is_command_line():  # a signal that comes while the rest is imported must not end in a traceback
    for _number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(_number, _stop_at_once)

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from dpw.errors import DamagedFileError, DpwError, InputError, Interrupted, StorageError  # noqa: E402

if TYPE_CHECKING:
    from dpw.learner import Backbone, ContinualCLIP, Prediction, Task, TrainingCallback
    from dpw.runs import load_benchmark
    from dpw.runs.run import run_benchmark

__version__ = "0.1.0"

__all__ = [
    "Backbone",
    "ContinualCLIP",
    "DamagedFileError",
    "DpwError",
    "InputError",
    "Interrupted",
    "Prediction",
    "StorageError",
    "Task",
    "TrainingCallback",
    "__version__",
    "load_benchmark",
    "run_benchmark",
]

if not TYPE_CHECKING:  # for type checkers an unknown name is a mistake
    # torch and transformers are loaded when one of these is first used, so that `import dpw` stays quick.
    _LAZY = {
        "Backbone": "dpw.clip.backbone",
        "ContinualCLIP": "dpw.learner",
        "Prediction": "dpw.learner",
        "Task": "dpw.data.task",
        "TrainingCallback": "dpw.engine.callbacks",
        "load_benchmark": "dpw.benchmarks",
        "run_benchmark": "dpw.runs.run",
    }

    def __getattr__(name: str) -> Any:
        """Import a public name from its module on first use."""
        if name not in _LAZY:
            raise AttributeError(f"module 'dpw' has no attribute {name!r}")
        return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    """The public names, also those that are not loaded yet."""
    return sorted({*globals(), *__all__})
