"""Whole models as one graph each: pixels of any tasks in, answers out.

`graph_of` chooses by how a method answers. Inputs are uint8 `pixels` `(B, 3, H, W)` and `among` `(1,)`: all
learned classes (−1), or those of one task. Outputs are named in `names`.
"""

from typing import Any

import torch
from torch import Tensor, nn

from dpw.errors import InputError
from dpw.methods.base import Method
from dpw.methods.diki import DIKI
from dpw.methods.dpw.method import DPW
from dpw.methods.dpw_ridge import DPWRidge
from dpw.methods.graphs.frozen import (
    IMPOSSIBLE,
    LOGITS,
    ROUTED,
    TYPICALITY,
    HeadsGraph,
    LadaGraph,
    PlainGraph,
    RailGraph,
)
from dpw.methods.graphs.heads import HeadGraph
from dpw.methods.graphs.routing import BelongingGraph, GaussianGraph, Routed, TypicalityGraph
from dpw.methods.graphs.texts import ALL, Questions, TextGrid, known_classes
from dpw.methods.graphs.towers import (
    DIKIBlock,
    DPWBlock,
    FrozenPass,
    ImageTower,
    MixedAdaptation,
    Taken,
    rows_of,
)
from dpw.methods.lada import Lada
from dpw.methods.linear_probe import LinearProbe
from dpw.methods.parts.heads import CLIP_TEMPERATURE, HEAD, NEGLIGIBLE
from dpw.methods.parts.plain import PlainAnswers
from dpw.methods.parts.weighted import WeightedAnswers
from dpw.methods.rail import Rail
from dpw.methods.routing.gaussian import GaussianRouter
from dpw.methods.routing.ranking import ranked_logits
from dpw.methods.tip_adapter import TipAdapter


class RoutedGraph(nn.Module):
    """What methods with a Gaussian router share: the frozen pass, the route and the mixed second pass."""

    def __init__(self, method: Method, answers: WeightedAnswers) -> None:
        """Take the router and the parameters of all tasks."""
        super().__init__()
        refuse_undecided(answers)
        self.tower, self.questions = ImageTower(method.backbone), Questions(method)
        router = answers.router
        if not isinstance(router, GaussianRouter):
            raise InputError("a model with router=text-prototypes cannot be exported: it has no Gaussians")
        self.router = GaussianGraph(router)
        self.patches = answers.config.router_features != "image"
        own = all("own" in task.tensors for task in router.gaussians())
        self.typicality = TypicalityGraph(router) if own else None
        self.names = LOGITS + ROUTED + (TYPICALITY if own else ())
        self.blocks = nn.ModuleList(_blocks(method))
        self.scale = float(method.backbone.logit_scale)

    def routed(self, seen: FrozenPass) -> Routed:
        """Which task each image is taken for."""
        features = seen.feature
        if seen.patches is not None:
            features = torch.cat([features, seen.patches], dim=-1)
        found: Routed = self.router(features)
        return found

    def adapted(self, embedded: Tensor, taken: Taken) -> Tensor:
        """Normalised features of a mixed batch, every image with its own task."""
        return self.tower.features(embedded, MixedAdaptation(list(self.blocks), taken))

    def outputs(self, among: Tensor, logits: Tensor, route: Routed) -> tuple[Tensor, ...]:
        """What `names` names, in its order."""
        found = [self.questions(among, logits.float()), route.task, route.confidence.float()]
        if self.typicality is not None:
            found.append(self.typicality(route.likelihood).float())
        return tuple(found)


class WeightedGraph(RoutedGraph):
    """The task's parameters in both towers, weighted by how surely an image belongs to it (DPW, DIKI)."""

    def __init__(self, method: Method, answers: WeightedAnswers, by_task: bool) -> None:
        """Without `by_task` only all learned classes can be asked, and fewer texts are kept."""
        super().__init__(method, answers)
        self.texts = TextGrid(method, answers, answers.router.gates(), by_every_task=by_task)

    def forward(self, pixels: Tensor, among: Tensor) -> tuple[Tensor, ...]:
        """As `WeightedAnswers.logits`, both for all learned classes and for one task's."""
        seen = self.tower.frozen(pixels, self.patches)
        route, gates, owner = self.routed(seen), self.router.gates, self.questions.owner
        unsure = route.weight < gates[route.task]
        features = self.adapted(seen.embedded, Taken(route.task, route.weight.float(), unsure))
        everything = among == ALL
        task = torch.where(everything, owner[None], route.task[:, None])
        weight = torch.where(everything, route.confidence[:, owner], route.weight[:, None])
        cosines = self.texts.cosines(features, task, weight, weight < gates[task])
        scale = torch.tensor(self.scale)
        over_tasks = ranked_logits(cosines, route.log_confidence[:, owner], scale)
        return self.outputs(among, torch.where(everything, over_tasks, scale * cosines), route)


