"""Learning without Forgetting, and its variant with a random vocabulary, as ZSCL compares them."""

import torch
from pydantic import Field
from torch import Tensor

from dpw.clip.backbone import Backbone
from dpw.data.reference import OWN_IMAGES, OWN_PROMPTS, seeded
from dpw.data.task import Task
from dpw.methods.finetune import FineTune
from dpw.methods.parts.distillation import CIL_DISTILLING, MINI_DISTILLING, Distillation
from dpw.methods.parts.reference_batches import ReferenceBatches, ReferencedConfig
from dpw.methods.registry import register


class LwFConfig(ReferencedConfig):
    """LwF's reference data: the task's own images and class prompts."""

    reference_images: str | None = OWN_IMAGES
    """Images to distil on: `task` for the task's own, a folder, or a saved dataset."""
    reference_sentences: str | None = OWN_PROMPTS
    """Sentences to distil on: `class-prompts` for the task's own, or a file of sentences."""


@register(mini=MINI_DISTILLING, cil=CIL_DISTILLING)
class LwF(FineTune):
    """Learning without Forgetting: the model before the task teaches the one that learns.

    `finetune` plus distillation (temperature 2) from the model before the task, on the new task's own images,
    drawn in a second, independent order and prepared as at test time. Images are compared with the teacher's
    features of the class prompts, once over the prompts of each image and once over the images of each
    prompt, both with weight one. Both sides use the teacher's text features, so only the image tower is held;
    this is how the published numbers were made. `teacher=init` distils from plain CLIP. The teacher is a real
    copy (in part of the public code it moves with the student).
    """

    name = "lwf"
    summary = "LwF: fine-tuning held to the previous model's answers on the new task's images"
    config_class = LwFConfig
    config: LwFConfig

    def __init__(self, backbone: Backbone, config: LwFConfig) -> None:
        """Distil on the task's own images and class prompts."""
        super().__init__(backbone, config)
        self.restraints = (Distillation(self, config, ReferenceBatches(self, config)),)


class LwFVRConfig(LwFConfig):
    """Size of the random vocabulary."""

    random_sentences: int = Field(1000, ge=1)
    """Random sentences to distil on."""
    random_length: int = Field(10, ge=1)
    """Tokens of a random sentence."""


@register(
    mini=MINI_DISTILLING | {"training.learning_rate": 4e-4, "random_sentences": 200}, cil=CIL_DISTILLING
)
class LwFVR(FineTune):
    """[`lwf`](lwf.md) with sentences of random tokens in place of the class prompts.

    There are 1000 sentences of ten random tokens (`random_sentences`, `random_length`). They are drawn once,
    from the whole vocabulary and by the seed, and are the same for every task.
    """

    name = "lwf-vr"
    summary = "LwF with 1000 sentences of random tokens in place of the class prompts"
    config_class = LwFVRConfig
    config: LwFVRConfig

    def __init__(self, backbone: Backbone, config: LwFVRConfig) -> None:
        """Distil on the task's own images and random sentences."""
        super().__init__(backbone, config)
        self.restraints = (Distillation(self, config, ReferenceBatches(self, config, self._sentences)),)

    def _sentences(self, task: Task) -> Tensor:  # noqa: ARG002
        """The same random sentences for every task."""
        generator = seeded(self.config.seed, "random sentences")
        return random_tokens(
            self.backbone, self.config.random_sentences, self.config.random_length, generator
        )


def random_tokens(backbone: Backbone, count: int, length: int, generator: torch.Generator) -> Tensor:
    """Sentences of tokens drawn from the whole vocabulary, between start and end of text."""
    frame: list[int] = backbone.tokenizer(["a"])["input_ids"][0]
    start, end = frame[: backbone.family.texts.starts], frame[-1:]
    vocabulary = int(backbone.clip.config.text_config.vocab_size)
    special = {*start, *end}
    if not backbone.family.texts.causal:  # there padding is not looked at, or says that a prompt is over
        special.add(backbone.tokenizer.pad_token_id)
    allowed = torch.tensor([token for token in range(vocabulary) if token not in special])
    length = min(length, backbone.text_shape.tokens - len(start) - len(end))
    drawn = allowed[torch.randint(len(allowed), (count, length), generator=generator)]
    return backbone.padded([[*start, *row, *end] for row in drawn.tolist()])
