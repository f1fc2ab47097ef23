"""Building DPW with the parameters of the golden cases instead of training it."""

import torch
from torch import Tensor

from dpw.clip.backbone import Backbone
from dpw.methods import ClassGroup, LearnedTask, create
from dpw.methods.base import Method
from tests.helpers.golden_cases import load
from tests.helpers.tiny_clip import golden_backbone


class GoldenTokenizer:
    """Gives the golden token ids for the golden prompts."""

    def __init__(self, ids: dict[str, list[int]]) -> None:
        self.ids = ids

    def __call__(self, prompts: list[str], truncation: bool) -> dict[str, list[list[int]]]:
        return {"input_ids": [self.ids[prompt] for prompt in prompts]}


def backbone_with_prompts() -> tuple[Backbone, list[LearnedTask], dict]:
    """The golden CLIP with its three toy tasks."""
    backbone, meta = golden_backbone()
    tokens = load("j_clip_small_full")[0]["tokens"]
    tasks = [
        LearnedTask(f"task{index}", tuple(names), (template,))
        for index, (names, template) in enumerate(zip(meta["names"], meta["templates"], strict=True))
    ]
    prompts = [prompt for task in tasks for row in task.group().prompts() for prompt in row]
    ends = backbone.end_of_text(tokens).tolist()
    rows = {p: row[: end + 1] for p, row, end in zip(prompts, tokens.tolist(), ends, strict=True)}
    backbone.tokenizer = GoldenTokenizer(rows)
    return backbone, tasks, meta


def settings(meta: dict, **more: object) -> dict:
    """The sizes of the golden model; the Gaussian divisor is the feature width there as here."""
    return {
        "prefix_length": meta["prefix_len"],
        "adapter_rank": meta["rank"],
        "adapter_dropout": 0.0,
        "training.batch_size": meta.get("batch_size", 8),
        **more,
    }


def stack(case: dict[str, Tensor], tower: str, name: str, layers: int, where: str = "{}") -> Tensor:
    """One golden parameter of all blocks of a tower; `where` holds a place for the tower and block."""
    return torch.stack([case[where.format(f"{tower}.{k}") + f".{name}"] for k in range(layers)])


def task_tensors(case: dict[str, Tensor], task: int, layers: int, prefix: str = "") -> dict[str, Tensor]:
    """The stored tensors of one task, renamed from the golden file."""
    where = f"{prefix}{{}}.task{task}"
    tensors = {}
    for ours, theirs in (("image", "visual"), ("text", "text")):
        up = stack(case, theirs, "adapter_up_weight", layers, where).transpose(1, 2)
        tensors |= {
            f"{ours}.weight": stack(case, theirs, "repa_weight", layers, where),
            f"{ours}.bias": stack(case, theirs, "repa_bias", layers, where),
            f"{ours}.values": stack(case, theirs, "prefix_value", layers, where),
            f"{ours}.up": up.contiguous(),
            f"{ours}.up_bias": stack(case, theirs, "adapter_up_bias", layers, where),
        }
    for name in ("cls_mean", "cls_var"):
        tensors[f"image.{name}"] = stack(case, "visual", name, layers, where)
    return tensors


def gaussian(mean: Tensor, covariance: Tensor) -> dict[str, Tensor]:
    """The stored Gaussian of one task."""
    return {"router.mean": mean.double(), "router.cholesky": torch.linalg.cholesky(covariance.double())}


def shared_down(case: dict[str, Tensor], layers: int, where: str = "{}") -> dict[str, Tensor]:
    """The frozen D of both towers."""
    return {
        "down_image": stack(case, "visual", "adapter_down", layers, where),
        "down_text": stack(case, "text", "adapter_down", layers, where),
    }


def golden_dpw(which: str, **more: object) -> tuple[Method, list[ClassGroup], dict[str, Tensor], dict]:
    """DPW with three tasks and the `sharp` or `blunt` Gaussians of case j."""
    backbone, tasks, _ = backbone_with_prompts()
    case, meta = load("j_clip_small_full")
    method = create("dpw", backbone, "official", settings(meta, **more))
    method.load_shared_state(shared_down(case, meta["layers"]))
    for index, task in enumerate(tasks):
        normal = gaussian(case[f"{which}.task_mean"][index], case[f"{which}.task_covar"][index])
        method.load_task(task, task_tensors(case, index, meta["layers"]) | normal)
    return method.eval(), [task.group() for task in tasks], case, meta
