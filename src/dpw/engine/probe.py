"""A linear probe on frozen features: logistic regression, which learning a folder is measured against."""

import torch
from torch import Tensor
from torch.nn import functional as F

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)  # on the squared weights, in units of the mean loss
FOLDS = 3
ROUNDS = 60


def probe_predictions(features: Tensor, labels: Tensor, asked: Tensor, classes: int) -> Tensor:
    """Classes `(B,)` of asked features `(B, E)`, learned from normalised features `(n, E)` and labels.

    The penalty is chosen by cross-validation within the given images; the folds are fixed.
    """
    features, asked, labels = features.double().cpu(), asked.double().cpu(), labels.cpu()
    best = max(PENALTIES, key=lambda penalty: _cross_validated(features, labels, classes, penalty))
    logits: Tensor = _fit(features, labels, classes, best)(asked)
    return logits.argmax(dim=1)


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
        model = _fit(features[inside], labels[inside], classes, penalty)
        right += int((model(features[~inside]).argmax(dim=1) == labels[~inside]).sum())
    return right / len(labels)


def _fit(features: Tensor, labels: Tensor, classes: int, penalty: float) -> torch.nn.Linear:
    """Multinomial logistic regression by L-BFGS from zero, deterministic."""
    model = torch.nn.Linear(features.shape[1], classes, dtype=features.dtype)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        """Mean cross entropy and the penalty, with gradients."""
        optimizer.zero_grad()
        value = F.cross_entropy(model(features), labels) + penalty * model.weight.square().sum()
        torch.autograd.backward(value)
        return value

    with torch.enable_grad():
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return model.requires_grad_(requires_grad=False)
