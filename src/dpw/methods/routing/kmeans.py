"""A few centres of frozen features per task; the nearest in L1 decides (S-Prompts)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dpw.methods.bank import HostTensors
from dpw.methods.routing.route import Route, route_by_score


class KMeansRouter:
    """The task of the nearest centre; nothing is ever rejected."""

    def __init__(self, tasks: Callable[[], Sequence[HostTensors]]) -> None:
        """`tasks()` are the tasks' statistics, each with centres `(k, E)`."""
        self.tasks = tasks

    def route(self, features: Tensor, vote: bool = False) -> Route:
        """Choose the task of the nearest centre for every image."""
        features = features.detach().cpu()
        nearest = [torch.cdist(features, task["centres"], p=1).amin(dim=1) for task in self.tasks()]
        return route_by_score(-torch.stack(nearest, dim=1), vote=vote)


def kmeans(points: Tensor, clusters: int, generator: torch.Generator, rounds: int = 100) -> Tensor:
    """Centres `(at most clusters, E)` of the points by Lloyd's algorithm from a k-means++ start."""
    points = points.detach().cpu()
    first = int(torch.randint(len(points), (1,), generator=generator))
    centres = points[first : first + 1]
    while len(centres) < min(clusters, len(points)):
        nearest = (torch.cdist(points, centres) ** 2).amin(dim=1)
        if not bool((nearest > 0).any()):
            break
        pick = int(torch.multinomial(nearest, 1, generator=generator))
        centres = torch.cat([centres, points[pick : pick + 1]])
    for _ in range(rounds):
        members = torch.cdist(points, centres).argmin(dim=1)
        sums = torch.zeros_like(centres).index_add(0, members, points)
        count = torch.bincount(members, minlength=len(centres))[:, None]
        moved = torch.where(count > 0, sums / count.clamp(min=1), centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres
