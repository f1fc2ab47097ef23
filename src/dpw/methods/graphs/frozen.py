"""Graphs of methods that leave CLIP as it is and answer from its image feature alone."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpw.methods.base import Method
from dpw.methods.graphs.routing import BelongingGraph, GaussianGraph, TypicalityGraph
from dpw.methods.graphs.texts import Questions, known_classes
from dpw.methods.graphs.towers import ImageTower
from dpw.methods.lada import Lada, memory_logits
from dpw.methods.linear_probe import LinearProbe
from dpw.methods.parts.heads import CLIP_TEMPERATURE, NEGLIGIBLE, HeadAnswers
from dpw.methods.parts.plain import PlainAnswers
from dpw.methods.rail import Rail, RailAnswers, as_logits, fused
from dpw.methods.tip_adapter import TipAdapter, cache_logits

LOGITS = ("logits",)
ROUTED = ("task", "confidence")
TYPICALITY = ("typicality",)
IMPOSSIBLE = -1e30  # as a logit


class PlainGraph(nn.Module):
    """One CLIP whatever the task: zero-shot and fine-tuned ones."""

    names: tuple[str, ...] = LOGITS
    texts: Tensor

    def __init__(self, method: Method, answers: PlainAnswers) -> None:
        """Encode the class texts once."""
        super().__init__()
        model = answers.model()
        self.tower, self.questions = ImageTower(model), Questions(method)
        texts = torch.cat([answers.text_features(task.group()) for task in method.tasks])
        self.register_buffer("texts", (model.logit_scale * texts).detach().cpu())

    def features(self, pixels: Tensor) -> Tensor:
        """Normalised image features `(B, E)`."""
        return self.tower.features(self.tower.embed(pixels))

    def plain(self, among: Tensor, features: Tensor) -> Tensor:
        """CLIP's own logits among what is asked."""
        logits: Tensor = self.questions(among, features @ self.texts.T)
        return logits

    def forward(self, pixels: Tensor, among: Tensor) -> tuple[Tensor, ...]:
        """Logits."""
        return (self.plain(among, self.features(pixels)),)


class FrozenHeads(nn.Module):
    """The heads of T tasks over plain CLIP's feature; class lists are filled up to one length."""

    def __init__(self, heads: list[nn.Module]) -> None:
        """`heads[t](features)` are logits over the classes of task t."""
        super().__init__()
        self.heads = nn.ModuleList(heads)

    def forward(self, features: Tensor) -> Tensor:
        """Logits `(B, T, longest)` in float64."""
        spoken = [head(features.double()) for head in self.heads]
        longest = max(one.shape[1] for one in spoken)
        return torch.stack([F.pad(one, (0, longest - one.shape[1])) for one in spoken], dim=1)


class ProbeHead(nn.Module):
    """A logistic regression of `linear-probe`."""

    weight: Tensor
    bias: Tensor

    def __init__(self, probe: Any) -> None:
        """Take its numbers."""
        super().__init__()
        self.register_buffer("weight", probe.weight.detach().cpu())
        self.register_buffer("bias", probe.bias.detach().cpu())

    def forward(self, features: Tensor) -> Tensor:
        """As `probe_logits`."""
        return features @ self.weight.double().T + self.bias.double()


class CacheHead(nn.Module):
    """A cache of `tip-adapter`."""

    keys: Tensor
    values: Tensor
    texts: Tensor

    def __init__(self, cache: Any, scale: Tensor) -> None:
        """Take its numbers; CLIP's scale is part of the texts."""
        super().__init__()
        self.share, self.sharpness = cache.kept["shares"].tolist()
        self.register_buffer("keys", cache.keys.detach().cpu())
        self.register_buffer("values", cache.values().float())
        self.register_buffer("texts", scale.detach().cpu().double() * cache.kept["texts"].cpu().double())

    def forward(self, features: Tensor) -> Tensor:
        """As `Cache.logits`."""
        near = cache_logits(features, self.keys.double(), self.values.double(), self.share, self.sharpness)
        return features @ self.texts.T + near


