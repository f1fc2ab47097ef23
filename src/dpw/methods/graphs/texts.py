"""Text features of all learned classes as constants of a graph."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.methods.base import Method
from dpw.methods.candidates import Candidates
from dpw.methods.parts.weighted import WeightedAnswers
from dpw.methods.parts.weighted_texts import points_of

ALL = -1  # what is asked: all learned classes, or those of the task with this number


class Questions(nn.Module):
    """Which classes may be answered: all learned ones, or those of one task."""

    owner: Tensor
    asked: Tensor

    def __init__(self, method: Method) -> None:
        """Learn which class belongs to which task."""
        super().__init__()
        counts = [len(task.classes) for task in method.tasks]
        owner = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        own = owner[None] == torch.arange(len(counts))[:, None]
        self.register_buffer("owner", owner)  # (C,) the task of a class
        self.register_buffer("asked", torch.cat([torch.ones_like(own[:1]), own]))  # (1 + T, C)

    def forward(self, among: Tensor, logits: Tensor) -> Tensor:
        """Logits with −∞ for every class that is not asked for."""
        return torch.where(self.asked[among + 1], logits, -math.inf)


def known_classes(method: Method) -> Tensor:
    """By question, task and class: the number the class has within the task, or −1, `(1 + T, T, C)`."""
    groups = [task.group() for task in method.tasks]
    first = [sum(len(group.classes) for group in groups[:index]) for index in range(len(groups))]
    asked = [(0, Candidates.learned(groups))]
    asked += [(start, Candidates.among(group)) for start, group in zip(first, groups, strict=True)]
    known = torch.full((len(asked), len(groups), sum(len(group.classes) for group in groups)), -1)
    for question, (start, candidates) in enumerate(asked):
        for index, task in enumerate(method.tasks):
            for place, number in candidates.known_to(task.name, task.classes).items():
                known[question, index, start + place] = number
    return known


class TextGrid(nn.Module):
    """Class features by every task at a grid of weights: what `WeightedTexts` fills while it answers.

    Below a task's gate texts are filtered, above they are not; only the points that either side can reach
    are kept, one behind the other.
    """

    texts: Tensor
    alike: Tensor
    start: Tensor
    below: Tensor
    above: Tensor

    def __init__(self, method: Method, answers: WeightedAnswers, gates: Tensor, by_every_task: bool) -> None:
        """Encode the classes of each task by its own parameters, or all classes by all parameters."""
        super().__init__()
        self.points, rows, starts = answers.config.grid_points, [], []
        groups, used = [task.group() for task in method.tasks], 0
        places = [points_of(self.points, gate) for gate in gates.tolist()]
        below = [max(cell for cell, filtered in one if filtered) for one in places]  # the last filtered point
        above = [min(cell for cell, filtered in one if not filtered) for one in places]  # the first other
        for index, own in enumerate(groups):
            for group in groups:
                if not by_every_task and group is not own:
                    starts.append(torch.zeros(len(group.classes), dtype=torch.long))  # nobody will ask
                    continue
                found = answers.grid_of_texts(index, group)  # (P, C, E)
                starts.append(used + torch.arange(len(group.classes)) * len(found))
                rows.append(found.transpose(0, 1).flatten(0, 1).cpu())
                used += len(rows[-1])
        texts = torch.cat(rows).float()
        following = torch.cat([texts[1:], texts[-1:]])
        self.register_buffer("texts", texts)
        self.register_buffer("alike", (texts * following).sum(dim=-1))  # with the next point
        self.register_buffer("start", torch.cat(starts).view(len(groups), -1))  # (T, C) rows of texts
        self.register_buffer("below", torch.tensor(below, dtype=torch.float64))
        self.register_buffer("above", torch.tensor(above, dtype=torch.float64))

    def cosines(self, features: Tensor, task: Tensor, weight: Tensor, filtered: Tensor) -> Tensor:
        """Cosine of every image with every class; all of `(B, C)`, as are the task and weight to use."""
        position = weight.clamp(0, 1) * self.points
        lower = position.floor().clamp(max=self.points - 1)
        below, above = self.below[task], self.above[task]
        lower = torch.where(filtered, torch.minimum(lower, below - 1), torch.maximum(lower, above))
        row = lower + torch.where(filtered, torch.zeros_like(above), below + 1 - above)
        row = row.long() + self.start.gather(0, task)
        share = (position - lower).to(features)
        low, high = (
            (F.embedding(row + step, self.texts) @ features.unsqueeze(-1)).squeeze(-1) for step in (0, 1)
        )
        length = ((1 - share) ** 2 + share**2 + 2 * share * (1 - share) * self.alike[row]).sqrt()
        return ((1 - share) * low + share * high) / length
