"""Answering with a head per task outside of CLIP; who may speak follows from the class list and the image.

Only tasks that know a candidate's name may speak, and only about the candidates they know. Between several,
a Gaussian over frozen features decides how much each counts. An image that belongs to none, and every
question without a learned name, is plain CLIP's. Between candidates that somebody learned and those that
nobody did, plain CLIP and the Gaussians decide together: a head never takes from the unlearned.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.methods.bank import HostTensors
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates
from dpw.methods.parts.plain import PlainAnswers, StoredTexts
from dpw.methods.routing.estimation import projection_target
from dpw.methods.routing.gaussian import GaussianRouter, fitted_gaussian, quantile, stored_gaussian
from dpw.methods.routing.route import Route
from dpw.methods.tensors import strip_prefix

ROUTER, HEAD = "router", "head"  # under which names a task's module holds its Gaussian and its head
FLOOR = 1e-7  # on the diagonal of a Gaussian's covariance, as in the paper
GATE = 0.825  # the paper's, for what a route says of an image
SHARPNESS = 4.0  # of the choice between tasks: softmax(4 · ℓ / feature width)
LOWEST, STEEPNESS = -4.0, 2.0  # belonging is σ(2(z + 4)), z the likelihood in the terms of held-out images
UNKNOWN_AT = -1.0  # z at which an image is as likely of a learned task as of an unknown one
MOST_AGAINST, MOST_FOR = -8.0, 3.0  # log-odds that an image's likelihood may add to plain CLIP's
CLIP_TEMPERATURE = 0.35  # zero-shot probabilities are overconfident; times CLIP's own logit scale
NEGLIGIBLE = 1e-6  # a task with a smaller weight is not asked, which saves its pass through the tower
NORMAL_QUARTILES = 1.349  # how many deviations of a normal distribution lie between its quartiles
ENOUGH = 10  # own images without which nothing is known of their spread
UNSURE = (
    7.0  # the spread of n images counts (1 + 7/n) times: so far out lies Student's t where normal is at −4
)

HeadLogits = Callable[[int, Images], Tensor]  # task and images to logits (B, C of the task), float64, host
RouterFeatures = Callable[[Images], Tensor]  # what the Gaussians look at (B, E)


class HeadAnswers:
    """Mixes what the heads of tasks say with plain CLIP.

    Among candidates that any task knows: (1 − Σ r_t) p_clip + Σ r_t p_t with r_t = π_t · w_t, where π_t is
    the share of a task among those that may speak and w_t how far the image belongs to it; among all others
    p_clip. The odds of the former against the latter are plain CLIP's, moved by how typical the image is of
    the learned task it is most typical of (`known_evidence`). Each module of the method's bank holds its
    Gaussian under `router`, with the likelihoods of its own left-out images.
    """

    def __init__(
        self,
        method: Method,
        head_logits: HeadLogits,
        router_features: RouterFeatures | None = None,
        stored_texts: StoredTexts | None = None,
    ) -> None:
        """`head_logits(index, images)` is what a task says about its own classes.

        The Gaussians look at plain CLIP's features, or at `router_features(images)`. `stored_texts(group)`
        are plain CLIP's features of classes where a task has stored them.
        """
        self.method, self.head_logits = method, head_logits
        self.router_features = router_features or method.frozen_features
        self.plain = PlainAnswers(method, stored_texts=stored_texts)
        self.router = GaussianRouter(self._gaussians, GATE, fitted=True)

    def _gaussians(self) -> Sequence[HostTensors]:
        """The Gaussians of all tasks."""
        bank = self.method.bank
        return [bank.part(index, ROUTER) for index in range(len(bank))]

    def task_logits(self, pixels: Tensor) -> Tensor:
        """The newest head alone, over its own classes."""
        logits = self.head_logits(len(self.method.tasks) - 1, Images.of(pixels))
        return logits.to(self.method.backbone.logit_scale)

    def measured(self, images: Images) -> Tensor:
        """The log-likelihood of every image under every task `(B, T)`, once for every batch."""
        return images.once("measured", lambda batch: self.router.measure(self.router_features(batch)))

    def route(self, images: Images) -> Route | None:
        """Identify the task of every image from its frozen features."""
        return self.router.decide(self.measured(images)) if self.method.tasks else None

    def typicality(self, images: Images) -> Tensor | None:
        """How typical every image is of every task `(B, T)`."""
        return self.router.typicality(self.measured(images)) if self.method.tasks else None

    def logits(self, images: Images, candidates: Candidates) -> Tensor:
        """Log-probabilities of the mixture, or plain CLIP's logits where no task knows a candidate."""
        plain = self.plain.logits(images, candidates)
        known = [candidates.known_to(task.name, task.classes) for task in self.method.tasks]
        # By name, not by position: in any order of learning the sums below are the same to the last bit.
        speakers = sorted(
            (index for index, columns in enumerate(known) if columns),
            key=lambda index: self.method.tasks[index].name,
        )
        if not speakers:
            return plain
        calm, mixed = CLIP_TEMPERATURE * plain.cpu().double(), torch.zeros(plain.shape, dtype=torch.float64)
        learned = torch.zeros(plain.shape[1], dtype=torch.bool)
        learned[[column for index in speakers for column in known[index]]] = True
        weight, evidence = self._weights(images, speakers)
        left = (1 - weight.sum(dim=1, keepdim=True)).clamp(min=0)
        mixed[:, learned] = left * calm[:, learned].softmax(dim=1)
        for speaker, index in enumerate(speakers):
            rows = (weight[:, speaker] > NEGLIGIBLE).nonzero().flatten()
            if len(rows):
                columns, own = list(known[index].keys()), list(known[index].values())
                spoken = self.head_logits(index, images.take(rows.tolist()))[:, own].softmax(dim=1)
                mixed[rows[:, None], torch.tensor(columns)] += weight[rows, speaker][:, None] * spoken
        if not bool(learned.all()):
            odds = calm[:, learned].logsumexp(dim=1) - calm[:, ~learned].logsumexp(dim=1) + evidence
            inside = torch.sigmoid(odds)[:, None]
            mixed = inside * mixed
            mixed[:, ~learned] = (1 - inside) * calm[:, ~learned].softmax(dim=1)
        return mixed.clamp(min=torch.finfo(torch.float64).tiny).log().to(plain)

    def _weights(self, images: Images, speakers: list[int]) -> tuple[Tensor, Tensor]:
        """π_t · w_t of the tasks that may speak `(B, S)`, and how far an image is of any of them `(B,)`."""
        tasks = self._gaussians()
        likelihood = self.measured(images)[:, speakers]
        share = (SHARPNESS * likelihood / len(tasks[0]["mean"])).softmax(dim=1)
        median, spread = zip(*(own_likelihood(tasks[index]) for index in speakers), strict=True)
        z = (likelihood - torch.stack(median)) / torch.stack(spread)
        evidence = torch.where(torch.stack(spread).isfinite(), known_evidence(z), 0.0)
        return share * torch.sigmoid(STEEPNESS * (z - LOWEST)), evidence.amax(dim=1)

    def clear(self) -> None:
        """Drop kept text features."""
        self.plain.clear()