class HeadsGraph(PlainGraph):
    """A head per task on plain CLIP's feature, mixed with plain CLIP (`HeadAnswers.logits`)."""

    names = LOGITS + ROUTED + TYPICALITY
    known: Tensor

    def __init__(self, method: LinearProbe | TipAdapter, answers: HeadAnswers) -> None:
        """Take the heads and the Gaussians, and who knows which class."""
        super().__init__(method, answers.plain)
        bank: Any = method.bank
        if isinstance(method, LinearProbe):
            self.heads = FrozenHeads([ProbeHead(module["head"]) for module in bank])
        else:
            scale = method.backbone.logit_scale
            self.heads = FrozenHeads([CacheHead(module["head"], scale) for module in bank])
        self.router, self.belonging = GaussianGraph(answers.router), BelongingGraph(answers.router)
        self.typicality = TypicalityGraph(answers.router)
        self.register_buffer("known", known_classes(method))

    def forward(self, pixels: Tensor, among: Tensor) -> tuple[Tensor, ...]:
        """The heads of the tasks that know a class, each as far as an image belongs to it."""
        features = self.features(pixels)
        route, known = self.router(features), self.known[among + 1][0]  # (T, C)
        calm = (CLIP_TEMPERATURE * self.plain(among, features).double()).softmax(dim=1)
        weight = self.belonging(route.likelihood, (known >= 0).any(dim=1)[None])
        number = known[None].expand(features.shape[0], -1, -1)
        own = self.heads(features).gather(2, number.clamp(min=0))
        spoken = torch.where(number >= 0, own, IMPOSSIBLE).softmax(dim=2)
        share = torch.where(weight > NEGLIGIBLE, weight, 0.0)
        mixed = (1 - weight.sum(dim=1, keepdim=True)).clamp(min=0) * calm
        mixed = mixed + (share[:, :, None] * spoken).sum(dim=1)
        logits = mixed.clamp(min=torch.finfo(torch.float64).tiny).log().float()
        typical = self.typicality(route.likelihood).float()
        return self.questions(among, logits), route.task, route.confidence.float(), typical


class RailGraph(PlainGraph):
    """RAIL's regression of all tasks, fused with plain CLIP; what is asked here is always learned."""

    columns: Tensor
    knows: Tensor

    def __init__(self, method: Rail, answers: RailAnswers) -> None:
        """Take the solved regression, its classes in the order of learning."""
        super().__init__(method, answers.plain)
        # A copy, because the method's own stays in main memory when the graph moves to a device.
        self.regression, self.share = copy.deepcopy(answers.regression()), method.config.fusion
        known, starts, total = known_classes(method), {}, 0
        for task, _ in method.by_name():
            starts[task.name] = total
            total += len(task.classes)
        first = torch.tensor([starts[task.name] for task in method.tasks])
        self.register_buffer("columns", known.clamp(min=0) + first[None, :, None])  # of the regression
        self.register_buffer("knows", known >= 0)  # (1 + T, T, C)

    def forward(self, pixels: Tensor, among: Tensor) -> tuple[Tensor, ...]:
        """As `RailAnswers.logits`."""
        features = self.features(pixels)
        columns, knows = self.columns[among + 1][0], self.knows[among + 1][0]  # (T, C)
        values = self.regression(features.double())
        spoken = values.index_select(1, columns.flatten()).view(-1, *columns.shape)
        regression = torch.where(knows, spoken, 0.0).sum(dim=1)
        plain = self.plain(among, features).double().softmax(dim=1)
        scores = fused(plain, regression, knows.any(dim=0), self.share)
        return (self.questions(among, as_logits(scores).float()),)


class LadaGraph(PlainGraph):
    """Tuned texts and class memories; what is asked here is always learned, so nothing is left out."""

    tuned: Tensor
    vectors: Tensor
    owners: Tensor
    columns: Tensor

    def __init__(self, method: Lada, answers: PlainAnswers) -> None:
        """Take texts and memories of all classes, in the order of learning."""
        super().__init__(method, answers)
        bank: Any = method.bank
        counts = torch.tensor([len(task.classes) for task in method.tasks])
        first, self.classes, self.config = counts.cumsum(0) - counts, int(counts.sum()), method.config
        known = known_classes(method)
        knower = torch.arange(len(counts))[None, :, None].where(known >= 0, -1).amax(dim=1)  # the last speaks
        number = known.gather(1, knower.clamp(min=0)[:, None])[:, 0]
        texts = torch.cat([module.kept["texts"].cpu() for module in bank])
        for name, tensor in {
            "tuned": method.backbone.logit_scale.detach().cpu() * texts,
            "vectors": torch.cat([module.vectors.detach().cpu() for module in bank]),
            "owners": torch.cat(
                [one.kept["owners"] + f for one, f in zip(bank, first.tolist(), strict=True)]
            ),
            "columns": (first[knower.clamp(min=0)] + number).clamp(min=0),  # (1 + T, C)
        }.items():
            self.register_buffer(name, tensor)

    def forward(self, pixels: Tensor, among: Tensor) -> tuple[Tensor, ...]:
        """As `Lada.logits`."""
        features, config = self.features(pixels), self.config
        memory = memory_logits(features, self.vectors, self.owners, self.classes, config.memory_sharpness)
        logits = features @ self.tuned.T + config.memory_share * memory
        return (self.questions(among, logits.index_select(1, self.columns[among + 1][0])),)
