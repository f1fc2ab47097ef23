"""DualPrompt: general prompts for all tasks in the first blocks, one expert prompt per task in the others."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.methods.parts.prompt_pool import Prefixes, PromptPool, PromptPoolConfig, split_prompt
from dpw.methods.parts.steps import MINI_PASSES
from dpw.methods.registry import register


class DualPromptConfig(PromptPoolConfig):
    """DualPrompt's constants; a small tower leaves at least one block to the expert prompts."""

    general_length: int = Field(6, ge=2, multiple_of=2)
    """Tokens of the prompt that all tasks share."""
    general_blocks: int = Field(4, ge=0)
    """First blocks that get the shared prompt."""
    expert_length: int = Field(20, ge=2, multiple_of=2)
    """Tokens of a task's own prompt."""


class ExpertPrompts(nn.Module):
    """One task's keys `(K, E)` and prompts `(K, L, D)` for the K blocks behind the general ones."""

    def __init__(self, keys: Tensor, prompts: Tensor) -> None:
        """Take the starting values."""
        super().__init__()
        self.keys, self.prompts = nn.Parameter(keys.clone()), nn.Parameter(prompts.clone())


@register(mini=MINI_PASSES | {"training.learning_rate": 3e-3})
class DualPrompt(PromptPool):
    """In training the task says which expert prompt is used, later the nearest key in every block.

    Like [L2P](l2p.md), with two kinds of prompts: general ones of length 6 in the first four blocks,
    learned by all tasks, and expert ones of length 20 in the other blocks, one set for each task, with a
    key for every block. While a task is learned its own expert prompts are used and its keys are drawn to
    its images; later each block takes the expert prompt with the nearest key. A tower with few blocks
    leaves at least the last one to the expert prompts. **There is no zero-shot ability.**

    As L2P this is CoLeCLIP's port to CLIP's image tower, trained 500 steps of 128 a task as there.
    """

    name = "dualprompt"
    summary = "DualPrompt: general prompts and one expert prompt per task; linear head (ECCV 2022)"
    config_class = DualPromptConfig
    config: DualPromptConfig

    @property
    def general_blocks(self) -> int:
        """How many blocks have general prompts."""
        return min(self.config.general_blocks, self.backbone.image_shape.blocks - 1)

    def draw_pool(self, generator: torch.Generator) -> dict[str, Tensor]:
        """The general prompts `(blocks, L, D)`, uniform from 0 to 1."""
        size = (self.general_blocks, self.config.general_length, self.backbone.image_shape.width)
        return {"general": torch.rand(size, generator=generator)}

    def draw_prompts(self, generator: torch.Generator) -> ExpertPrompts:
        """An expert prompt and a key for each block behind the general ones, uniform from 0 to 1."""
        shape = self.backbone.image_shape
        blocks = shape.blocks - self.general_blocks
        keys = torch.rand(blocks, self.backbone.feature_width, generator=generator)
        prompts = torch.rand(blocks, self.config.expert_length, shape.width, generator=generator)
        return ExpertPrompts(keys, prompts)

    def prefixes(self, query: Tensor, task: int | None) -> tuple[Prefixes, Tensor]:
        """General prompts for everybody, expert prompts by task or key; the loss draws the task's keys."""
        keys, values = split_prompt(self.pool["general"][:, None])
        found: Prefixes = {block: (keys[block], values[block]) for block in range(self.general_blocks)}
        unit = F.normalize(query, dim=-1)
        loss = query.new_zeros(())
        for index in range(self.backbone.image_shape.blocks - self.general_blocks):
            if task is not None:
                expert = self._expert(task)
                cosine = unit @ F.normalize(expert.keys[index], dim=-1)
                loss = loss + (1 - cosine).mean()
                prompts = expert.prompts[index][None]
            else:
                prompts = self._nearest(unit, index)
            found[self.general_blocks + index] = split_prompt(prompts)
        return found, loss

    def _nearest(self, unit: Tensor, index: int) -> Tensor:
        """For every image the expert prompt `(B, L, D)` whose key in this block is nearest."""
        experts = [self._expert(task) for task in range(len(self.bank))]
        keys = torch.stack([expert.keys[index] for expert in experts])
        prompts = torch.stack([expert.prompts[index] for expert in experts])
        return prompts[(unit @ F.normalize(keys, dim=-1).T).argmax(dim=1)]

    def _expert(self, index: int) -> ExpertPrompts:
        """The expert prompts of one task."""
        found = self.bank[index]
        assert isinstance(found, ExpertPrompts)
        return found

    def stored_module(self, tensors: Mapping[str, Tensor]) -> ExpertPrompts:
        """Expert prompts and their keys with the shapes of stored tensors."""
        return ExpertPrompts(tensors["keys"], tensors["prompts"])
