"""CODA-Prompt: every image gets a prompt of its own, summed from components by attended similarity."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.methods.parts.prompt_pool import Prefixes, PromptPool, PromptPoolConfig, split_prompt
from dpw.methods.parts.steps import MINI_PASSES
from dpw.methods.registry import register


class CODAPromptConfig(PromptPoolConfig):
    """CODA-Prompt's constants; eleven tasks with ten components each make the published 110."""

    components: int = Field(10, ge=1)
    """Prompt components that a task adds."""
    prompt_length: int = Field(8, ge=2, multiple_of=2)
    """Tokens of a prompt."""
    orthogonality: float = Field(0.1, ge=0)
    """Weight of the penalty that keeps components apart."""


class Components(nn.Module):
    """One task's components in all K blocks: keys and attention `(K, M, E)`, prompts `(K, M, L, D)`."""

    def __init__(self, keys: Tensor, attention: Tensor, prompts: Tensor) -> None:
        """Take the starting values."""
        super().__init__()
        self.keys, self.attention = nn.Parameter(keys.clone()), nn.Parameter(attention.clone())
        self.prompts = nn.Parameter(prompts.clone())


@register(mini=MINI_PASSES)
class CODAPrompt(PromptPool):
    """Earlier components are frozen; new ones start orthogonal to them and are kept so.

    Like [L2P](l2p.md), but nothing is chosen: in every block the prompt of an image is a sum of components,
    each weighted by the cosine between the attended frozen feature and the component's key. Every task adds
    ten components, orthogonal to all earlier ones at the start and kept so by a penalty; earlier components
    are frozen but go on being used, so a new task still changes the prompts of old images. Where the space
    is too narrow for more orthogonal directions, a component starts at random. **There is no zero-shot
    ability.**

    As L2P this is CoLeCLIP's port to CLIP's image tower, trained 500 steps of 128 a task as there.
    """

    name = "coda-prompt"
    summary = "CODA-Prompt: prompts summed from orthogonal components; linear head (CVPR 2023)"
    config_class = CODAPromptConfig
    config: CODAPromptConfig

    def draw_prompts(self, generator: torch.Generator) -> Components:
        """New components, orthogonal to all earlier ones of the same block."""
        shape, count = self.backbone.image_shape, self.config.components
        drawn: dict[str, list[Tensor]] = {"keys": [], "attention": [], "prompts": []}
        for block in range(shape.blocks):
            for part, rows in drawn.items():
                width = self.backbone.feature_width
                if part == "prompts":
                    width = self.config.prompt_length * shape.width
                earlier = [self._part(index, part)[block].flatten(1) for index in range(len(self.bank))]
                rows.append(orthogonal_rows(count, width, earlier, generator))
        keys, attention, prompts = (torch.stack(rows) for rows in drawn.values())
        prompts = prompts.view(shape.blocks, count, self.config.prompt_length, shape.width)
        return Components(keys, attention, prompts)

    def prefixes(self, query: Tensor, task: int | None) -> tuple[Prefixes, Tensor]:
        """Weighted sums of all components in every block, and the penalty on components that are alike."""
        keys, attention, prompts = (self._all(part) for part in ("keys", "attention", "prompts"))
        found: Prefixes = {}
        for block in range(self.backbone.image_shape.blocks):
            attended = F.normalize(query[:, None] * attention[block], dim=-1)
            weights = (attended * F.normalize(keys[block], dim=-1)).sum(dim=-1)
            found[block] = split_prompt(torch.einsum("bm,mld->bld", weights, prompts[block]))
        if task is None:
            return found, query.new_zeros(())
        penalties = [unlikeness(rows.flatten(2)) for rows in (keys, attention, prompts)]
        return found, self.config.orthogonality * torch.stack(penalties).sum()

    def _all(self, part: str) -> Tensor:
        """The components of all tasks, side by side: `(K, M of all tasks, ...)`."""
        return torch.cat([self._part(index, part) for index in range(len(self.bank))], dim=1)

    def _part(self, index: int, part: str) -> Tensor:
        """Keys, attention or prompts of one task."""
        found: Tensor = self.bank[index].get_parameter(part)
        return found

    def stored_module(self, tensors: Mapping[str, Tensor]) -> Components:
        """Components with the shapes of stored tensors."""
        return Components(tensors["keys"], tensors["attention"], tensors["prompts"])


def unlikeness(rows: Tensor) -> Tensor:
    """Σ over blocks of mean((M Mᵀ − I)²) for rows `(K, M, W)`: zero if all are orthonormal."""
    identity = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    return ((rows @ rows.transpose(1, 2) - identity) ** 2).mean(dim=(1, 2)).sum()


def orthogonal_rows(count: int, width: int, earlier: list[Tensor], generator: torch.Generator) -> Tensor:
    """Unit rows `(count, width)` by Gram-Schmidt, orthogonal to each other and to earlier rows.

    Where the space is used up, a row keeps its random direction.
    """
    basis = torch.empty(0, width)
    for old in torch.cat(earlier).detach().cpu() if earlier else ():
        basis = torch.cat([basis, _novelty(basis, old)])
    rows = []
    for _ in range(count):
        drawn = F.normalize(torch.randn(width, generator=generator), dim=0)
        new = _novelty(basis, drawn)
        basis = torch.cat([basis, new])
        rows.append(new[0] if len(new) else drawn)
    return torch.stack(rows)


def _novelty(basis: Tensor, row: Tensor) -> Tensor:
    """What is new in a row against orthonormal rows, of unit length `(1, W)`; `(0, W)` if next to nothing."""
    rest = row
    for _ in range(2):  # the second pass removes what rounding left
        rest = rest - (basis @ rest) @ basis
    enough = float(rest.norm()) > 1e-4 * float(row.norm())
    return F.normalize(rest, dim=0)[None] if enough else row.new_empty(0, len(row))
