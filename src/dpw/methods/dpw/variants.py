"""Alternatives to the parts of DPW, one for each row of the paper's analysis tables.

`tower.py` holds the paper's module; what is here takes its place only when the settings ask for another way
to score, activate or weight (presets `ablation/...`, see `ablations.py`). Each part is a small function,
chosen by its name.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dpw import functional as paper
from dpw.clip.sequences import Positions
from dpw.data.reference import seeded
from dpw.methods.dpw.config import DPWConfig
from dpw.methods.dpw.statistics import RunningScores
from dpw.methods.dpw.tower import DPWAdaptation, DPWTower

Part = Mapping[str, Tensor]  # what one block learns, by name

ATTENTION = ("attention", "trained-attention")


class VariantTower(DPWTower):
    """What one task learns for one tower of K blocks: the parameters its alternatives need, by name."""

    def __init__(self, parameters: Mapping[str, Tensor], heads: int, *, has_cls: bool) -> None:
        """Each parameter is stacked over the blocks; values `(K, L, D)` are always among them."""
        nn.Module.__init__(self)
        for name, tensor in parameters.items():
            self.register_parameter(name, nn.Parameter(tensor.detach().clone()))
        self._heads = heads
        self.has_cls = has_cls
        blocks, prefixes, _ = parameters["values"].shape
        if has_cls:
            self.keep_cls_scores(blocks, heads, prefixes)

    @property
    def heads(self) -> int:
        """Heads of the prefix branch; those of CLIP where its own attention scores."""
        return self._heads


def _own_projections(layers: Sequence[Any]) -> dict[str, Tensor]:
    """Copies of CLIP's query and key projections, to be trained for one task."""
    stacked = {}
    for name in ("query", "key"):
        maps = [getattr(layer.self_attn, f"{name[0]}_proj") for layer in layers]
        stacked[f"{name}_weight"] = torch.stack([one.weight.detach().cpu() for one in maps])
        stacked[f"{name}_bias"] = torch.stack([one.bias.detach().cpu() for one in maps])
    return stacked


# ------------------------------------------------------------------------------------------------- scores


def input_scores(part: Part, attention: Any, x: Tensor, q: Tensor) -> Tensor:  # noqa: ARG001
    """X W^G + B^G, the paper's RePA."""
    return paper.repa_scores(x, part["weight"], part["bias"])


def query_scores(part: Part, attention: Any, x: Tensor, q: Tensor) -> Tensor:  # noqa: ARG001
    """Q W^G + B^G: the same after CLIP's query projection."""
    return paper.repa_scores(q.transpose(1, 2).flatten(2), part["weight"], part["bias"])


def attention_scores(part: Part, attention: Any, x: Tensor, q: Tensor) -> Tensor:  # noqa: ARG001
    """Q (P_K W^K + b^K)ᵀ / √d with CLIP's frozen projections: prefix tuning."""
    return _dot_product(q, attention.k_proj(part["keys"]))


def trained_attention_scores(part: Part, attention: Any, x: Tensor, q: Tensor) -> Tensor:  # noqa: ARG001
    """The same with a query and a key projection of the task's own."""
    query = x @ part["query_weight"].T + part["query_bias"]
    own = query.view(*query.shape[:2], q.shape[1], q.shape[3]).transpose(1, 2)
    return _dot_product(own, part["keys"] @ part["key_weight"].T + part["key_bias"])


def _dot_product(q: Tensor, keys: Tensor) -> Tensor:
    """Scaled scores `(B, h, N, L)` of queries `(B, h, N, D/h)` with keys `(L, D)` cut into the same heads."""
    by_head = keys.view(len(keys), q.shape[1], q.shape[3]).permute(1, 2, 0)
    return q @ by_head / math.sqrt(q.shape[3])


SCORES: dict[str, Callable[[Part, Any, Tensor, Tensor], Tensor]] = {
    "input": input_scores,
    "query": query_scores,
    "attention": attention_scores,
    "trained-attention": trained_attention_scores,
}


# ------------------------------------------------------------------------------------------------ weights


def softmax(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Weights that sum to one, as in attention; nothing is left for the residual weight."""
    g = torch.softmax(scores, dim=-1)
    return g, g.sum(dim=-1)


def sigmoid(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Free weights, however large their sum."""
    g = torch.sigmoid(scores)
    return g, g.sum(dim=-1)


# By activation: the weights g `(B, h, N, L)` and the total `(B, h, N)` of which the adapter gets the rest.
ACTIVATIONS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "norm": paper.conditional_norm,
    "conditional": paper.conditional_norm,
}


class Weighing(NamedTuple):
    """All that an adapter's weight may be made of."""

    part: Part
    x: Tensor
    g: Tensor
    filtered: Tensor
    total: Tensor


def router_weight(seen: Weighing) -> Tensor:
    """σ(X W + b), a learnable router with one output a head."""
    routed = torch.sigmoid(seen.x @ seen.part["router_weight"] + seen.part["router_bias"])
    return routed.transpose(1, 2)


# By adapter weight: `(B, h, N)` for every head and token.
ADAPTER_WEIGHTS: dict[str, Callable[[Weighing], Tensor]] = {
    "residual": lambda seen: paper.residual_weight(seen.total),
    "uniform": lambda seen: torch.ones_like(seen.total),
    "sum": lambda seen: seen.g.sum(dim=-1),
    "filtered-sum": lambda seen: seen.filtered.sum(dim=-1),
    "router": router_weight,
}


