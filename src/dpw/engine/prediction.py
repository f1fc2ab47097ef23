"""Answers about single images: class, task and how sure a method is of both."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from dpw.data.images import Images
from dpw.data.split import open_image
from dpw.errors import InputError
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates

ImageLike = str | Path | Image.Image
BATCH = 64


@dataclass(frozen=True)
class Prediction:
    """What the model says about one image.

    Attributes:
        image: the file, or `image N` for pictures that were given as objects.
        label: the most likely class, None if the image could not be read.
        probability: how likely it is among the classes that were asked for.
        task: the learned task it belongs to, None if nothing learned was asked for.
        confidence: how sure the model is of that task, in (0, 1); None for methods that do not decide.
        error: why the image could not be read.
        alternatives: the next classes with their probabilities.

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

    def as_json(self) -> dict[str, Any]:
        """Plain values that JSON knows; the label is called `class`, as users call it.

        Example:
            >>> from dpw import Prediction
            >>> Prediction("a.jpg", error="a.jpg is no image").as_json()["error"]
            'a.jpg is no image'
        """
        values = asdict(self)
        return {"image": values.pop("image"), "class": values.pop("label"), **values}


def predict_images(
    method: Method, images: Sequence[ImageLike], candidates: Candidates, top: int
) -> list[Prediction]:
    """A prediction for every image, in order; one that cannot be read says why and stops no other."""
    answers: list[Prediction] = []
    for start in range(0, len(images), BATCH):
        chosen = images[start : start + BATCH]
        names = [_name(image, start + row) for row, image in enumerate(chosen)]
        answers += _predict_readable(method, chosen, names, candidates, top)
    return answers


def _predict_readable(
    method: Method, images: Sequence[ImageLike], names: list[str], candidates: Candidates, top: int
) -> list[Prediction]:
    """Answer for the images that can be read, in the given order; the others say why not."""
    pixels: dict[str, Tensor] = {}
    failed: dict[str, Prediction] = {}
    for image, name in zip(images, names, strict=True):
        try:
            opened = image if isinstance(image, Image.Image) else open_image(Path(image))
            pixels[name] = torch.from_numpy(method.backbone.preprocessing.pixels(opened))
        except InputError as error:
            failed[name] = Prediction(name, error=str(error))
    answered: dict[str, Prediction] = {}
    if pixels:
        batch = torch.stack(list(pixels.values())).to(method.backbone.device)
        found = _predict_batch(method, batch, list(pixels), candidates, top)
        answered = dict(zip(pixels, found, strict=True))
    return [failed[name] if name in failed else answered[name] for name in names]


def _predict_batch(
    method: Method, pixels: Tensor, names: list[str], candidates: Candidates, top: int
) -> list[Prediction]:
    """Predictions for a batch of pixels."""
    method.eval()
    images, tasks = Images.of(pixels), method.task_names
    with torch.inference_mode():
        probabilities = method.logits(images, candidates).float().softmax(dim=1).cpu()
        route = method.route(images)
    best = probabilities.topk(min(top, probabilities.shape[1]), dim=1)
    answers = []
    for row, name in enumerate(names):
        ranked = [candidates.classes[index] for index in best.indices[row].tolist()]
        values = best.values[row].tolist()
        task = ranked[0][0] if candidates.by_task else None
        if route is not None and task is None:
            task = tasks[int(route.task[row])]
        sure = None
        if route is not None and task is not None:
            sure = float(route.confidence[row, tasks.index(task)])
        others = tuple((label, value) for (_, label), value in zip(ranked[1:], values[1:], strict=True))
        answers.append(Prediction(name, ranked[0][1], values[0], task, sure, None, others))
    return answers


def _name(image: ImageLike, row: int) -> str:
    """How an image is called in the answer."""
    return f"image {row}" if isinstance(image, Image.Image) else str(image)
