"""What came out of a comparison and how sure it is, in words."""

import math
from collections.abc import Sequence

from dpw.runs.gathering import Group, Section, Spread


def finding(section: Section) -> str:
    """One or two sentences: who is best, by how much, over which seeds, and whether that is more than luck.

    Methods are ranked by the mean of Transfer, Avg and Last; where some lack zero-shot ability, by Last.
    """
    metric = "mean" if all(group.metric("mean") is not None for group in section.groups) else "last"
    called = {"mean": "the mean of Transfer, Avg and Last", "last": "Last"}[metric]
    ranked = [(group, value) for group in section.groups if (value := group.metric(metric)) is not None]
    ranked.sort(key=lambda one: -one[1].mean)
    if not ranked:
        return ""
    best, first = ranked[0]
    if len(ranked) == 1:
        return f"{best.label} reaches {first} % in {called} ({_seeds([best])}). {_one_seed([best])}".strip()
    second, next_best = ranked[1]
    return (
        f"{best.label} is best of {len(ranked)} with {first} % in {called}, "
        f"{first.mean - next_best.mean:.1f} points above {second.label} ({_seeds([best, second])}). "
        f"{_sure(best, second, first, next_best)}"
    )


def _seeds(groups: Sequence[Group]) -> str:
    """The seeds behind a statement."""
    different = list(dict.fromkeys(group.seeds for group in groups))
    shown = [", ".join(map(str, seeds)) for seeds in different]
    return ("seed " if all(len(seeds) == 1 for seeds in different) else "seeds ") + " against ".join(shown)


def _sure(best: Group, second: Group, first: Spread, next_best: Spread) -> str:
    """Whether a difference is larger than what seeds alone do."""
    if best.seeds != second.seeds:
        return "The two were not run with the same seeds, so the difference may be that of the seeds."
    if first.deviation is None or next_best.deviation is None:
        return _one_seed([best])
    spread = math.hypot(first.deviation, next_best.deviation)
    difference = first.mean - next_best.mean
    if difference > 2 * spread:
        return f"That is more than twice the spread over seeds (± {spread:.1f})."
    if difference > spread:
        return f"That is more than the spread over seeds (± {spread:.1f}), but less than twice as much."
    return f"That is within the spread over seeds (± {spread:.1f}): which of the two is better is open."


def _one_seed(groups: Sequence[Group]) -> str:
    """A warning where nothing is known about luck."""
    if all(len(group.seeds) > 1 for group in groups):
        return ""
    return "With one seed nobody knows how much of it is luck: run more with --seeds."
