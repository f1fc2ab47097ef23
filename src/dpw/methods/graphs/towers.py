"""The image tower of a graph: one frozen pass, and one in which every image has its own task.

A graph cannot go through a mixed batch task by task, as `predict` does: it gathers the parameters of every
image's task and multiplies batches of matrices. The results are the same.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw import functional as paper
from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.clip.blocks import run_blocks
from dpw.clip.sequences import AllTokens, Positions
from dpw.methods.dpw.config import DPWConfig
from dpw.methods.dpw.tower import DPWTower


class FrozenPass(NamedTuple):
    """What plain CLIP leaves of a batch of images."""

    embedded: Tensor  # (B, N, D) what goes into the first block
    middle: Tensor  # (B, D) mean patch token after the middle block
    spread: Tensor  # (B, D) standard deviation of these tokens
    feature: Tensor  # (B, E) normalised image feature
    patches: Tensor | None  # (B, D) mean patch token after the last block, where somebody asks


class ImageTower(nn.Module):
    """The image half of a CLIP, without its text half, so that a graph holds no weight it does not need.

    It has the names that the description of a family looks for in a whole CLIP.
    """

    def __init__(self, backbone: Backbone) -> None:
        """Take the weights of a backbone."""
        super().__init__()
        self.vision_model = backbone.clip.vision_model
        self.visual_projection = getattr(backbone.clip, "visual_projection", None)  # SigLIP has none
        self.ends, self.normalized = backbone.family.images, backbone.normalized

    def embed(self, pixels: Tensor) -> Tensor:
        """uint8 pixels `(B, 3, H, W)` to what goes into the first block."""
        return self.ends.enter(self, self.vision_model.embeddings(self.normalized(pixels)))

    def frozen(self, pixels: Tensor, patches: bool) -> FrozenPass:
        """Plain CLIP; `patches` says whether those of the last block are asked for."""
        layers, embedded = list(self.vision_model.encoder.layers), self.embed(pixels)
        tokens, half = AllTokens(embedded.shape[1]), max(len(layers) // 2, 1)
        middle = run_blocks(layers[:half], embedded, None, tokens, tokens, False)
        end = tokens if patches or len(layers) == half else self.ends.last_block(embedded.shape[1], None)
        last = run_blocks(layers[half:], middle, None, tokens, end, False)
        first = self.ends.class_tokens
        mean = last[:, first:].mean(dim=1) if patches else None
        inner = middle[:, first:]
        centre = inner.mean(dim=1)
        # A graph has no deviation of its own: what stands for one makes onnxruntime warn.
        spread = (inner - centre[:, None]).square().mean(dim=1).sqrt()
        return FrozenPass(embedded, centre, spread, self.pool(last), mean)

    def features(self, embedded: Tensor, adaptation: Adaptation | None = None) -> Tensor:
        """Normalised image features `(B, E)`; only what they are read from goes through the last block."""
        layers, count = list(self.vision_model.encoder.layers), embedded.shape[1]
        end = self.ends.last_block(count, None)
        return self.pool(run_blocks(layers, embedded, adaptation, AllTokens(count), end, False))

    def pool(self, h: Tensor) -> Tensor:
        """Tokens after the last block to normalised features, as the family reads them."""
        return F.normalize(self.ends.pool(self, h), dim=-1)


class Taken(NamedTuple):
    """What images take of their tasks: each its task, and unless fully, how much and whether it is cut."""

    task: Tensor  # (B,)
    weight: Tensor | None = None  # (B,)
    filtered: Tensor | None = None  # (B,)


def rows_of(stacked: Tensor, rows: Tensor) -> Tensor:
    """Rows of a stack, as one gathering step of a graph: of the tasks, those that images belong to."""
    return stacked.index_select(0, rows)


def heads_first(tokens: Tensor, heads: int) -> Tensor:
    """Cut the width into heads: `(B, N, D)` to `(B, h, N, D/h)`."""
    return tokens.view(*tokens.shape[:2], heads, tokens.shape[2] // heads).transpose(1, 2)


class MixedAdaptation(Adaptation):
    """Every image of a batch with the parameters of its own task, for one call."""

    def __init__(self, blocks: Sequence[Any], taken: Taken) -> None:
        """`blocks[k].residual(taken, x, q, positions)` is what the tasks add in block k."""
        self.blocks, self.taken = blocks, taken

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> Tensor | None:
        """What the tokens take, in the blocks that have parameters."""
        if block >= len(self.blocks):
            return None
        found: Tensor = self.blocks[block].residual(self.taken, x, q, positions)
        return found


class DPWBlock(nn.Module):
    """One block of the image tower with DPW's parameters of all T tasks, cut into the same H heads."""

    weight: Tensor
    bias: Tensor
    values: Tensor
    down: Tensor
    up: Tensor
    up_bias: Tensor
    cls_mean: Tensor
    cls_var: Tensor

    def __init__(
        self,
        towers: Sequence[DPWTower],
        block: int,
        down: Tensor,
        config: DPWConfig,
        has_cls_token: bool = True,
    ) -> None:
        """Stack the tasks; one with fewer heads repeats each, which changes no number."""
        super().__init__()
        self.heads = math.lcm(*(tower.heads for tower in towers))
        self.own_slice = config.own_slice and all(tower.heads == self.heads for tower in towers)
        self.strict, self.has_cls_token = config.strict_filter, has_cls_token
        width = towers[0].values.shape[-1]
        values = torch.stack([tower.values[block] for tower in towers])
        scale = config.adapter_scale
        for name, tensor in {
            "weight": torch.stack([self._weight(tower.weight[block], width) for tower in towers]),
            "bias": self._by_head([tower.bias[block] for tower in towers]),
            "values": heads_first(values, self.heads),
            "down": down,
            "up": torch.stack([tower.up[block] for tower in towers]) * scale,
            "up_bias": torch.stack([tower.up_bias[block] for tower in towers]) * scale,
            "cls_mean": self._by_head([tower.cls_mean[block] for tower in towers]),
            "cls_var": self._by_head([tower.cls_var[block] for tower in towers]),
        }.items():
            self.register_buffer(name, tensor.detach().cpu().clone(memory_format=torch.contiguous_format))

    def _by_head(self, tensors: Sequence[Tensor]) -> Tensor:
        """Stack what tasks have for each of their heads, `(T, H, ...)`."""
        return torch.stack([one.repeat_interleave(self.heads // len(one), dim=0) for one in tensors])

    def _weight(self, weight: Tensor, width: int) -> Tensor:
        """RePA's weight of a task: `(H, D/H, L)`, or for all heads at once `(D, H · L)`."""
        if self.own_slice:
            return weight
        heads, rows, prefixes = weight.shape
        if rows != width:  # a head that sees only its slice has zeros everywhere else
            whole = weight.new_zeros(heads, heads, rows, prefixes)
            whole[range(heads), range(heads)] = weight
            weight = whole.flatten(1, 2)
        return weight.repeat_interleave(self.heads // heads, dim=0).transpose(0, 1).flatten(1)

    def scores(self, taken: Taken, x: Tensor, positions: Positions) -> Tensor:
        """RePA's scores `(B, H, N, L)` (Eq. affine)."""
        weight, bias = (rows_of(one, taken.task) for one in (self.weight, self.bias))
        bias = bias[:, :, positions]
        if self.own_slice:
            return heads_first(x, self.heads) @ weight + bias
        return heads_first(x @ weight, self.heads) + bias

    def residual(self, taken: Taken, x: Tensor, q: Tensor, positions: Positions) -> Tensor:  # noqa: ARG002
        """O_R, what the tokens take from prefixes and adapter (Eq. final_formula)."""
        task, scores = taken.task, self.scores(taken, x, positions)
        g, total = paper.conditional_norm(scores)
        if taken.filtered is not None:
            mean, var = rows_of(self.cls_mean, task), rows_of(self.cls_var, task)
            whole = paper.image_scores(scores, self.has_cls_token)
            cutoff = paper.gaussian_cutoff(whole, mean, var).unsqueeze(2)
            cutoff = cutoff * taken.filtered.view(-1, 1, 1, 1)
            g = paper.conditional_filter(g, cutoff, self.strict)
        delta = paper.residual_weight(total)
        if taken.weight is not None:
            g, delta = g * taken.weight.view(-1, 1, 1, 1), delta * taken.weight.view(-1, 1, 1)
        adapted = x @ self.down @ rows_of(self.up, task) + rows_of(self.up_bias, task).unsqueeze(1)
        by_head = heads_first(adapted, self.heads)
        return (g @ rows_of(self.values, task) + delta.unsqueeze(-1) * by_head).transpose(1, 2).flatten(2)


class DIKIBlock(nn.Module):
    """One block of the image tower with DIKI's prefixes of all T tasks, in CLIP's heads."""

    keys: Tensor
    values: Tensor

    def __init__(self, keys: Sequence[Tensor], values: Sequence[Tensor], heads: int) -> None:
        """keys and values `(L, D)` of every task."""
        super().__init__()
        for name, tensors in {"keys": keys, "values": values}.items():
            stacked = heads_first(torch.stack(list(tensors)), heads)
            self.register_buffer(name, stacked.detach().cpu().contiguous())

    def residual(self, taken: Taken, x: Tensor, q: Tensor, positions: Positions) -> Tensor:  # noqa: ARG002
        """The prefixes' own attention."""
        keys, values = rows_of(self.keys, taken.task), rows_of(self.values, taken.task)
        weights = torch.softmax(q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)
        if taken.weight is not None:
            weights = weights * taken.weight.view(-1, 1, 1, 1)
        return (weights @ values).transpose(1, 2).flatten(2)
