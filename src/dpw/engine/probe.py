"""A linear probe on frozen features: logistic regression, which learning a folder is measured against."""

import torch
from torch import Tensor

from dpw.methods.parts.logistic import fit_logistic

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)  # on the squared weights, in units of the mean loss
FOLDS = 3
ROUNDS = 60


def probe_predictions(features: Tensor, labels: Tensor, asked: Tensor, classes: int) -> Tensor:
    """Classes `(B,)` of asked features `(B, E)`, learned from normalised features `(n, E)` and labels.

    The penalty is chosen by cross-validation within the given images; the folds are fixed.
    """
    features, asked, labels = features.double().cpu(), asked.double().cpu(), labels.cpu()
    best = max(PENALTIES, key=lambda penalty: _cross_validated(features, labels, classes, penalty))
    return _asked((features, labels), asked, classes, best)


def _cross_validated(features: Tensor, labels: Tensor, classes: int, penalty: float) -> float:
    """Share of images that are found when their fold is left out; one image a class has no folds."""
    folds, seen = torch.empty_like(labels), torch.zeros(classes, dtype=torch.long)
    for row, label in enumerate(labels.tolist()):
        folds[row] = seen[label] % FOLDS
        seen[label] += 1
    right = 0
    for fold in range(FOLDS):
        inside = folds != fold
        if bool(inside.all()) or not bool(inside.any()):
            continue
        found = _asked((features[inside], labels[inside]), features[~inside], classes, penalty)
        right += int((found == labels[~inside]).sum())
    return right / len(labels)


def _asked(trained: tuple[Tensor, Tensor], asked: Tensor, classes: int, penalty: float) -> Tensor:
    """Classes `(B,)` of asked features by a regression on the trained ones."""
    features, labels = trained
    # The penalty per image is 1 / (2 · strength · n) of the summed objective.
    weight, bias = fit_logistic(features, labels, classes, 1 / (2 * penalty * len(features)), ROUNDS)
    return (asked @ weight.T + bias).argmax(dim=1)
