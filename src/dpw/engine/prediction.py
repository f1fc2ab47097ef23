"""Answers about single images: class, task and how sure a method is of both."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpw.data.image_like import image_batches
from dpw.data.images import Images
from dpw.data.pixels import PixelCache, read_images
from dpw.engine.invariance import BatchInvariance
from dpw.engine.resident import ask_resident
from dpw.errors import InputError
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates
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


class Said(NamedTuple):
    """What a method says about B images, in main memory."""

    logits: Tensor  # (B, C)
    task: Tensor | None  # (B,) index of the task an image is taken for
    confidence: Tensor | None  # (B, T)
    typicality: Tensor | None  # (B, T)

    @classmethod
    def read(cls, logits: Tensor, *others: Tensor | None) -> "Said":
        """All of it from where the model is."""
        return cls(logits.float().cpu(), *(None if one is None else one.cpu() for one in others))


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
    tasks = method.task_names
    with torch.inference_mode(), BatchInvariance():
        logits, taken_for, confidence, typical = _ask(method, pixels, candidates)
    if typical is None and unknown is not None:
        raise InputError(
            f"this model of method {method.name!r} cannot tell unknown images: teach a new one by "
            "'dpw learn', or leave unknown out"
        )
    seen = confidence if typical is None else typical
    best = None if seen is None else seen.amax(dim=1)
    # Logits may differ by less than probabilities can show, so they decide the order.
    order = logits.topk(min(top, logits.shape[1]), dim=1).indices
    probabilities = method.probabilities(logits).gather(1, order)
    answers = []
    for row, name in enumerate(names):
        ranked = [candidates.classes[index] for index in order[row].tolist()]
        values = probabilities[row].tolist()
        known = None if best is None else float(best[row])
        others = tuple((label, value) for (_, label), value in zip(ranked, values, strict=True))
        if unknown is not None and known is not None and known <= unknown:
            answers.append(Prediction(name, UNKNOWN, None, None, None, None, others, known))
            continue
        task = ranked[0][0] if candidates.by_task else None
        if taken_for is not None and task is None:
            task = tasks[int(taken_for[row])]
        sure = None
        if confidence is not None and task is not None:
            sure = float(confidence[row, tasks.index(task)])
        answers.append(Prediction(name, ranked[0][1], values[0], task, sure, None, others[1:], known))
    return answers


def _ask(method: Method, pixels: Tensor, candidates: Candidates) -> Said:
    """What the method says about a batch; an accelerator's answer is read when all of it is there."""
    found = ask_resident(method, pixels, candidates)
    if found is None:
        images = Images.of(pixels)
        logits, route = method.logits(images, candidates), method.route(images)
        task, confidence = (None, None) if route is None else (route.task, route.confidence)
        return Said.read(logits, task, confidence, method.typicality(images))
    others = (found.get(name) for name in ("task", "confidence", "typicality"))
    return Said.read(found["logits"], *others)
