"""Where on an image the prefixes look: attention's scores against RePA's."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpw.analysis.queries import patches_per_side
from dpw.analysis.subject import Subject, spread_rows
from dpw.analysis.tracing import BlockRecord, trace
from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.clip.sequences import Positions
from dpw.methods.diki import DIKI


@dataclass(frozen=True)
class ScoreMaps:
    """Images with two maps each: mean prefix score of every patch by attention and by RePA, in [0, 1]."""

    tasks: list[str]
    images: Tensor  # (n, 3, H, W) uint8
    attention: Tensor  # (n, side, side)
    repa: Tensor  # (n, side, side)
    attention_from: str


def score_maps(
    subject: Subject, per_task: int = 1, tasks: list[str] | None = None, keys: DIKI | None = None
) -> ScoreMaps:
    """Mean score over blocks, heads and prefixes, each map stretched to its own range.

    `keys` is a DIKI model over the same CLIP whose learned prefix keys attention is asked about; without it
    the map is that of CLIP's own [CLS] query on the patches, which is where frozen attention looks.
    """
    names = tasks or subject.method.task_names[:4]
    shown, of, attention, repa = [], [], [], []
    for name in names:
        task = subject.task(name)
        rows = spread_rows(len(subject.split(task)), per_task)
        pixels = subject.pixels(task, per_task)
        index = subject.method.task_names.index(name)
        repa.append(repa_scores(subject, pixels, index))
        attention.append(attention_scores(subject, pixels, _keys(keys, name)))
        shown.append(pixels.cpu())
        of += [name] * len(rows)
    side = patches_per_side(subject)
    maps = [stretch(torch.cat(found)).view(-1, side, side) for found in (attention, repa)]
    has_cls = subject.method.backbone.family.images.class_tokens > 0
    own = "CLIP's [CLS] attention" if has_cls else "the patches' mean attention"
    source = own if keys is None else "DIKI's prefixes"
    return ScoreMaps(of, torch.cat(shown), maps[0], maps[1], source)


def _keys(method: DIKI | None, name: str) -> Tensor | None:
    """The prefix keys `(K, L, D)` of one task."""
    if method is None or name not in method.task_names:
        return None
    module: Any = method.bank[method.task_names.index(name)]
    keys: Tensor = module["image"].keys
    return keys


def repa_scores(subject: Subject, pixels: Tensor, task: int) -> Tensor:
    """Mean RePA weight σ(s) of each patch, `(B, patches)`."""
    backbone = subject.method.backbone
    sums = torch.zeros(len(pixels), backbone.patch_count)

    def visit(record: BlockRecord) -> None:
        """Add one block."""
        sums[record.rows] += backbone.patches(torch.sigmoid(record.scores).mean(dim=(1, 3))).cpu()

    trace(subject.method, pixels, visit, task=task)
    return sums / backbone.image_shape.blocks


class _Queries(Adaptation):
    """Adds nothing; sums what the query of each block gives the prefix keys."""

    def __init__(self, backbone: Backbone, keys: Tensor | None, sums: Tensor) -> None:
        """Without prefix keys the [CLS] query is asked about the patches' own keys.

        In a family without [CLS] all patches are asked, and their answers averaged.
        """
        self.backbone, self.layers, self.keys, self.sums = backbone, backbone.blocks("vision"), keys, sums
        self.asked = backbone.family.images.class_tokens or None

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> None:  # noqa: ARG002
        """Sum the scores of one block over its heads and prefixes."""
        heads, width = q.shape[1], q.shape[-1]
        if self.keys is None:
            keys = self.layers[block].self_attn.k_proj(x).view(*x.shape[:2], heads, width).transpose(1, 2)
            scores = q[:, :, : self.asked] @ keys.transpose(-1, -2) / math.sqrt(width)
            self.sums += self.backbone.patches(scores.softmax(dim=-1).mean(dim=(1, 2))).cpu()
        elif block < len(self.keys):
            keys = self.keys[block].view(-1, heads, width).transpose(0, 1)
            scores = q @ keys.transpose(-1, -2) / math.sqrt(width)
            self.sums += self.backbone.patches(scores.mean(dim=(1, 3))).cpu()


def attention_scores(subject: Subject, pixels: Tensor, keys: Tensor | None) -> Tensor:
    """Mean attention score of each patch, `(B, patches)`."""
    backbone = subject.method.backbone
    sums = torch.zeros(len(pixels), backbone.patch_count)
    with torch.inference_mode():
        backbone.image_tokens(pixels, _Queries(backbone, keys, sums))
    return sums


def stretch(values: Tensor) -> Tensor:
    """Each row to the range from 0 to 1; a constant row becomes 0."""
    low = values.amin(dim=1, keepdim=True)
    width = values.amax(dim=1, keepdim=True) - low
    return (values - low) / width.clamp(min=1e-12)
