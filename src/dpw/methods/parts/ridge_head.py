"""A closed-form head of one task: kernel ridge regression of what zero-shot CLIP leaves unexplained.

An image is seen in several views, such as its frozen feature f and mean and spread of its frozen patch tokens
after the middle block; a is its feature adapted by the task. g and h are frozen and adapted unit text
features, s CLIP's logit scale, and z the views side by side, each centred and scaled to mean squared length
one on the training images:

    prior(x)  = Σ_m v_m · softmax(T_m · s · f·gᵀ)          zero-shot CLIP at a mixture of temperatures
    head(x)   = prior(x) + k(z, landmarks) · A             ridge regression of one-hot − prior
    logits(x) = q · head(x) + t · s · a·hᵀ                 q and t found on held-out images

Penalty and temperatures are weighed by the likelihood of training images, each predicted by all others in
closed form, and of validation images. Everything of a task depends on its own images only.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.methods.parts.ridge import (
    KernelRidge,
    gaussian_kernel,
    landmark_rows,
    one_hot,
    scaled_nll,
    soft_choice,
)

GAMMA = 0.0625  # of views whose mean squared length is 1 each
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
TEMPERATURES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)  # times CLIP's own logit scale; 0 is no prior
SCALES = (2.0, 4.0, 6.0, 9.0, 13.0, 20.0, 30.0, 45.0, 70.0)  # from regression values to logits
TEXT_SHARES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
HEAD_SHARES = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0, 20.0, 30.0, 45.0, 70.0)
SOFTNESS = 4.0  # of the choice of penalty and temperature: summed NLL is divided by it
NO_VALIDATION = (8.0, 0.5)  # q, and t as a share of the mean temperature, where nothing is held out
NEGLIGIBLE = 1e-4


@dataclass(frozen=True)
class Seen:
    """What a head sees of n images, float64: views `(n, D_v)` and two sorts of logits `(n, C)`."""

    views: tuple[Tensor, ...]
    zero_shot: Tensor  # s · f·gᵀ
    text: Tensor  # s · a·hᵀ

    def and_then(self, others: "Seen") -> "Seen":
        """These images and then others."""
        views = tuple(torch.cat(pair) for pair in zip(self.views, others.views, strict=True))
        zero_shot, text = torch.cat([self.zero_shot, others.zero_shot]), torch.cat([self.text, others.text])
        return Seen(views, zero_shot, text)


@dataclass(frozen=True)
class Labelled:
    """Images of a task with their labels `(n,)`."""

    images: Seen
    labels: Tensor

    def and_then(self, others: "Labelled") -> "Labelled":
        """These images and then others."""
        return Labelled(self.images.and_then(others.images), torch.cat([self.labels, others.labels]))


@dataclass(frozen=True)
class RidgeHead:
    """What a task keeps; every field is a tensor of its file."""

    centre: Tensor  # (D,) of all views side by side
    length: Tensor  # (D,) root mean square length, the same within a view
    landmarks: Tensor  # (m, D)
    weights: Tensor  # (m, C), A of the formula
    temperatures: Tensor  # (len(TEMPERATURES),), v of the formula
    shares: Tensor  # q and t

    @classmethod
    def stored(cls, tensors: Mapping[str, Tensor]) -> "RidgeHead":
        """A head from its tensors, ready to compute."""
        return cls(**{field.name: tensors[field.name].double() for field in fields(cls)})

    def tensors(self) -> dict[str, Tensor]:
        """What is stored: single precision is enough for what does not have to be inverted any more."""
        return {field.name: getattr(self, field.name).float() for field in fields(self)}

    def points(self, images: Seen) -> Tensor:
        """z of the formula, `(n, D)`."""
        return (torch.cat(images.views, dim=1) - self.centre) / self.length

    def scores(self, images: Seen) -> Tensor:
        """head(x): prior and regression, `(n, C)`."""
        near = gaussian_kernel(self.points(images), self.landmarks, GAMMA)
        return mixed_prior(images.zero_shot, self.temperatures) + near @ self.weights

    def logits(self, images: Seen) -> Tensor:
        """Calibrated logits over the task's own classes, `(n, C)`."""
        q, t = self.shares
        logits: Tensor = q * self.scores(images) + t * images.text
        return logits


def mixed_prior(zero_shot: Tensor, weights: Tensor) -> Tensor:
    """Zero-shot probabilities averaged over temperatures."""
    pairs = zip(TEMPERATURES, weights.tolist(), strict=True)
    return sum((w * (t * zero_shot).softmax(dim=1) for t, w in pairs if w > 0), torch.zeros_like(zero_shot))


