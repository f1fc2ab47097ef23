"""GIFT: distil the previous model on synthetic image-prompt pairs, with a Fisher-weighted anchor."""

from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.data.reference import (
    Pairs,
    ShuffledRows,
    pixels_of,
    reference_pairs,
    reference_sentences,
    sentence_tokens,
)
from dpw.data.synthesis import draw_prompts, synthesize
from dpw.data.task import Task
from dpw.methods.base import TaskImages, register
from dpw.methods.candidates import ClassGroup
from dpw.methods.finetune import FineTune, FineTuneConfig
from dpw.methods.parts.distillation import distillation

UNSEEN_FISHER = 1e-6  # for weights that get no gradient from the synthetic pairs


class GIFTConfig(FineTuneConfig):
    """GIFT's constants.

    `synthetic` is a folder of images with prompts, or one with such a folder for each task. With `diffusion`,
    the name or folder of a diffusers pipeline, what is missing there is made before a task, from
    `reference_sentences` (the authors: "a photo of a {ImageNet class}.") and the earlier tasks' prompts.
    """

    synthetic: str | None = None
    synthetic_images: int = Field(1000, ge=1)
    synthetic_batch: int = Field(64, ge=2)
    diffusion: str | None = None
    diffusion_steps: int = Field(50, ge=1)
    reference_sentences: str | None = None
    temperature: float = Field(2.0, gt=0)
    distillation: float = Field(1.0, ge=0)
    alignment: float = Field(0.25, ge=0)
    consolidation: float = Field(1.0, ge=0)


@register()
class GIFT(FineTune):
    """Fine-tuning that keeps what the previous model says about images generated for earlier classes."""

    name = "gift"
    summary = "GIFT: distillation and alignment on synthetic pairs, adaptive weight consolidation"
    config_class = GIFTConfig
    config: GIFTConfig
    keeps_start = True
    _pairs: Pairs
    _rows: ShuffledRows

    def begin_task(self, task: Task, images: TaskImages) -> None:
        """Find or make the synthetic pairs and fix the order in which they come."""
        self._make_missing(task)
        pairs = reference_pairs(self.config.synthetic, self.reference, task, self.name)
        self._pairs = pairs.first(self.config.synthetic_images)
        super().begin_task(task, images)
        key = (self.config.seed, len(self.tasks), "synthetic")
        self._rows = ShuffledRows(len(self._pairs.prompts), self.config.synthetic_batch, *key)

    def _make_missing(self, task: Task) -> None:
        """Generate the pairs of a task, if a pipeline is given and they are not there."""
        if self.config.diffusion is None or self.config.synthetic is None:
            return
        folder = Path(self.config.synthetic) / task.name
        if folder.is_dir():
            return
        base = reference_sentences(self.config.reference_sentences, self.reference, task, self.name)
        known = [ClassGroup(t.name, t.classes, t.templates[:1]).prompts()[0] for t in self.tasks]
        pool = [*base, *(prompt for prompts in known for prompt in prompts)]
        index = len(self.tasks)
        prompts = draw_prompts(pool, self.config.synthetic_images, self.config.seed, index)
        synthesize(folder, prompts, index, self.config.diffusion, self.config.diffusion_steps)

    def restraint(self) -> Tensor:
        """Distillation and alignment on synthetic pairs, and the anchor that they weight."""
        rows = self._rows.at(self.step)
        prompts = [self._pairs.prompts[row] for row in rows]
        pixels = pixels_of(self._pairs.images, rows, self.pixel_cache, self.backbone.device)
        tokens = sentence_tokens(prompts, self.backbone)
        with torch.no_grad():
            target = pair_similarities(self.start_model, pixels, tokens)
        found = pair_similarities(self.model, pixels, tokens)
        loss = self.config.distillation * self._distilled(target, found)
        loss = loss + self.config.alignment * self._aligned(found, prompts)
        return loss + self.config.consolidation * self.consolidation(loss)

    def _distilled(self, target: Tensor, found: Tensor) -> Tensor:
        """What the previous model says about every image and every prompt."""
        temperature = self.config.temperature
        return distillation(target, found, temperature) + distillation(target.T, found.T, temperature)

    def _aligned(self, found: Tensor, prompts: Sequence[str]) -> Tensor:
        """Each image belongs to its prompt, and equal prompts share it."""
        smoothing = self.config.training.label_smoothing
        return symmetric_cross_entropy(found, equal_prompts(prompts).to(found), smoothing)

    def consolidation(self, loss: Tensor) -> Tensor:
        """Σ F (θ − θ_start)², F being the squared gradient of the loss with mean one in every tensor."""
        weights, start = self.weights(), self.start_weights()
        gradients = torch.autograd.grad(loss, list(weights.values()), retain_graph=True, allow_unused=True)
        terms = [
            (relative_fisher(gradient, tensor) * (tensor - start[name]).square()).sum()
            for (name, tensor), gradient in zip(weights.items(), gradients, strict=True)
        ]
        return torch.stack(terms).sum()


def pair_similarities(model: Backbone, pixels: Tensor, tokens: Tensor) -> Tensor:
    """Scaled cosines of all images with all prompts, both towers by the same model."""
    images = F.normalize(model.encode_images(pixels), dim=-1)
    return model.logit_scale * images @ F.normalize(model.encode_texts(tokens), dim=-1).T


def equal_prompts(prompts: Sequence[str]) -> Tensor:
    """Targets `(B, B)`: each row spreads its mass evenly over the places with the same prompt."""
    same = torch.tensor([[float(one == other) for other in prompts] for one in prompts])
    return same / same.sum(dim=1, keepdim=True)


def symmetric_cross_entropy(similarity: Tensor, target: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross entropy over the rows plus that over the columns, with the same soft targets."""
    over_texts = F.cross_entropy(similarity, target, label_smoothing=smoothing)
    return over_texts + F.cross_entropy(similarity.T, target, label_smoothing=smoothing)


def relative_fisher(gradient: Tensor | None, tensor: Tensor) -> Tensor:
    """The squared gradient divided by its own mean; almost nothing where there is no gradient."""
    if gradient is None or not bool(gradient.any()):
        return torch.full_like(tensor, UNSEEN_FISHER).detach()
    # Dividing first keeps the square of a small gradient above the smallest float.
    square = (gradient / gradient.abs().amax()).square().detach()
    return square / square.mean()
