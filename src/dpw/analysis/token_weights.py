"""How much tokens take of prefixes and adapter by block and task, and how the two outputs differ."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.analysis.subject import Subject
from dpw.analysis.tracing import BlockRecord, trace
from dpw.errors import InputError


@dataclass(frozen=True)
class WeightDistribution:
    """Mean weight of prefixes and adapter over tokens and heads, tasks × blocks."""

    tasks: list[str]
    learned: list[bool]
    prefix: list[list[float]]
    adapter: list[list[float]]

    @property
    def total(self) -> list[list[float]]:
        """Prefixes and adapter together."""
        return [
            [a + b for a, b in zip(*rows, strict=True)]
            for rows in zip(self.prefix, self.adapter, strict=True)
        ]

    @property
    def prefix_share(self) -> list[list[float]]:
        """The prefixes' part of the total, 0 where nothing is taken."""
        return [
            [part / whole if whole > 0 else 0.0 for part, whole in zip(*rows, strict=True)]
            for rows in zip(self.prefix, self.total, strict=True)
        ]


@dataclass(frozen=True)
class OutputCosines:
    """Mean cosine between prefix output and adapter output of the same token, tasks × blocks."""

    tasks: list[str]
    weighted: list[list[float]]  # where the residual weighting uses the adapter at all
    uniform: list[list[float]]  # over all tokens alike
    learned_uniformly: bool = False  # whether the latter are of a model that was learned so


def weight_distribution(subject: Subject, learned: int | None = None) -> WeightDistribution:
    """Weights on the images of every task when only the first `learned` tasks (about half) were learned."""
    count = len(subject.method.tasks)
    learned = max(1, (count + 1) // 2) if learned is None else learned
    early = subject.after(learned)
    blocks = subject.method.backbone.image_shape.blocks
    prefix, adapter = [], []
    for task in subject.tasks:
        sums = torch.zeros(2, blocks, dtype=torch.float64)

        def visit(record: BlockRecord, sums: Tensor = sums) -> None:
            """Add the mean weight of every image."""
            sums[0, record.block] += record.prefix_weight.double().mean(dim=(1, 2)).sum().cpu()
            sums[1, record.block] += record.adapter_weight.double().mean(dim=(1, 2)).sum().cpu()

        pixels = subject.pixels(task)
        trace(early.method, pixels, visit)
        means = (sums / len(pixels)).tolist()
        prefix.append(means[0])
        adapter.append(means[1])
    names = [task.name for task in subject.tasks]
    return WeightDistribution(names, [name in early.method.task_names for name in names], prefix, adapter)


def output_cosines(subject: Subject, uniform: Subject | None = None) -> OutputCosines:
    """Whether the adapter adds what the prefixes cannot: near 0 means that it does.

    `uniform` is the same method learned with a uniform weight of the adapter, as the paper compares it;
    without one, `subject` itself is looked at with all tokens alike.
    """
    names = list(subject.method.task_names)
    if uniform is not None and uniform.method.task_names != names:
        raise InputError("the run with a uniform adapter weight has learned other tasks: run both alike")
    own = [_mean_cosines(subject, name) for name in names]
    other = own if uniform is None else [_mean_cosines(uniform, name) for name in names]
    weighted, alike = [means[0] for means in own], [means[1] for means in other]
    return OutputCosines(names, weighted, alike, learned_uniformly=uniform is not None)


def _mean_cosines(subject: Subject, name: str) -> list[list[float]]:
    """The mean cosine by block over the images of a learned task, of tokens weighted and alike."""
    blocks = subject.method.backbone.image_shape.blocks
    sums, counts = torch.zeros(2, 2, blocks, dtype=torch.float64).unbind(0)

    def visit(record: BlockRecord) -> None:
        """Add the cosines of all tokens of one block."""
        cosine = F.cosine_similarity(record.prefix_output, record.adapter_output, dim=-1).double().cpu()
        weight = record.adapter_weight.double().mean(dim=1).cpu()
        for kind, each in enumerate((weight, torch.ones_like(weight))):
            sums[kind, record.block] += (cosine * each).sum()
            counts[kind, record.block] += each.sum()

    index = subject.method.task_names.index(name)
    trace(subject.method, subject.pixels(subject.task(name)), visit, task=index)
    found: list[list[float]] = torch.where(counts > 0, sums / counts.clamp(min=1e-12), 0.0).tolist()
    return found
