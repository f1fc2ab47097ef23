"""GIFT: distil the previous model on synthetic image-prompt pairs, with a Fisher-weighted anchor."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from dpw.clip.backbone import Backbone
from dpw.data.reference import (
    Pairs,
    ShuffledRows,
    has_pairs,
    pixels_of,
    reference_pairs,
    reference_sentences,
    sentence_tokens,
)
from dpw.data.synthesis import class_prompts, draw_prompts, synthesize
from dpw.data.task import Task
from dpw.errors import InputError
from dpw.methods.candidates import ClassGroup
from dpw.methods.finetune import MINI_FINETUNING, FineTune, FineTuneConfig
from dpw.methods.parts.losses import distillation, symmetric_cross_entropy
from dpw.methods.parts.restraints import Restraint
from dpw.methods.registry import register

UNSEEN_FISHER = 1e-6  # for weights that get no gradient from the synthetic pairs


class GIFTConfig(FineTuneConfig):
    """GIFT's constants.

    `synthetic` is a folder of images with prompts, or one with such a folder for each task. With `diffusion`,
    the name or folder of a diffusers pipeline, what is missing there is made before a task, from prompts for
    the names in the file `synthetic_classes` (the authors': ImageNet's) or from `reference_sentences`, and
    from the earlier tasks' prompts.
    """

    absent: ClassVar[Mapping[str, Any]] = {"synthetic_classes": None}
    needed_reference: ClassVar[tuple[str, ...]] = ("synthetic",)

    synthetic: str | None = None
    """Folder of made images with their prompts, or one such folder for each task."""
    synthetic_images: int = Field(1000, ge=1)
    """Images made before a task."""
    synthetic_batch: int = Field(64, ge=2)
    """Made images in a step."""
    synthetic_classes: str | None = None
    """File of class names to make images of."""
    diffusion: str | None = None
    """Name or folder of the diffusers pipeline that makes what is missing."""
    diffusion_steps: int = Field(50, ge=1)
    """Denoising steps of an image."""
    reference_sentences: str | None = None
    """Sentences to make images of, in place of class names."""
    temperature: float = Field(2.0, gt=0)
    """Temperature of distillation."""
    distillation: float = Field(1.0, ge=0)
    """Weight of distillation from the model before the task."""
    alignment: float = Field(0.25, ge=0)
    """Weight of matching made images with their prompts."""
    consolidation: float = Field(1.0, ge=0)
    """Weight of the distance from the weights before the task."""


class SyntheticPairs(Restraint):
    """Keeps what the previous model says about images generated for earlier classes."""

    needs_previous = True
    _pairs: Pairs
    _rows: ShuffledRows

    def __init__(self, method: FineTune, config: GIFTConfig) -> None:
        """Hold `method` back as the settings say."""
        self.method, self.config = method, config

    def begin(self, task: Task) -> None:
        """Find or make the synthetic pairs and fix the order in which they come."""
        method, config = self.method, self.config
        self._make_missing(task)
        pairs = reference_pairs(config.synthetic, method.reference, task, method.name)
        self._pairs = pairs.first(config.synthetic_images)
        key = (config.seed, task.name, "synthetic")
        self._rows = ShuffledRows(len(self._pairs.prompts), config.synthetic_batch, *key)

    def _make_missing(self, task: Task) -> None:
        """Generate the pairs of a task, if a pipeline is given and they are not there."""
        method, config = self.method, self.config
        if config.diffusion is None:
            return
        if config.synthetic is None:
            raise InputError(
                f"diffusion={config.diffusion} makes images in a folder: also give synthetic=FOLDER"
            )
        folder = Path(config.synthetic) / task.name
        if folder.is_dir() or has_pairs(Path(config.synthetic)):
            return
        base = self._base_prompts(task)
        known = [ClassGroup(t.name, t.classes, t.templates[:1]).prompts()[0] for t in method.tasks]
        pool = [*base, *(prompt for prompts in known for prompt in prompts)]
        index = len(method.tasks)
        prompts = draw_prompts(pool, config.synthetic_images, config.seed, task.name)
        synthesize(folder, prompts, index, config.diffusion, config.diffusion_steps)

    def _base_prompts(self, task: Task) -> tuple[str, ...]:
        """Prompts that belong to no task."""
        method, config = self.method, self.config
        if config.synthetic_classes is not None:
            return class_prompts(Path(config.synthetic_classes))
        return reference_sentences(config.reference_sentences, method.reference, task, method.name)

    def cost(self) -> Tensor:
        """Distillation and alignment on synthetic pairs, and the anchor that they weight."""
        method, config = self.method, self.config
        rows = self._rows.at(method.step)
        prompts = [self._pairs.prompts[row] for row in rows]
        pixels = pixels_of(self._pairs.images, rows, method.pixel_cache, method.backbone.device)
        tokens = sentence_tokens(prompts, method.backbone)
        with torch.no_grad():
            target = pair_similarities(method.previous_model, pixels, tokens)
        found = pair_similarities(method.model, pixels, tokens)
        loss = config.distillation * self._distilled(target, found)
        loss = loss + config.alignment * self._aligned(found, prompts)
        return loss + config.consolidation * self._consolidation(loss)

    def _distilled(self, target: Tensor, found: Tensor) -> Tensor:
        """What the previous model says about every image and every prompt."""
        temperature = self.config.temperature
        return distillation(target, found, temperature) + distillation(target.T, found.T, temperature)

    def _aligned(self, found: Tensor, prompts: Sequence[str]) -> Tensor:
        """Each image belongs to its prompt, and equal prompts share it."""
        smoothing = self.config.training.label_smoothing
        return symmetric_cross_entropy(found, equal_prompts(prompts).to(found), smoothing)

    def _consolidation(self, loss: Tensor) -> Tensor:
        """Σ F (θ − θ_previous)², F being the squared gradient of the loss with mean one in every tensor."""
        weights, previous = self.method.weights(), self.method.previous_weights()
        gradients = torch.autograd.grad(loss, list(weights.values()), retain_graph=True, allow_unused=True)
        terms = [
            (relative_fisher(gradient, tensor) * (tensor - previous[name]).square()).sum()
            for (name, tensor), gradient in zip(weights.items(), gradients, strict=True)
        ]
        return torch.stack(terms).sum()


@register(mini=MINI_FINETUNING | {"training.learning_rate": 4e-4, "synthetic_batch": 16})
class GIFT(FineTune):
    """`finetune` with synthetic image-prompt pairs.

    Distillation from the model before the task (weight 1), alignment of each image with its prompt (weight
    0.25, equal prompts share the target), and adaptive consolidation, the squared distance from the start of
    the task weighted by the squared gradient of the first two terms, with mean one in every tensor. The pairs
    come from a folder (`synthetic=FOLDER`, see [reference data](../reference-data.md)), also one that the
    authors' code has made; with `diffusion=PIPELINE` and the extra `dpw[diffusion]` missing ones are made
    there before the task: 1000 prompts, drawn from those of given class names (`synthetic_classes=FILE`, the
    authors': "a photo of a {ImageNet class}.") or from `reference_sentences`, and from the classes of earlier
    tasks. Of several processes the first paints and the others wait.

    The image seeds are the authors', but the images are not theirs to the bit: the prompts are drawn in an
    order of our own, the noise comes from a generator on the CPU (theirs from CUDA's), and JPEGs are saved at
    quality 95 (theirs at 75).
    """

    name = "gift"
    summary = "GIFT: distillation and alignment on synthetic pairs, adaptive weight consolidation"
    config_class = GIFTConfig
    config: GIFTConfig

    def __init__(self, backbone: Backbone, config: GIFTConfig) -> None:
        """Hold the student back by synthetic pairs."""
        super().__init__(backbone, config)
        self.restraints = (SyntheticPairs(self, config),)


def pair_similarities(model: Backbone, pixels: Tensor, tokens: Tensor) -> Tensor:
    """Scaled cosines of all images with all prompts, both towers by the same model."""
    images = F.normalize(model.encode_images(pixels), dim=-1)
    return model.logit_scale * images @ F.normalize(model.encode_texts(tokens), dim=-1).T


def equal_prompts(prompts: Sequence[str]) -> Tensor:
    """Targets `(B, B)`: each row spreads its mass evenly over the columns with the same prompt."""
    same = torch.tensor([[float(one == other) for other in prompts] for one in prompts])
    return same / same.sum(dim=1, keepdim=True)


def relative_fisher(gradient: Tensor | None, tensor: Tensor) -> Tensor:
    """The squared gradient divided by its own mean; almost nothing where there is no gradient."""
    if gradient is None or not bool(gradient.any()):
        return torch.full_like(tensor, UNSEEN_FISHER).detach()
    # Dividing first keeps the square of a small gradient above the smallest float.
    square = (gradient / gradient.abs().amax()).square().detach()
    return square / square.mean()
