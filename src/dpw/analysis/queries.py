"""What the query projection does to tokens: are task-relevant tokens still distinct afterwards?"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dpw.analysis.subject import Subject, spread_rows
from dpw.analysis.tracing import BlockRecord, trace
from dpw.errors import InputError


@dataclass(frozen=True)
class QuerySimilarity:
    """Mean cosine of relevant tokens with each other and with irrelevant ones, per block."""

    task: str
    image: Tensor  # (3, H, W) uint8, the first image, as an example
    relevant: Tensor  # (N - 1,) bool, its relevant patches
    irrelevant: Tensor  # (N - 1,) bool
    within_before: list[float]
    across_before: list[float]
    within_after: list[float]
    across_after: list[float]


@dataclass(frozen=True)
class TokenPlane:
    """Tokens of two tasks in the plane, before and after the query projection of one block."""

    tasks: tuple[str, str]
    block: int
    how: str
    labels: Tensor  # (n,) 0 or 1
    before: Tensor  # (n, 2)
    after: Tensor  # (n, 2)
    separation_before: float
    separation_after: float


def query_similarity(subject: Subject, task: str, relevance: Tensor | None = None) -> QuerySimilarity:
    """Cosines before and after the query projection, over images of one task.

    `relevance` `(B, N − 1)` says how much each patch shows the object; without it, how far its colours are
    from those of the image's border. The upper third counts as relevant, the lower third as irrelevant.
    """
    pixels = subject.pixels(subject.task(task))
    if relevance is None:
        relevance = border_contrast(pixels, patches_per_side(subject))
    third = max(1, relevance.shape[1] // 3)
    order = relevance.argsort(dim=1)
    relevant, irrelevant = (torch.zeros_like(relevance, dtype=torch.bool) for _ in range(2))
    relevant.scatter_(1, order[:, -third:], value=True)
    irrelevant.scatter_(1, order[:, :third], value=True)
    backbone = subject.method.backbone
    sums = torch.zeros(4, backbone.image_shape.blocks, dtype=torch.float64)

    def visit(record: BlockRecord) -> None:
        """Add the cosines of one block."""
        chosen, others = relevant[record.rows], irrelevant[record.rows]
        after = record.q.transpose(1, 2).flatten(2)
        for index, tokens in ((0, backbone.patches(record.x)), (2, backbone.patches(after))):
            within, across = token_cosines(tokens, chosen, others)
            sums[index, record.block] += within
            sums[index + 1, record.block] += across

    trace(subject.method, pixels, visit)
    means = (sums / len(pixels)).tolist()
    return QuerySimilarity(task, pixels[0].cpu(), relevant[0], irrelevant[0], *means)


def token_cosines(tokens: Tensor, relevant: Tensor, irrelevant: Tensor) -> tuple[float, float]:
    """Sums over images of the mean cosine among relevant tokens, and between relevant and irrelevant ones."""
    unit = F.normalize(tokens.float(), dim=-1).cpu()
    cosines = unit @ unit.transpose(1, 2)
    same = relevant[:, :, None] & relevant[:, None, :]
    same &= ~torch.eye(same.shape[1], dtype=torch.bool)
    different = relevant[:, :, None] & irrelevant[:, None, :]
    within, across = (
        ((cosines * mask).sum(dim=(1, 2)) / mask.sum(dim=(1, 2)).clamp(min=1)).sum()
        for mask in (same, different)
    )
    return float(within), float(across)


def border_contrast(pixels: Tensor, side: int) -> Tensor:
    """How far the colours of each patch are from the mean colour of the border, `(B, side²)`."""
    picture = pixels.float().cpu()
    edge = torch.cat(
        [picture[..., 0, :], picture[..., -1, :], picture[..., :, 0], picture[..., :, -1]], dim=-1
    )
    distance = (picture - edge.mean(dim=-1)[..., None, None]).square().sum(dim=1, keepdim=True).sqrt()
    return F.adaptive_avg_pool2d(distance, side).flatten(1)


def patches_per_side(subject: Subject) -> int:
    """How many patches the image tower sees along one side."""
    return math.isqrt(subject.method.backbone.patch_count)


def token_plane(
    subject: Subject,
    tasks: tuple[str, str],
    block: int | None = None,
    how: Literal["pca", "umap"] = "pca",
    tokens_per_image: int = 8,
) -> TokenPlane:
    """Patch tokens of two tasks in the plane; the block in the middle by default."""
    backbone = subject.method.backbone
    shape, places = backbone.image_shape, spread_rows(backbone.patch_count, tokens_per_image)
    chosen = shape.blocks // 2 if block is None else block
    if not 0 <= chosen < shape.blocks:
        raise InputError(f"block {chosen} does not exist: the image tower has {shape.blocks}, from 0")
    found: list[tuple[Tensor, Tensor]] = []
    for name in tasks:
        pixels = subject.pixels(subject.task(name))
        kept: dict[int, tuple[Tensor, Tensor]] = {}

        def visit(record: BlockRecord, kept: dict[int, tuple[Tensor, Tensor]] = kept) -> None:
            """Keep a few tokens of every image."""
            if record.block == chosen:
                before = backbone.patches(record.x)[:, places].cpu()
                after = backbone.patches(record.q.transpose(1, 2).flatten(2))[:, places].cpu()
                for index, row in enumerate(record.rows.tolist()):
                    kept[row] = (before[index], after[index])

        trace(subject.method, pixels, visit)
        both = [kept[row] for row in sorted(kept)]
        found.append((torch.cat([pair[0] for pair in both]), torch.cat([pair[1] for pair in both])))
    labels = torch.cat([torch.full((len(found[index][0]),), index) for index in (0, 1)])
    before, after = (torch.cat([found[0][side], found[1][side]]).float() for side in (0, 1))
    plane = principal_plane if how == "pca" else umap_plane
    return TokenPlane(
        tasks,
        chosen,
        how,
        labels,
        plane(before),
        plane(after),
        separation(before, labels),
        separation(after, labels),
    )


def principal_plane(points: Tensor) -> Tensor:
    """The two directions of largest variance, `(n, 2)`; the sign is fixed so that results repeat."""
    centred = points.double() - points.double().mean(dim=0)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    directions = directions[:2]
    largest = directions.abs().argmax(dim=1)
    signs = torch.sign(directions[torch.arange(len(directions)), largest])
    plane: Tensor = centred @ (directions * signs[:, None]).T
    return plane


def umap_plane(points: Tensor) -> Tensor:
    """UMAP, as the paper draws it."""
    try:
        from umap import UMAP
    except ImportError as error:
        raise InputError("UMAP is not installed: pip install 'dpw[umap]', or use PCA") from error
    flat = UMAP(n_components=2, random_state=0, n_jobs=1).fit_transform(points.numpy())
    return torch.from_numpy(np.asarray(flat, dtype=np.float64))


def separation(points: Tensor, labels: Tensor) -> float:
    """Share of the variance that lies between the two tasks: 0 is mixed, 1 is apart."""
    points = points.double()
    centred = points - points.mean(dim=0)
    between = sum(
        float((labels == label).sum()) * float(centred[labels == label].mean(dim=0).square().sum())
        for label in (0, 1)
    )
    total = float(centred.square().sum())
    return between / total if total > 0 else 0.0