class RidgeGraph(RoutedGraph):
    """DPW inside, a closed-form head per task outside, mixed with plain CLIP (`HeadAnswers.logits`)."""

    texts: Tensor
    known: Tensor

    def __init__(self, method: DPWRidge) -> None:
        """Take the heads, and who knows which class."""
        super().__init__(method, method.answers)
        heads = [method.bank.part(index, HEAD).tensors for index in range(len(method.tasks))]
        self.views = method.config.views
        self.belonging = BelongingGraph(method.heads.router)
        self.heads = HeadGraph(heads, self.scale)
        texts = torch.cat([method.heads.plain.text_features(task.group()) for task in method.tasks])
        self.register_buffer("texts", (method.backbone.logit_scale * texts).detach().cpu())
        self.register_buffer("known", known_classes(method))

    def forward(self, pixels: Tensor, among: Tensor) -> tuple[Tensor, ...]:
        """The heads of the tasks that know a class, for the images that may be theirs."""
        seen = self.tower.frozen(pixels, self.patches)
        route, known = self.routed(seen), self.known[among + 1][0]  # (T, C)
        plain = self.questions(among, seen.feature @ self.texts.T)
        calm = (CLIP_TEMPERATURE * plain.double()).softmax(dim=1)
        weight = self.belonging(route.likelihood, (known >= 0).any(dim=1)[None])
        counts = weight > NEGLIGIBLE
        image, task = (counts | _best_of_first(weight)).nonzero().unbind(dim=1)
        share = torch.where(counts, weight, 0.0).flatten().index_select(0, image * weight.shape[1] + task)
        spoken = self._spoken(seen, known, image, task) * share[:, None]
        # The sum over the tasks of an image, as a product because a graph has no sum by index in float64.
        mine = (torch.arange(pixels.shape[0], device=pixels.device)[:, None] == image[None]).double()
        mixed = (1 - weight.sum(dim=1, keepdim=True)).clamp(min=0) * calm + mine @ spoken
        logits = mixed.clamp(min=torch.finfo(torch.float64).tiny).log()
        return self.outputs(among, logits, route)

    def _spoken(self, seen: FrozenPass, known: Tensor, image: Tensor, task: Tensor) -> Tensor:
        """What tasks say about the classes they know, `(P, C)`, for P pairs of an image and a task."""
        adapted, frozen = (
            self.adapted(rows_of(seen.embedded, image), Taken(task)),
            rows_of(seen.feature, image),
        )
        views = {
            "frozen": frozen,
            "adapted": adapted,
            "patches": rows_of(seen.middle, image),
            "spread": rows_of(seen.spread, image),
        }
        beside = torch.cat([views[view] for view in self.views], dim=1)
        own = self.heads(task, beside, frozen, adapted)  # (P, longest)
        number = rows_of(known, task)
        logits = own.gather(1, number.clamp(min=0))
        # Not −∞: a task that knows nothing of what is asked has no share, but must not give NaN.
        return torch.where(number >= 0, logits, IMPOSSIBLE).softmax(dim=1)


class OfAllClasses(nn.Module):
    """A graph that is only ever asked about all learned classes."""

    def __init__(self, graph: Any) -> None:
        """Take a graph with both inputs."""
        super().__init__()
        self.whole, self.names = graph, graph.names

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Ask about all."""
        found: tuple[Tensor, ...] = self.whole(pixels, torch.full((1,), ALL, device=pixels.device))
        return found


def graph_of(method: Method, by_task: bool = True) -> nn.Module:
    """The graph of a method that has learned something.

    Without `by_task` it has the input `pixels` alone. Raises InputError if the method cannot be exported.
    """
    answers: Any = method.answers
    own_logits = type(method).logits is not Method.logits
    graph: nn.Module
    if isinstance(method, DPWRidge):
        graph = RidgeGraph(method)
    elif isinstance(answers, WeightedAnswers) and isinstance(method, DPW | DIKI) and not own_logits:
        graph = WeightedGraph(method, answers, by_task)
    elif type(answers) is PlainAnswers and not own_logits:
        graph = PlainGraph(method, answers)
    elif isinstance(method, LinearProbe | TipAdapter):
        graph = HeadsGraph(method, answers)
    elif isinstance(method, Rail):
        graph = RailGraph(method, answers)
    elif isinstance(method, Lada):
        graph = LadaGraph(method, answers)
    else:
        raise InputError(
            f"a model of method {method.name!r} cannot be exported: dpw-ridge, dpw, dpw-reduced, diki, "
            "linear-probe, tip-adapter, rail, lada, zero-shot and the fine-tuning methods can"
        )
    return (graph if by_task else OfAllClasses(graph)).eval().requires_grad_(requires_grad=False)


def _best_of_first(weight: Tensor) -> Tensor:
    """True for the first image's best task alone: runtimes do not care for a second pass of no images."""
    images = torch.arange(weight.shape[0], device=weight.device)
    return (images == 0)[:, None] & (weight == weight.amax(dim=1, keepdim=True))


def refuse_undecided(answers: WeightedAnswers) -> None:
    """Refuse settings under which the answer for an image is no function of that image and a few tables."""
    config = answers.config
    if config.text_weight != "grid":
        raise InputError(
            "this model encodes texts anew for every image (text_weight='exact'), which a graph cannot: "
            "teach one with --set text_weight=grid to export it"
        )
    if config.decision == "batch-vote":
        raise InputError(
            "this model lets the images of a batch vote (decision='batch-vote'), which a graph cannot: "
            "teach one with --set decision=per-image to export it"
        )
    if getattr(config, "varied", False):
        raise InputError(
            "this model has parts of an ablation in place of DPW's own, which cannot be exported: teach one "
            "without such a preset"
        )


def _blocks(method: Method) -> list[nn.Module]:
    """What the tasks of a method add to each block of the image tower."""
    towers = [method.bank.part(index, "image") for index in range(len(method.tasks))]
    if isinstance(method, DPW):
        assert method.down_image is not None
        downs = enumerate(method.down_image.detach())
        has_cls = method.backbone.family.images.class_tokens > 0
        return [DPWBlock(towers, block, down, method.config, has_cls) for block, down in downs]
    heads = method.backbone.image_shape.heads
    prefixes = [zip(tower.keys.detach(), tower.values.detach(), strict=True) for tower in towers]
    return [
        DIKIBlock([keys for keys, _ in block], [values for _, values in block], heads)
        for block in zip(*prefixes, strict=True)
    ]
