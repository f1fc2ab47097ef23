"""Why an image got its answer: the task it was taken for, and what every token took."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpw.analysis.tracing import BlockRecord, trace
from dpw.data.images import Images
from dpw.data.pixels import read_images
from dpw.errors import InputError
from dpw.learner import ContinualCLIP, Prediction
from dpw.methods.dpw.method import DPW
from dpw.methods.parts.weighted import WeightedAnswers
from dpw.methods.routing.gaussian import GaussianRouter


@dataclass(frozen=True)
class TaskLikelihood:
    """How likely an image is under one task; confidence is that likelihood as a weight in (0, 1)."""

    task: str
    log_likelihood: float | None
    confidence: float


@dataclass(frozen=True)
class TokenWeights:
    """What tokens took from prefixes and adapter in each of K blocks, mean over heads."""

    task: str
    weight: float  # of the whole image, from the likelihood of its task
    filtered: bool  # whether prefixes below the cut-off were dropped
    prefix: Tensor  # (K, side, side) patches
    adapter: Tensor  # (K, side, side)
    cls_prefix: Tensor  # (K,) the [CLS] token, or the mean patch where there is none
    cls_adapter: Tensor  # (K,)


@dataclass(frozen=True)
class Explanation:
    """An answer with its reasons; `tokens` is None for methods without token weights."""

    prediction: Prediction
    tasks: list[TaskLikelihood]
    pixels: Tensor  # (3, H, W) uint8, the image as CLIP saw it
    tokens: TokenWeights | None

    def as_json(self) -> dict[str, Any]:
        """Plain values; maps as nested lists, rows from top to bottom."""
        tokens = None
        if self.tokens is not None:
            tokens = {k: v.tolist() if isinstance(v, Tensor) else v for k, v in vars(self.tokens).items()}
        likelihoods = [asdict(task) for task in self.tasks]
        return {**self.prediction.as_json(), "tasks": likelihoods, "tokens": tokens}


def explain(
    learner: ContinualCLIP, image: str | Path, *, classes: Sequence[str] | None = None, top: int = 3
) -> Explanation:
    """Predict one image and show what led there.

    Args:
        learner: a model that has learned tasks.
        image: an image file.
        classes: choose between these, learned or not; all learned classes by default.
        top: how many classes the prediction names.

    Returns:
        The prediction, how likely the image is under each learned task, and, for `dpw`, what every token took
        of prefixes and adapter in every block. `draw_explanation` draws it.

    Raises:
        InputError: the image cannot be read, or nothing is learned and no classes are given.

    Example:
        >>> import dpw, tempfile
        >>> from dpw.analysis import explain
        >>> learner = dpw.ContinualCLIP.from_pretrained("mini", settings={"training.iterations": 1})
        >>> signs = dpw.load_benchmark("mini", order=["signs"], shots=1).tasks[0]
        >>> learner.learn(signs)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     signs.train[0].image.save(f"{folder}/sign.png")
        ...     found = explain(learner, f"{folder}/sign.png")
        >>> found.tasks[0].task, found.tokens.task
        ('signs', 'signs')
    """
    prediction = learner.predict(str(image), classes=classes, top=top)
    if prediction.error is not None:
        raise InputError(prediction.error)
    method = learner.method
    array, _ = read_images(learner.cache, [image])
    pixels = torch.from_numpy(array).to(method.backbone.device)
    shown = isinstance(method, DPW) and bool(method.tasks) and not method.config.varied
    tokens = token_weights(method, pixels) if isinstance(method, DPW) and shown else None
    return Explanation(prediction, likelihoods(learner, pixels), pixels[0].cpu(), tokens)


def likelihoods(learner: ContinualCLIP, pixels: Tensor) -> list[TaskLikelihood]:
    """How likely one image is under every learned task, the likeliest first; empty if nobody asks."""
    method = learner.method
    with torch.inference_mode():
        route = method.route(Images.of(pixels))
        if route is None:
            return []
        logs: list[float | None] = [None] * len(method.tasks)
        if isinstance(method.answers, WeightedAnswers) and isinstance(method.answers.router, GaussianRouter):
            features = method.answers.router_features(Images.of(pixels))
            logs = list(method.answers.router.log_likelihood(features)[0].tolist())
    confidence = route.confidence[0].tolist()
    found = [TaskLikelihood(*one) for one in zip(method.task_names, logs, confidence, strict=True)]
    return sorted(found, key=lambda one: (one.log_likelihood or 0.0, one.confidence), reverse=True)


def token_weights(method: DPW, pixels: Tensor) -> TokenWeights:
    """Follow one image `(1, 3, H, W)` through the image tower as a prediction would."""
    shape = method.backbone.image_shape
    prefix, adapter = torch.zeros(shape.blocks, shape.tokens), torch.zeros(shape.blocks, shape.tokens)

    def visit(record: BlockRecord) -> None:
        """Keep the mean over heads."""
        prefix[record.block] = record.prefix_weight[0].mean(dim=0).cpu()
        adapter[record.block] = record.adapter_weight[0].mean(dim=0).cpu()

    trace(method, pixels, visit)
    with torch.inference_mode():
        route = method.route(Images.of(pixels))
    assert route is not None
    backbone = method.backbone
    side, has_cls = math.isqrt(backbone.patch_count), backbone.family.images.class_tokens > 0
    maps = [backbone.patches(values).reshape(shape.blocks, side, side) for values in (prefix, adapter)]
    whole = [values[:, 0] if has_cls else values.mean(dim=1) for values in (prefix, adapter)]
    return TokenWeights(
        task=method.task_names[int(route.task[0])],
        weight=float(route.weight[0]),
        filtered=bool(method.answers.filtered(route)[0]),
        prefix=maps[0],
        adapter=maps[1],
        cls_prefix=whole[0],
        cls_adapter=whole[1],
    )
