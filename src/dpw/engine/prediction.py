"""Answers about single images: class, task and how sure a method is of both."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpw.data.image_like import image_batches
from dpw.data.images import Images
from dpw.data.pixels import PixelCache, read_images
from dpw.engine.invariance import BatchInvariance
from dpw.errors import InputError
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates
from dpw.methods.routing.route import Route
from dpw.methods.trial import refusing_unfit

BATCH = 64
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Prediction:
    """What the model says about one image.

    Attributes:
        image: the file, or `image N` for images that were given as objects.
        label: the most likely class, None if the image could not be read.
        probability: how likely it is among the classes that were asked for.
        task: the learned task it belongs to, None if nothing learned was asked for.
        confidence: how sure the model is of that task, in (0, 1); None for methods that do not decide.
        error: why the image could not be read.
        alternatives: the next classes with their probabilities.
        typicality: how typical the image is of the learned task that fits it best, the less the stranger;
            None for methods that do not ask.

    Example:
        >>> from dpw import Prediction
        >>> Prediction("a.jpg", "crow", 0.9, "birds", 0.8).as_json()["class"]
        'crow'
    """

    image: str
    label: str | None = None
    probability: float | None = None
    task: str | None = None
    confidence: float | None = None
    error: str | None = None
    alternatives: tuple[tuple[str, float], ...] = ()
    typicality: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values that JSON knows; the label is called `class`, as users call it.

        Example:
            >>> from dpw import Prediction
            >>> Prediction("a.jpg", error="a.jpg is no image").as_json()["error"]
            'a.jpg is no image'
        """
        values = dict(vars(self))
        return {"image": values.pop("image"), "class": values.pop("label"), **values}


def predict_images(
    method: Method,
    cache: PixelCache,
    images: Iterable[Any],
    candidates: Candidates,
    top: int,
    unknown: float | None = None,
) -> Iterator[Prediction]:
    """A prediction for every image, in order and while they come; one that cannot be read says why.

    With `unknown`, an image that is as untypical of every task as that share of its own images is unknown.
    """
    for names, chosen in image_batches(images, BATCH):
        method.eval()
        pixels, errors = read_images(cache, chosen, names)
        readable = [row for row in range(len(chosen)) if row not in errors]
        found: list[Prediction] = []
        if readable:
            batch = torch.from_numpy(pixels[readable]).to(method.backbone.device)
            chosen_names = [names[row] for row in readable]
            found = predict_pixels(method, batch, chosen_names, candidates, top, unknown)
        by_row = dict(zip(readable, found, strict=True))
        failed = {row: Prediction(names[row], error=str(error)) for row, error in errors.items()}
        yield from (failed[row] if row in failed else by_row[row] for row in range(len(chosen)))


def predict_pixels(
    method: Method, pixels: Tensor, names: list[str], candidates: Candidates, top: int, unknown: float | None
) -> list[Prediction]:
    """Predictions for a batch of pixels, by a method in evaluation mode."""
    with refusing_unfit(method):
        return _answers(method, pixels, names, candidates, top, unknown)


def _answers(
    method: Method, pixels: Tensor, names: list[str], candidates: Candidates, top: int, unknown: float | None
) -> list[Prediction]:
    """What the method says, in words."""
    images, tasks = Images.of(pixels), method.task_names
    with torch.inference_mode(), BatchInvariance():
        logits = method.logits(images, candidates).float().cpu()
        route = method.route(images)
        typical = _typicality(method, images, route, unknown)
    # Logits may differ by less than probabilities can show, so they decide the order.
    order = logits.topk(min(top, logits.shape[1]), dim=1).indices
    probabilities = method.probabilities(logits).gather(1, order)
    answers = []
    for row, name in enumerate(names):
        ranked = [candidates.classes[index] for index in order[row].tolist()]
        values = probabilities[row].tolist()
        known = None if typical is None else float(typical[row])
        others = tuple((label, value) for (_, label), value in zip(ranked, values, strict=True))
        if unknown is not None and known is not None and known <= unknown:
            answers.append(Prediction(name, UNKNOWN, None, None, None, None, others, known))
            continue
        task = ranked[0][0] if candidates.by_task else None
        if route is not None and task is None:
            task = tasks[int(route.task[row])]
        sure = None
        if route is not None and task is not None:
            sure = float(route.confidence[row, tasks.index(task)])
        answers.append(Prediction(name, ranked[0][1], values[0], task, sure, None, others[1:], known))
    return answers


def _typicality(method: Method, images: Images, route: Route | None, unknown: float | None) -> Tensor | None:
    """How typical each image is of the task that fits it best `(B,)`; confidence where nobody can tell."""
    found = method.typicality(images)
    if found is not None:
        return found.amax(dim=1)
    if unknown is not None:
        raise InputError(
            f"this model of method {method.name!r} cannot tell unknown images: teach a new one by "
            "'dpw learn', or leave unknown out"
        )
    return None if route is None else route.confidence.amax(dim=1)