class VariantAdaptation(DPWAdaptation):
    """One task acting in one tower, with the parts its settings name."""

    def __init__(
        self,
        tower: DPWTower,
        down: Tensor,
        config: DPWConfig,
        weight: Tensor | None,
        filtered: Tensor | None,
        scores: RunningScores | None,
        layers: Sequence[Any],
    ) -> None:
        """`layers` are the tower's frozen blocks, whose projections some scores need."""
        super().__init__(tower, down, config, weight, filtered, scores)
        self.layers = layers
        self.score, self.activate = SCORES[config.scores], ACTIVATIONS[config.activation]

    def unbind(self, tower: DPWTower, down: Tensor) -> None:
        """Take the parameters apart block by block, by name; a task's own D goes before the shared one."""
        unbound = {name: stacked.unbind(0) for name, stacked in tower.named_parameters()}
        unbound.setdefault("down", down.unbind(0))
        blocks = range(len(unbound["values"]))
        self.parts = [{name: rows[block] for name, rows in unbound.items()} for block in blocks]

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> Tensor:
        """What the tokens take from prefixes and adapter."""
        part = self.parts[block]
        if "bias" in part:
            part = part | {"bias": part["bias"][:, positions]}
        scores = self.score(part, self.layers[block].self_attn, x, q)
        if self.scores is not None:
            self.scores.add(block, paper.image_scores(scores, self.has_cls_token))
        g, total = self.activate(scores)
        cutoff = self.cutoff(block, scores)
        filtered = g if cutoff is None else paper.conditional_filter(g, cutoff, self.config.strict_filter)
        output = paper.prefix_output(filtered, part["values"])
        if self.config.adapter_weight != "none":
            output = output + self._adapter(Weighing(part, x, g, filtered, total))
        return output if self.sample_weight is None else output * self.sample_weight.view(-1, 1, 1)

    def _adapter(self, seen: Weighing) -> Tensor:
        """The weighted output of the adapter, `(B, N, D)`."""
        part = seen.part
        bias = part.get("up_bias", seen.x.new_zeros(seen.x.shape[-1]))
        adapted = self.adapted(seen.x, part["down"], part["up"], bias)
        weight = ADAPTER_WEIGHTS[self.config.adapter_weight](seen).transpose(1, 2).unsqueeze(-1)
        return (adapted.view(*adapted.shape[:2], weight.shape[2], -1) * weight).flatten(2)

    def cutoff(self, block: int, scores: Tensor) -> Tensor | None:
        """None where nothing is filtered; a fixed cut-off knows no likelihood and holds for all samples."""
        if self.sample_weight is None or self.config.activation != "conditional":
            return None
        if self.config.fixed_cutoff is not None:
            return scores.new_full((1, 1, 1, 1), self.config.fixed_cutoff)
        return super().cutoff(block, scores)


class VariantParts:
    """Towers and adaptations with the parts that the settings name."""

    def __init__(self, config: DPWConfig) -> None:
        """Take the settings."""
        self.config = config

    def new_tower(self, tower: DPWTower, layers: Sequence[Any], key: str) -> DPWTower:
        """A tower that starts from the paper's, less what is not used and with what is learned instead.

        `key` tells random draws apart.
        """
        parameters = {name: tensor.detach() for name, tensor in tower.named_parameters()}
        blocks, prefixes, width = parameters["values"].shape
        heads, config = tower.heads, self.config
        generator = seeded(config.seed, "variant", key)
        if config.scores in ATTENTION:
            heads = layers[0].self_attn.num_heads
            del parameters["weight"], parameters["bias"]
            parameters["keys"] = 2 * torch.rand(blocks, prefixes, width, generator=generator) - 1  # as DIKI's
        if config.scores == "trained-attention":
            parameters |= _own_projections(layers)
        if config.adapter_weight == "none":
            del parameters["up"], parameters["up_bias"]
        elif config.adapter_down == "own":
            # LoRA as it is known: no bias, a random way down, and a way up that starts at zero.
            del parameters["up_bias"]
            rank = parameters["up"].shape[1]
            parameters["up"] = torch.zeros_like(parameters["up"])
            down = 2 * torch.rand(blocks, width, rank, generator=generator) - 1
            parameters["down"] = down / math.sqrt(width)
        if config.adapter_weight == "router":
            parameters["router_weight"] = torch.zeros(blocks, width, heads)
            parameters["router_bias"] = torch.zeros(blocks, heads)
        return VariantTower(parameters, heads, has_cls=tower.has_cls)

    def stored_tower(self, tensors: Mapping[str, Tensor], layers: Sequence[Any], has_cls: bool) -> DPWTower:
        """A tower with room for stored tensors; the statistics are filled in by the caller."""
        parameters = {name: tensor for name, tensor in tensors.items() if not name.startswith("cls_")}
        heads = parameters["weight"].shape[1] if "weight" in parameters else layers[0].self_attn.num_heads
        return VariantTower(parameters, heads, has_cls=has_cls)

    def adaptation(
        self,
        tower: DPWTower,
        down: Tensor,
        weight: Tensor | None,
        filtered: Tensor | None,
        scores: RunningScores | None,
        layers: Sequence[Any],
    ) -> DPWAdaptation:
        """The tower acting for one call."""
        return VariantAdaptation(tower, down, self.config, weight, filtered, scores, layers)
