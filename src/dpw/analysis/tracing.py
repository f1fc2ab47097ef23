"""Watch one forward pass: what every token takes from prefixes and adapter, block by block."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dpw import functional as paper
from dpw.clip.adaptation import Adaptation
from dpw.clip.sequences import Positions
from dpw.data.images import Images
from dpw.errors import InputError
from dpw.methods.dpw.method import DPW
from dpw.methods.dpw.tower import DPWAdaptation
from dpw.methods.dpw.variants import VariantAdaptation
from dpw.methods.routing.route import rows_by_task


class BlockRecord(NamedTuple):
    """What happened in one block for some images; B images, N tokens (CLS first), h' heads, L prefixes."""

    block: int
    task: int  # whose parameters acted
    rows: Tensor  # (B,) which of the given images these are
    x: Tensor  # (B, N, D) tokens before the query projection
    q: Tensor  # (B, h, N, D/h) tokens after it
    scores: Tensor  # (B, h', N, L) RePA scores
    prefix_weight: Tensor  # (B, h', N) total weight of the prefixes after filtering
    adapter_weight: Tensor  # (B, h', N) weight of the adapter, Δ, or 1 where it was learned so
    prefix_output: Tensor  # (B, N, D)
    adapter_output: Tensor  # (B, N, D) the adapter's output E(X) before weighting


Visit = Callable[[BlockRecord], None]


class TracedAdaptation(Adaptation):
    """Acts exactly as the adaptation it wraps, and tells a visitor what went into every block."""

    def __init__(self, inner: DPWAdaptation, task: int, rows: Tensor, visit: Visit) -> None:
        """Wrap an adaptation for one call."""
        self.inner, self.task, self.rows, self.visit = inner, task, rows, visit

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> Tensor:
        """The residual of the wrapped adaptation, after its parts were shown."""
        self.visit(self.record(block, x, q, positions))
        return self.inner.value(block, x, q, positions)

    def record(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> BlockRecord:
        """All parts of the residual by the paper's equations."""
        inner = self.inner
        weight, bias, values, down, up, up_bias = _parameters(inner, block)
        scores = paper.repa_scores(x, weight, bias[:, positions])
        g, total = paper.conditional_norm(scores)
        cutoff = inner.cutoff(block, scores)
        if cutoff is not None:
            g = paper.conditional_filter(g, cutoff, inner.config.strict_filter)
        uniform = inner.config.adapter_weight == "uniform"
        delta = torch.ones_like(total) if uniform else paper.residual_weight(total)
        if inner.sample_weight is not None:
            g = g * inner.sample_weight.view(-1, 1, 1, 1)
            delta = delta * inner.sample_weight.view(-1, 1, 1)
        return BlockRecord(
            block=block,
            task=self.task,
            rows=self.rows,
            x=x,
            q=q,
            scores=scores,
            prefix_weight=g.sum(dim=-1),
            adapter_weight=delta,
            prefix_output=paper.prefix_output(g, values),
            adapter_output=paper.adapter_output(x, down, up, up_bias, inner.config.adapter_scale),
        )


def _parameters(inner: DPWAdaptation, block: int) -> tuple[Tensor, ...]:
    """What acts in one block, in the order of the paper's module."""
    if isinstance(inner, VariantAdaptation):
        names = ("weight", "bias", "values", "down", "up", "up_bias")
        return tuple(inner.parts[block][name] for name in names)
    return inner.blocks[block]


def trace(method: DPW, pixels: Tensor, visit: Visit, task: int | None = None, batch: int = 32) -> None:
    """Run images as a prediction would, or at full weight and unfiltered with a given task's parameters."""
    if method.config.model_copy(update={"adapter_weight": "residual"}).varied or (
        method.config.adapter_weight not in ("residual", "uniform")
    ):
        raise InputError(
            "this model was learned with an ablation of dpw, whose token weights cannot be shown: use a run "
            "with the paper's own scores, activation and adapter"
        )
    method.eval()
    with torch.inference_mode():
        for start in range(0, len(pixels), batch):
            chunk = pixels[start : start + batch]
            if task is None:
                _trace_routed(method, chunk, start, visit)
                continue
            rows = torch.arange(start, start + len(chunk))
            inner = method.image_adaptation(task, None, None)
            method.backbone.image_tokens(chunk, TracedAdaptation(inner, task, rows, visit))


def _trace_routed(method: DPW, pixels: Tensor, start: int, visit: Visit) -> None:
    """Each image with the task it is identified as, weighted and filtered as it would be."""
    route = method.route(Images.of(pixels))
    if route is None:
        raise InputError("the model has not learned any task, so there is nothing to show")
    dtype, device = method.backbone.logit_scale.dtype, method.backbone.device
    for index, rows in rows_by_task(route.task):
        weight = route.weight[rows].to(device, dtype)
        filtered = method.answers.filtered(route)[rows].to(device)
        inner = method.image_adaptation(index, weight, filtered)
        traced = TracedAdaptation(inner, index, rows + start, visit)
        method.backbone.image_tokens(pixels[rows.to(pixels.device)], traced)
