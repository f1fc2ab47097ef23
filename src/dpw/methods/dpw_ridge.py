"""DPW inside, a closed-form head per task outside: ridge regression of what plain CLIP leaves unexplained."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.methods.bank import HostTensors
from dpw.methods.base import TaskImages
from dpw.methods.candidates import Candidates, ClassGroup
from dpw.methods.dpw.config import MINI, DPWConfig
from dpw.methods.dpw.method import DPW
from dpw.methods.parts.heads import HEAD, HeadAnswers
from dpw.methods.parts.ridge_head import Labelled, RidgeHead, Seen, fit_head
from dpw.methods.registry import register
from dpw.methods.tensors import strip_prefix

OF_PATCHES = ("patches", "spread")  # mean and standard deviation of the patch tokens after the middle block
TEXTS = ("frozen_texts", "adapted_texts")  # the task's own class features, stored with the head

VARIANTS: dict[str, dict[str, Any]] = {
    "frozen": {"views": ("frozen",)},
    "adapted": {"views": ("adapted",)},
    "no-spread": {"views": ("frozen", "patches")},
    "all-views": {"views": ("frozen", "adapted", "patches", "spread")},
    "use-validation": {"use_validation": True},
    "patch-router": {"router_features": "image+patches", "covariance": "classes"},
}


@dataclass(frozen=True)
class BothImages:
    """Training images and then others, as one."""

    first: TaskImages
    then: TaskImages

    def __len__(self) -> int:
        """How many there are."""
        return len(self.first) + len(self.then)

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of both."""
        yield from self.first.batches()
        yield from self.then.batches()


class DPWRidgeConfig(DPWConfig):
    """DPW's settings and what the head looks at."""

    router: Literal["gaussian"] = "gaussian"
    """A Gaussian for each task, by whose likelihoods the heads are weighed."""
    views: tuple[Literal["frozen", "adapted", "patches", "spread"], ...] = ("frozen", "patches", "spread")
    """Features that the ridge head sees."""
    use_validation: bool = False
    """Let validation images join the regression, once everything is chosen, and the task's Gaussian."""