def known_evidence(z: Tensor) -> Tensor:
    """What an image's likelihood z says for a learned task against an unknown one, in log-odds.

    z counts from the median of the task's own left-out images in units of their spread. On `mini` those of
    the task lie between −2.5 and 1.3 (90 %), those of the best of seven other tasks between −7 and 0.
    """
    return (z - UNKNOWN_AT).clamp(MOST_AGAINST, MOST_FOR)


def task_gaussian(features: Tensor, backbone: Backbone) -> HostTensors:
    """The Gaussian of a task over plain CLIP's features, with the likelihoods of its own left-out images."""
    return fitted_gaussian(features, projection_target(*backbone.image_projection()), FLOOR)


def stored_parts(tensors: Mapping[str, Tensor]) -> tuple[HostTensors, dict[str, Tensor]]:
    """The Gaussian of a stored task, and the tensors of its head by their own names."""
    return stored_gaussian(strip_prefix(f"{ROUTER}.", tensors)), strip_prefix(f"{HEAD}.", tensors)


def own_likelihood(task: HostTensors) -> tuple[Tensor, Tensor]:
    """Median and spread of the log-likelihood of a task's own left-out images.

    A handful of images says nothing about a spread, and then every image belongs.
    """
    own = task.tensors.get("own", torch.empty(0))
    if len(own) < ENOUGH:
        return torch.zeros((), dtype=torch.float64), torch.tensor(torch.inf, dtype=torch.float64)
    low, median, high = (quantile(own, level) for level in (0.25, 0.5, 0.75))
    spread = (high - low) / NORMAL_QUARTILES * (1 + UNSURE / len(own))
    return median, spread.clamp(min=torch.finfo(torch.float32).eps)
