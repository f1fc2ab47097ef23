"""Routers that say yes or no to a task: k-means centres, class prototypes, and autoencoders.

Unlike the Gaussian, these do not weigh parameters: a `Route` has weight one where
the chosen task's parameters are used and weight zero where plain CLIP answers.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.methods.routing.gaussian import Route

MOST_PASSES = 100


def route_by_score(scores: Tensor, least: Tensor | None = None, vote: bool = False) -> Route:
    """Choose the task with the highest score `(B, T)`, and accept it where the score reaches `least`.

    `least` is `(T,)` or `(B, T)`. With `vote` the mean score of the batch decides for all its images.
    """
    scores = scores.detach().cpu()
    if vote:
        scores = scores.mean(dim=0, keepdim=True).expand_as(scores)
        least = least if least is None or least.dim() == 1 else least.mean(dim=0, keepdim=True)
    task = scores.argmax(dim=1)
    accepted = torch.ones_like(scores) if least is None else (scores >= least.cpu()).to(scores)
    weight = accepted.gather(1, task[:, None])[:, 0]
    return Route(task, weight, weight, weight, scores)


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


class KMeansRouter:
    """A few centres of frozen features per task; the nearest in L1 decides (S-Prompts)."""

    def __init__(self) -> None:
        """Start without tasks."""
        self.centres: list[Tensor] = []

    def add(self, centres: Tensor) -> None:
        """Add a task by its centres `(k, E)`."""
        self.centres.append(centres.detach().cpu())

    def remove(self, index: int) -> None:
        """Forget one task."""
        del self.centres[index]

    def route(self, features: Tensor, vote: bool = False) -> Route:
        """The task of the nearest centre; nothing is ever rejected."""
        features = features.detach().cpu()
        nearest = [torch.cdist(features, centres, p=1).amin(dim=1) for centres in self.centres]
        return route_by_score(-torch.stack(nearest, dim=1), vote=vote)


class PrototypeRouter:
    """The mean feature of every class per task; the most similar class decides (DPeCLIP)."""

    def __init__(self) -> None:
        """Start without tasks."""
        self.prototypes: list[Tensor] = []
        self.least: list[Tensor] = []

    def fit(self, features: Tensor, labels: Tensor, classes: int, quantile: float) -> None:
        """Add a task from its normalised frozen features; `quantile` of its own images is rejected."""
        features, labels = features.detach().cpu(), labels.cpu()
        sums = features.new_zeros(classes, features.shape[1]).index_add(0, labels, features)
        similarity = left_out_similarity(features, labels, sums)
        # Without a second image of any class there is nothing to calibrate on, and nothing is rejected.
        least = similarity.quantile(quantile) if len(similarity) else features.new_tensor(-1.0)
        self.add(F.normalize(sums, dim=-1), least)

    def add(self, prototypes: Tensor, least: Tensor) -> None:
        """Add a task whose prototypes `(C, E)` and least similarity are already known."""
        self.prototypes.append(prototypes.detach().cpu())
        self.least.append(least.detach().cpu())

    def remove(self, index: int) -> None:
        """Forget one task."""
        del self.prototypes[index], self.least[index]

    def route(self, features: Tensor, vote: bool = False, among: list[int] | None = None) -> Route:
        """The most similar task (of those in `among`), accepted if similar enough."""
        features = features.detach().cpu()
        similar = torch.stack([(features @ rows.T).amax(dim=1) for rows in self.prototypes], dim=1)
        if among is not None:
            others = [index for index in range(len(self.prototypes)) if index not in among]
            # Below the range of a cosine, so that these are chosen only if there is nothing else.
            similar[:, others] = -2.0
        return route_by_score(similar, torch.stack(self.least), vote)


def left_out_similarity(features: Tensor, labels: Tensor, sums: Tensor) -> Tensor:
    """How similar each image is to its own task, its class prototype being formed without it.

    Images that are alone in their class are left out.
    """
    count = torch.bincount(labels, minlength=len(sums))[labels]
    without = F.normalize(sums[labels] - features, dim=-1)
    similarity = features @ F.normalize(sums, dim=-1).T
    own = (features * without).sum(dim=-1)
    similarity[torch.arange(len(labels)), labels] = own
    return similarity.amax(dim=1)[count > 1]


class Autoencoder(nn.Module):
    """One hidden layer that learns to repeat what one domain looks like, values in (0, 1)."""

    def __init__(self, width: int, hidden: int, generator: torch.Generator | None = None) -> None:
        """Weights and biases as a linear layer starts, drawn from the generator."""
        super().__init__()
        self.encode_weight = nn.Parameter(_uniform((hidden, width), width, generator))
        self.encode_bias = nn.Parameter(_uniform((hidden,), width, generator))
        self.decode_weight = nn.Parameter(_uniform((width, hidden), hidden, generator))
        self.decode_bias = nn.Parameter(_uniform((width,), hidden, generator))

    def forward(self, z: Tensor) -> Tensor:
        """The repeated features."""
        code = torch.relu(F.linear(z, self.encode_weight, self.encode_bias))
        return torch.sigmoid(F.linear(code, self.decode_weight, self.decode_bias))

    def error(self, z: Tensor) -> Tensor:
        """Mean squared error of every row `(B,)`."""
        repeated: Tensor = self(z)
        return (repeated - z).square().mean(dim=-1)


def fit_autoencoder(
    model: Autoencoder,
    features: Tensor,
    generator: torch.Generator,
    *,
    iterations: int,
    rate: float,
    weight_decay: float = 1e-4,
    batch_size: int = 64,
    decay_epochs: int = 10,
) -> None:
    """Train on features `(n, W)` by Adam, then freeze.

    The rate falls tenfold every `decay_epochs` passes; for few images, where that would end training after
    a handful of steps, every third of the iterations. No image is seen more than `MOST_PASSES` times.
    """
    per_pass = -(-len(features) // batch_size)
    steps = min(iterations, MOST_PASSES * per_pass)
    decay_steps = max(decay_epochs * per_pass, -(-steps // 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=weight_decay)
    with torch.enable_grad():
        for step in range(steps):
            if step % per_pass == 0:
                order = torch.split(torch.randperm(len(features), generator=generator), batch_size)
            optimizer.param_groups[0]["lr"] = rate * 0.1 ** (step // decay_steps)
            optimizer.zero_grad()
            torch.autograd.backward(model.error(features[order[step % per_pass]]).mean())
            optimizer.step()
    model.requires_grad_(requires_grad=False)


def _uniform(size: tuple[int, ...], inputs: int, generator: torch.Generator | None) -> Tensor:
    """Uniform in ±1/√inputs, the usual start of a linear layer."""
    return (2 * torch.rand(size, generator=generator) - 1) / math.sqrt(inputs)
