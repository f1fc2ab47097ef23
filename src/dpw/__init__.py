"""Continual learning of CLIP by Dynamic Prefix Weighting.

    from dpw import ContinualCLIP, Task

    learner = ContinualCLIP.from_pretrained("mini")
    learner.learn(Task.from_folder("birds"))
    answer = learner.predict("photo.jpg")  # class, task, and how sure it is of both

`run_benchmark` runs a method through a named benchmark; `dpw.errors` says what can go wrong.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpw.errors import DamagedFileError, DpwError, InputError, Interrupted, StorageError

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