@register(mini=MINI | {"adapter_rank": 16, "training.epochs": 10}, **VARIANTS)
class DPWRidge(DPW):
    """DPW trained as usual; outside of CLIP each task has a head that is solved, not trained.

    DPW decides per token inside the towers; [RAIL](rail.md) and caches decide per class outside. This joins
    them, and is ours: no paper has it. A task is learned as by [DPW](dpw.md). Then its training images are
    seen in three views: the frozen feature f, and mean and spread (standard deviation) of the frozen patch
    tokens after the middle block. A Gaussian-kernel ridge regression on them predicts what zero-shot
    probabilities leave unexplained (one-hot minus prior), and its values are added to DPW's own text logits
    with two shares q and t. The feature that the task adapts speaks through these logits alone: the images
    it was trained on lie too close together in it to say how far a new one is.

    **What is chosen, and on what.** Penalty and temperature of the prior: by the likelihood of the training
    images, each predicted by all others in closed form, and of the validation images; not the best pair but
    an average weighted by likelihood. q and t: by the likelihood of the validation images; without any,
    constants. Test images choose nothing.

    **Who speaks.** Only tasks that know a candidate by name, and only about these; if none does, the answer
    is plain CLIP's to the last bit. Between several tasks the Gaussian over frozen features decides, and an
    image that is far less likely than a task's own images is left to plain CLIP. Where nobody has learned
    some of the candidates, a head says nothing about their share: the odds of learned against unlearned
    candidates are plain CLIP's, and the likelihood of the image under the Gaussians raises or lowers them. So
    the class list helps to find the task, as it does for RAIL; asked about all learned classes, the image
    alone decides.

    Tasks are kept apart: any order gives the same head, and forgetting one is as if it had never been. A task
    keeps **features of its training images** (at most 2048; beyond, they are landmarks), in single precision.
    Presets `frozen`, `adapted`, `no-spread` and `all-views` look at other views; `use-validation` lets the
    validation images join the regression, and the Gaussian by which an image's task is found, after
    everything is chosen; `patch-router` finds the task as `dpw learn` does, by the mean patch token too and
    by a mean for each class, which tells tasks apart better. [Rivals](../rivals.md) has measurements.
    """

    name = "dpw-ridge"
    summary = "ours: DPW inside, a closed-form ridge head per task outside"
    status = "our own; not published"
    config_class = DPWRidgeConfig
    config: DPWRidgeConfig
    resident = (*DPW.resident, f"{HEAD}.{TEXTS[0]}")
    uses_validation = True
    folder_settings: ClassVar[Mapping[str, Any]] = {
        "router_features": "image+patches",
        "covariance": "classes",
        "use_validation": True,
    }

    def __init__(self, backbone: Backbone, config: DPWRidgeConfig) -> None:
        """DPW's own answers train; heads answer."""
        super().__init__(backbone, config)
        self.heads = HeadAnswers(self, self.head_logits, self.answers.router_features, self._stored_texts)

    def routing_images(self, images: TaskImages) -> TaskImages:
        """Validation images are images of the task too, where they may be learned from."""
        if self.validation is None or not self.config.use_validation:
            return images
        return BothImages(images, self.validation)

    def end_task(self, images: TaskImages) -> None:
        """Close the task as DPW does, then solve its head with the selected weights."""
        super().end_task(images)
        self.solve_head(images)

    def keep_texts(self) -> None:
        """Nothing but what `solve_head` stores: heads ask for texts at full weight alone."""

    def solve_head(self, images: TaskImages) -> None:
        """The newest task's head, and who belongs to it, from its training and validation images."""
        self.eval()
        module: Any = self.bank[-1]
        with torch.no_grad():
            texts = self._texts(len(self.bank) - 1)
            features, labels = self._gathered(images)
            train, held_out = Labelled(self._seen(features, texts), labels), None
            if self.validation is not None:
                kept_apart, own = self._gathered(self.validation)
                held_out = Labelled(self._seen(kept_apart, texts), own)
            head = fit_head(train, held_out, self.config.use_validation)
        module[HEAD] = HostTensors(head.tensors() | texts)

    # ------------------------------------------------------------------------------------------ answering

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """The heads of the tasks that know a candidate, mixed with plain CLIP."""
        return self.heads.logits(images, candidates)

    def head_logits(self, index: int, images: Images) -> Tensor:
        """What a task says about its own classes, at full weight."""
        stored = self._head(index).tensors
        features = {"frozen": self.frozen_features(images), "adapted": self._adapted_features(index, images)}
        if set(OF_PATCHES) & set(self.config.views):
            features |= _named(self._patches(images))
        on_host = {view: found.cpu().double() for view, found in features.items()}
        return RidgeHead.stored(stored).logits(self._seen(on_host, stored))

    def _head(self, index: int) -> HostTensors:
        """The head of one task."""
        found: HostTensors = self.bank.part(index, HEAD)
        return found

    def _stored_texts(self, group: ClassGroup) -> Tensor | None:
        """Plain CLIP's features of a task's own classes, as they were stored with its head."""
        if group.name not in self.task_names:
            return None
        index = self.index_of(group.name)
        return self.bank.tensor(index, HEAD, TEXTS[0]) if self.tasks[index].group() == group else None

    def _adapted_features(self, index: int, images: Images) -> Tensor:
        """Normalised image features with one task at full weight, kept from question to question."""

        def compute(rows: Any) -> Tensor:
            """Only those that were never seen."""
            return self._adapt(index, images.pixels(rows))

        return self.recall(images, [("full", index)] * len(images), compute)

    def _adapt(self, index: int, pixels: Tensor) -> Tensor:
        """Normalised image features with one task at full weight."""
        adaptation = self.image_adaptation(index, None, None)
        return F.normalize(self.backbone.encode_images(pixels, adaptation), dim=-1)

    def _patches(self, images: Images) -> Tensor:
        """Mean and spread of the frozen patch tokens, kept from question to question."""

        def compute(batch: Images) -> Tensor:
            """Only those that were never seen."""
            ways = ["patches"] * len(batch)
            return self.recall(batch, ways, lambda rows: self._patch_moments(batch.pixels(rows)))

        return images.once("patches", compute)

    def _patch_moments(self, pixels: Tensor) -> Tensor:
        """Mean and standard deviation of the patch tokens after the middle block, `(B, 2, D)`."""
        tokens = self.backbone.image_tokens(pixels, blocks=max(self.backbone.image_shape.blocks // 2, 1))
        patches = self.backbone.patches(tokens)
        return torch.stack([patches.mean(dim=1), patches.std(dim=1, correction=0)], dim=1)

    # ------------------------------------------------------------------------------------------- learning

    def _texts(self, index: int) -> dict[str, Tensor]:
        """Frozen and adapted features of the task's classes as they are asked at test time, `(C, E)`."""
        group = self.tasks[index].group()
        full, nothing_cut = torch.ones(1), torch.zeros(1, dtype=torch.bool)
        adapted = self.answers.encode_texts(index, group, full, nothing_cut)[0]
        return dict(zip(TEXTS, (self.frozen_text_features(group).cpu(), adapted.cpu()), strict=True))

    def _gathered(self, images: TaskImages) -> tuple[dict[str, Tensor], Tensor]:
        """Every view of the newest task's images, and their labels, on the host."""
        views: dict[str, list[Tensor]] = {view: [] for view in ("frozen", "adapted", *OF_PATCHES)}
        labels = []
        for pixels, own in images.batches():
            views["frozen"].append(self.frozen_image_features(pixels))
            views["adapted"].append(self._adapt(len(self.bank) - 1, pixels))
            for view, found in _named(self._patch_moments(pixels)).items():
                views[view].append(found)
            labels.append(own.cpu())
        return {view: torch.cat(parts).cpu().double() for view, parts in views.items()}, torch.cat(labels)

    def _seen(self, features: Mapping[str, Tensor], texts: Mapping[str, Tensor]) -> Seen:
        """What the head looks at: the chosen views and both sorts of logits."""
        scale = float(self.backbone.logit_scale)
        frozen, adapted = (texts[name].double() for name in TEXTS)
        logits = scale * features["frozen"] @ frozen.T, scale * features["adapted"] @ adapted.T
        return Seen(tuple(features[view] for view in self.config.views), *logits)

    # ----------------------------------------------------------------------------------- state, as tensors

    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.ModuleDict:
        """DPW's module, and room for the head."""
        module = super().stored_module(tensors)
        module[HEAD] = HostTensors(strip_prefix(f"{HEAD}.", tensors))
        return module

    def parameter_count(self) -> int:
        """DPW's parameters, and every number of the heads."""
        states = [self.bank.state(index) for index in range(len(self.bank))]
        return super().parameter_count() + sum(
            tensor.numel()
            for state in states
            for name, tensor in state.items()
            if name.startswith(f"{HEAD}.")
        )


def _named(moments: Tensor) -> dict[str, Tensor]:
    """Mean and spread `(B, 2, D)` as the views they are."""
    return dict(zip(OF_PATCHES, moments.unbind(dim=1), strict=True))
