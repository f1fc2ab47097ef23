"""L2P++: every image takes the five prompts of one shared pool whose keys are nearest to it."""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from dpw.methods.parts.prompt_pool import Prefixes, PromptPool, PromptPoolConfig, split_prompt
from dpw.methods.parts.steps import MINI_PASSES
from dpw.methods.registry import register


class L2PConfig(PromptPoolConfig):
    """L2P++'s constants."""

    pool_size: int = Field(22, ge=1)
    """Prompts in the pool."""
    prompt_length: int = Field(20, ge=2, multiple_of=2)
    """Tokens of a prompt."""
    chosen: int = Field(5, ge=1)
    """Prompts that an image gets."""
    block: int = Field(0, ge=0)
    """Block at which prompts are added."""


@register(mini=MINI_PASSES)
class L2P(PromptPool):
    """One pool for all tasks, prompts in the first block.

    The image tower is frozen; the text tower is not used. A pool of 22 prompts is shared by all tasks. The
    frozen feature of an image chooses the five whose keys are nearest, and their halves enter the first
    block's attention as extra keys and values. A linear head has one row for each class name; a name that
    comes back keeps its row. **There is no zero-shot ability**: a class that was never learned is refused,
    and benchmarks leave out test sets of tasks not yet learned. The key loss is that of an image's own
    keys; the public code sums over all pairs in a batch, which makes it grow with the batch.

    This is the version of CoLeCLIP's tables (L2P++ on CLIP's image tower), trained 500 steps of 128 a task as
    there, not the original on a ViT of ImageNet.
    """

    name = "l2p"
    summary = "L2P++: five prompts of a shared pool, chosen by key; linear head (CVPR 2022)"
    config_class = L2PConfig
    config: L2PConfig

    def draw_pool(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Keys `(M, E)` and prompts `(M, L, D)`, uniform from 0 to 1."""
        size = (self.config.pool_size, self.config.prompt_length, self.backbone.image_shape.width)
        keys = torch.rand(self.config.pool_size, self.backbone.feature_width, generator=generator)
        return {"prompt_keys": keys, "prompts": torch.rand(size, generator=generator)}

    def prefixes(self, query: Tensor, task: int | None) -> tuple[Prefixes, Tensor]:  # noqa: ARG002
        """The prompts of the nearest keys, side by side; the loss draws these keys to the image.

        The loss is that of an image's own keys; the public code sums over all pairs in a batch.
        """
        cosine = F.normalize(query, dim=-1) @ F.normalize(self.pool["prompt_keys"], dim=-1).T
        near, rows = cosine.topk(min(self.config.chosen, self.config.pool_size), dim=-1)
        keys, values = (part.flatten(1, 2) for part in split_prompt(self.pool["prompts"][rows]))
        return {self.config.block: (keys, values)}, (1 - near).sum(dim=1).mean()