def fit_head(train: Labelled, held_out: Labelled | None = None, use_all: bool = False) -> RidgeHead:
    """The head of one task; with `use_all` the held-out images join the regression after the choice."""
    blank = _standardised(train.images)
    regression = _Regression(blank, train)
    chosen = regression.choose(held_out)
    head = regression.solve(chosen)
    head = replace(head, shares=_shares(head, held_out))
    if not use_all or held_out is None:
        return head
    return replace(_Regression(blank, train.and_then(held_out)).solve(chosen), shares=head.shares)


def _standardised(images: Seen) -> RidgeHead:
    """A head that so far only knows the centre and length of its training images' views."""
    centres = [view.mean(dim=0) for view in images.views]
    pairs = zip(images.views, centres, strict=True)
    lengths = [((view - centre) ** 2).sum(dim=1).mean().sqrt() for view, centre in pairs]
    # A single image lies in the centre and has no length.
    expanded = [
        (length if length > 0 else torch.ones_like(length)).expand_as(centre)
        for length, centre in zip(lengths, centres, strict=True)
    ]
    nothing = images.zero_shot.new_zeros(0)
    return RidgeHead(torch.cat(centres), torch.cat(expanded), nothing, nothing, nothing, nothing)


class _Regression:
    """The decomposed kernel of some images, from which penalties are tried and the head is solved."""

    def __init__(self, blank: RidgeHead, train: Labelled) -> None:
        """Decompose once."""
        self.blank, self.train = blank, train
        points = blank.points(train.images)
        self.landmarks = points[landmark_rows(train.labels)]
        self.ridge = KernelRidge(points, self.landmarks, GAMMA)
        self.targets = one_hot(train.labels, train.images.zero_shot.shape[1])

    def choose(self, held_out: Labelled | None) -> Tensor:
        """How much each (penalty, temperature) counts, `(penalties, temperatures)`, summing to one.

        The loss of a pair is its summed NLL over the training images, each predicted by all others in
        closed form, and over the held-out images.
        """
        near = None
        if held_out is not None:
            near = gaussian_kernel(self.blank.points(held_out.images), self.landmarks, GAMMA)
        losses = torch.zeros(len(PENALTIES), len(TEMPERATURES), dtype=torch.float64)
        for column, temperature in enumerate(TEMPERATURES):
            prior = (temperature * self.train.images.zero_shot).softmax(dim=1)
            residual = self.targets - prior
            rotated = self.ridge.rotate(residual)
            for row, penalty in enumerate(PENALTIES):
                weights, others = self.ridge.fit(residual, rotated, penalty)
                losses[row, column] = scaled_nll(prior + others, self.train.labels, SCALES)
                if near is not None and held_out is not None:
                    scores = (temperature * held_out.images.zero_shot).softmax(dim=1) + near @ weights
                    losses[row, column] += scaled_nll(scores, held_out.labels, SCALES)
        chosen = soft_choice(losses.flatten(), SOFTNESS)
        chosen = torch.where(chosen < NEGLIGIBLE, 0.0, chosen)
        return (chosen / chosen.sum()).view_as(losses)

    def solve(self, chosen: Tensor) -> RidgeHead:
        """Regression averaged over the chosen pairs; an average of linear solutions is one set of weights."""
        weights = torch.zeros(len(self.landmarks), self.targets.shape[1], dtype=torch.float64)
        for row, penalty in enumerate(PENALTIES):
            share = float(chosen[row].sum())
            if share > 0:
                # The solution is linear in the targets: all temperatures of a penalty are solved at once.
                residual = self.targets - mixed_prior(self.train.images.zero_shot, chosen[row] / share)
                weights += share * self.ridge.fit(residual, self.ridge.rotate(residual), penalty).weights
        return replace(self.blank, landmarks=self.landmarks, weights=weights, temperatures=chosen.sum(dim=0))


def _shares(head: RidgeHead, held_out: Labelled | None) -> Tensor:
    """q and t: averaged over a grid by how likely they make the held-out labels, or constants."""
    if held_out is None:
        mean = head.temperatures @ head.temperatures.new_tensor(TEMPERATURES)
        return torch.stack([torch.full_like(mean, NO_VALIDATION[0]), NO_VALIDATION[1] * mean])
    grid = torch.tensor(list(itertools.product(HEAD_SHARES, TEXT_SHARES)), dtype=torch.float64)
    scores, text = head.scores(held_out.images), held_out.images.text
    losses = [
        float(F.cross_entropy(q * scores + t * text, held_out.labels, reduction="sum"))
        for q, t in grid.tolist()
    ]
    return _mean_shares(grid, torch.tensor(losses))


def _mean_shares(grid: Tensor, losses: Tensor) -> Tensor:
    """One pair `(2,)` for a grid of them `(n, 2)`: the mean of their square roots, by likelihood, squared.

    Few held-out images leave much of the grid likely. Its large shares would then decide a plain mean, and
    a text share far too large lets poor class names overrule what the images have taught.
    """
    return (soft_choice(losses, 1.0) @ grid.sqrt()) ** 2
