"""L2P++: every image takes the five prompts of one shared pool whose keys are nearest to it."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.backbone import Backbone
from dpw.methods.base import register
from dpw.methods.prompt_pool import Prefixes, PromptPool, PromptPoolConfig, split_prompt


class L2PConfig(PromptPoolConfig):
    """L2P++'s constants."""

    pool_size: int = Field(22, ge=1)
    prompt_length: int = Field(20, ge=2, multiple_of=2)
    chosen: int = Field(5, ge=1)
    block: int = Field(0, ge=0)


@register()
class L2P(PromptPool):
    """One pool for all tasks, prompts in the first block."""

    name = "l2p"
    summary = "L2P++: five prompts of a shared pool, chosen by key; linear head (CVPR 2022)"
    config_class = L2PConfig
    config: L2PConfig

    def __init__(self, backbone: Backbone, config: L2PConfig) -> None:
        """Draw keys `(M, E)` and prompts `(M, L, D)` uniformly from 0 to 1."""
        super().__init__(backbone, config)
        generator = torch.Generator().manual_seed(config.seed)
        size = (config.pool_size, config.prompt_length, backbone.image_shape.width)
        keys = torch.rand(config.pool_size, backbone.feature_width, generator=generator)
        prompts = torch.rand(size, generator=generator)
        self.keys = nn.Parameter(keys.to(backbone.device), requires_grad=False)
        self.prompts = nn.Parameter(prompts.to(backbone.device), requires_grad=False)

    def grow(self, generator: torch.Generator) -> None:  # noqa: ARG002
        """The pool learns on with every task."""
        self.keys.requires_grad_()
        self.prompts.requires_grad_()

    def prefixes(self, query: Tensor, task: int | None) -> tuple[Prefixes, Tensor]:  # noqa: ARG002
        """The prompts of the nearest keys, side by side; the loss draws these keys to the image.

        The loss is that of an image's own keys; the public code sums over all pairs in a batch.
        """
        cosine = F.normalize(query, dim=-1) @ F.normalize(self.keys, dim=-1).T
        near, rows = cosine.topk(min(self.config.chosen, len(self.keys)), dim=-1)
        keys, values = (part.flatten(1, 2) for part in split_prompt(self.prompts[rows]))
        return {self.config.block: (keys, values)}, (1 - near).sum(dim=1).mean()

    def shared_state(self) -> dict[str, Tensor]:
        """The pool and the heads."""
        return {**super().shared_state(), "keys": self.keys.detach(), "prompts": self.prompts.detach()}

    def load_shared_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the pool and the heads back."""
        super().load_shared_state(tensors)
        with torch.no_grad():
            self.keys.copy_(tensors["keys"])
            self.prompts.copy_(tensors["prompts"])
