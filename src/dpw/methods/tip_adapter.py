"""Tip-Adapter: a cache of training features beside zero-shot CLIP, training-free or with tuned keys."""

import itertools
from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.task import Task
from dpw.methods.bank import HostTensors
from dpw.methods.base import Method, TaskImages
from dpw.methods.config import MethodConfig, TrainingConfig
from dpw.methods.parts.heads import HEAD, ROUTER, HeadAnswers, stored_parts, task_gaussian
from dpw.methods.parts.ridge import one_hot
from dpw.methods.registry import register
from dpw.methods.tensors import strip_prefix

SHARES = (0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)  # α that are tried on validation images
SHARPNESSES = (1.0, 2.0, 3.5, 5.5, 8.0, 12.0, 20.0)  # β that are tried


class TipAdapterConfig(MethodConfig):
    """α and β where nothing is held out (and while keys are tuned), and whether keys are tuned."""

    training: TrainingConfig = TrainingConfig(
        optimizer="adamw",
        learning_rate=1e-3,
        weight_decay=0.01,
        batch_size=256,
        epochs=20,
        final_factor=0.0,
        drop_last=False,
    )
    """How the keys are trained, if they are."""
    tuned: bool = False
    """Also train the keys (Tip-Adapter-F)."""
    share: float = Field(1.0, ge=0)
    """Weight α of the cache where nothing is held out to choose it."""
    sharpness: float = Field(5.5, gt=0)
    """Sharpness β of the cache where nothing is held out to choose it."""


class Cache(nn.Module):
    """The training images of one task: keys `(n, E)`, labels, the class texts, and α and β."""

    def __init__(self, keys: Tensor, kept: Mapping[str, Tensor], tuned: bool) -> None:
        """`kept` has labels `(n,)`, texts `(C, E)` and `shares`, α and β."""
        super().__init__()
        self.keys = nn.Parameter(keys.clone(), requires_grad=tuned)
        self.kept = HostTensors(kept)

    def logits(self, features: Tensor, scale: Tensor) -> Tensor:
        """Zero-shot logits and what the cache adds to them, `(B, C)`, in the precision of the features."""
        share, sharpness = self.kept["shares"].tolist()
        texts, values = self.kept["texts"].to(features), self.values().to(features)
        return scale * features @ texts.T + cache_logits(
            features, self.keys.to(features), values, share, sharpness
        )

    def values(self) -> Tensor:
        """Labels as one-hot rows."""
        return one_hot(self.kept["labels"], len(self.kept["texts"]))


def cache_logits(features: Tensor, keys: Tensor, values: Tensor, share: float, sharpness: float) -> Tensor:
    """α · exp(−β(1 − f·Kᵀ)) · V, to be added to CLIP's logits."""
    return share * torch.exp(-sharpness * (1 - features @ keys.T)) @ values


def chosen_shares(cache: Cache, features: Tensor, labels: Tensor, scale: Tensor) -> Tensor:
    """α and β with most held-out images right; of equals the smaller α."""
    keys, values = cache.keys.detach().cpu().double(), cache.values()
    features = features.double()
    zero_shot = scale.cpu().double() * features @ cache.kept["texts"].double().T

    def right(pair: tuple[float, float]) -> tuple[int, float]:
        """How many are right with a pair."""
        logits = zero_shot + cache_logits(features, keys, values, *pair)
        return int((logits.argmax(dim=1) == labels).sum()), -pair[0]

    return torch.tensor(max(itertools.product(SHARES, SHARPNESSES), key=right))


@register(mini={"training.batch_size": 64}, tuned={"tuned": True})
class TipAdapter(Method):
    """A cache of the training images beside zero-shot CLIP, one for each task.

    Added to CLIP's logits: α · Σ exp(−β(1 − f·k)) over the stored training features k of each class. α and β
    are those of a grid of 9 × 7 that get most validation images right, 1 and 5.5 where a task has none.
    Preset `tuned` is Tip-Adapter-F: the keys start as the features and are then learned (AdamW 1e-3, 20
    epochs, batches of 256) with α 1 and β 5.5, and the grid is searched after; the best epoch is found on
    validation images (the authors take it by test images).

    In continual form every task has its own cache. Who speaks is decided as for [the linear
    probe](linear-probe.md). A task keeps the features of its training images.
    """

    name = "tip-adapter"
    summary = "Tip-Adapter: a cache of training features beside zero-shot CLIP, one for each task"
    status = "from the paper; the continual form is ours"
    config_class = TipAdapterConfig
    config: TipAdapterConfig
    routes = True
    isolated = True
    resident = (f"{ROUTER}.",)
    trains = False

    def __init__(self, backbone: Backbone, config: TipAdapterConfig) -> None:
        """Heads answer."""
        super().__init__(backbone, config)
        self.answers = HeadAnswers(self, self.head_logits)

    def new_module(self, task: Task, images: TaskImages) -> nn.ModuleDict:  # noqa: ARG002
        """A cache of the task's images; the newest task is already listed."""
        features, labels = self.collect_features(images)
        with torch.no_grad():
            texts = self.frozen_text_features(self.tasks[-1].group())
        shares = torch.tensor([self.config.share, self.config.sharpness])
        kept = {"labels": labels, "texts": texts, "shares": shares}
        cache = Cache(features, kept, self.config.tuned)
        return nn.ModuleDict({ROUTER: task_gaussian(features, self.backbone), HEAD: cache})

    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.ModuleDict:
        """Room for a stored cache."""
        gaussian, own = stored_parts(tensors)
        cache = Cache(own["keys"], strip_prefix("kept.", own), tuned=False)
        return nn.ModuleDict({ROUTER: gaussian, HEAD: cache})

    def task_logits(self, pixels: Tensor) -> Tensor:
        """The newest cache, through which the keys are tuned; features are frozen."""
        with torch.no_grad():
            features = self.frozen_image_features(pixels)
        return self._cache(len(self.bank) - 1).logits(features, self.backbone.logit_scale)

    def end_task(self, images: TaskImages) -> None:
        """Choose α and β on the validation images, if there are any."""
        if self.validation is not None:
            features, labels = (part.cpu() for part in self.collect_features(self.validation))
            cache = self._cache(len(self.bank) - 1)
            shares = chosen_shares(cache, features, labels, self.backbone.logit_scale)
            cache.kept.tensors["shares"] = shares
        super().end_task(images)

    def head_logits(self, index: int, images: Images) -> Tensor:
        """What a task's cache says about its own classes."""
        features = self.frozen_features(images).cpu().double()
        return self._cache(index).logits(features, self.backbone.logit_scale.cpu().double())

    def _cache(self, index: int) -> Cache:
        """The cache of one task."""
        found: Cache = self.bank.part(index, HEAD)
        return found
