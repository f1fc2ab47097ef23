"""What a finished accuracy matrix says: Transfer, Avg, Last and their relatives."""

import math
from collections.abc import Sequence
from typing import Any

from dpw.functional import transfer_avg_last

Row = Sequence[float | None]


def summarize(matrix: Sequence[Row], zero_shot: Row, images: Sequence[int] | None = None) -> dict[str, Any]:
    """All metrics of a run, in percent like the matrix; what cannot be computed is None.

    matrix[i][j] is the accuracy on test set j after learning task i; zero_shot[j] that of plain CLIP.
    Methods without zero-shot ability have None above the diagonal, and so no Transfer. `avg` is the mean of
    the matrix, as in MTIL; with `images`, the sizes of the test sets, it is the mean over tasks of the
    accuracy on all images of the classes seen so far, as papers on one dataset in steps report it. The mean
    of the matrix is always `matrix_avg`.
    """
    tasks = range(len(matrix))
    complete = all(value is not None for row in matrix for value in row)
    last = [matrix[-1][j] for j in tasks]
    forgetting = [_forgetting(matrix, j) for j in tasks]
    summary: dict[str, Any] = {
        "transfer": None,
        "avg": None if images is None else _over_seen(matrix, images),
        "matrix_avg": None,
        "last": _mean(last),
        "mean": None,
        "forgetting": _mean(forgetting),
        "zero_shot": _mean(zero_shot),
        "zero_shot_loss": None,
        "seen_avg": _mean([_mean([matrix[i][j] for i in tasks if i >= j]) for j in tasks]),
        "per_task": {"last": last, "forgetting": forgetting, "zero_shot": list(zero_shot)},
    }
    if complete:
        result = transfer_avg_last([[float(value or 0.0) for value in row] for row in matrix])
        transfer = None if math.isnan(result.mean_transfer) else result.mean_transfer
        summary["transfer"], summary["matrix_avg"] = transfer, result.mean_avg
        summary["avg"] = result.mean_avg if summary["avg"] is None else summary["avg"]
        if transfer is not None:
            summary["mean"] = (transfer + summary["avg"] + result.mean_last) / 3
            reference = _mean(list(zero_shot)[1:])
            summary["zero_shot_loss"] = None if reference is None else reference - transfer
        summary["per_task"] |= {"transfer": [None, *result.transfer], "avg": result.avg}
    return summary


def _over_seen(matrix: Sequence[Row], images: Sequence[int]) -> float | None:
    """The mean over tasks of the accuracy on the images of all tasks learned so far."""
    after = []
    for i, row in enumerate(matrix):
        seen = [value for value in row[: i + 1] if value is not None]
        if len(seen) <= i:
            return None
        counts = images[: i + 1]
        after.append(sum(value * count for value, count in zip(seen, counts, strict=True)) / sum(counts))
    return _mean(after)


def _forgetting(matrix: Sequence[Row], j: int) -> float | None:
    """How far accuracy on task j fell from its best since it was learned to the end."""
    since = [row[j] for row in matrix[j:]]
    known = [value for value in since if value is not None]
    return max(known) - known[-1] if known else None


def _mean(values: Row) -> float | None:
    """The mean of what is there."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
