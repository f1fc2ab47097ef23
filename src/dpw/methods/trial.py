"""Whether a learned model can answer at all: what of its files only shows in use, put into one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dpw.data.images import Images
from dpw.errors import DamagedFileError, DpwError
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates


@contextmanager
def refusing_unfit(method: Method) -> Iterator[None]:
    """Refuse a model from files whose tensors turn out not to fit together when it is asked.

    Names and shapes of statistics and heads are each method's own and differ with the data, so those of a
    stranger's file show only in use. A model that was taught in this process has no file to blame.
    """
    try:
        yield
    except (DpwError, torch.OutOfMemoryError):
        raise
    except (LookupError, TypeError, AttributeError, RuntimeError, ValueError, ArithmeticError) as error:
        if method.read_from is None:
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise DamagedFileError(
            f"{method.read_from} cannot answer, its tensors do not fit together ({reason}): restore it from "
            "a copy or learn it again"
        ) from error


def try_answering(method: Method) -> None:
    """Ask a model about a black image among all it has learned; one that cannot answer is refused."""
    height, width = method.backbone.preprocessing.output or (1, 1)
    black = torch.zeros(1, 3, height, width, dtype=torch.uint8, device=method.backbone.device)
    candidates = Candidates.learned([task.group() for task in method.tasks])
    with torch.inference_mode(), refusing_unfit(method):
        method.eval().logits(Images.of(black), candidates)
