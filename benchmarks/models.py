"""CLIPs of published shapes with random weights, and methods that look as if they had learned tasks."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import CLIPConfig, CLIPModel

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.clip.preprocessing import Preprocessing
from dpw.methods import ClassGroup, Method, create
from dpw.methods.bank import HostTensors
from dpw.methods.base import LearnedTask
from dpw.methods.parts.mixture import Experts, MixtureAdaptation, TaskRouter
from dpw.methods.parts.weighted import ROUTER

TEMPLATE = "a photo of a {}."


@dataclass(frozen=True)
class Shape:
    """The sizes of a CLIP."""

    image_size: int
    patch: int
    blocks: int
    image_width: int
    text_width: int
    image_heads: int
    text_heads: int
    features: int
    vocabulary: int
    spread: float = 1.0  # of the weights; a small CLIP needs more to tell images apart


SHAPES = {
    "tiny": Shape(32, 8, 4, 96, 64, 6, 4, 32, 1000, 4.0),
    "vit-b-32": Shape(224, 32, 12, 768, 512, 12, 8, 512, 49408),
    "vit-b-16": Shape(224, 16, 12, 768, 512, 12, 8, 512, 49408),
}


class WordTokenizer:
    """One token for every word and full stop, as CLIP's tokeniser does with common words."""

    def __init__(self, vocabulary: int) -> None:
        """The last two ids are start and end of text."""
        self.vocabulary = vocabulary

    def __call__(self, prompts: Sequence[str], **_: Any) -> dict[str, list[list[int]]]:
        """Token ids of every prompt."""
        words = [prompt.replace(".", " .").split() for prompt in prompts]
        rows = [[zlib.crc32(word.encode()) % (self.vocabulary - 2) for word in row] for row in words]
        return {"input_ids": [[self.vocabulary - 2, *row, self.vocabulary - 1] for row in rows]}


def backbone(name: str, tokens: int | None = None) -> Backbone:
    """A CLIP of a named shape, its weights drawn anew but always the same.

    `tokens` asks for another number of image tokens, as near as square patches come to it.
    """
    shape = SHAPES[name]
    patch = shape.patch if tokens is None else round(shape.image_size / (tokens - 1) ** 0.5)
    torch.manual_seed(0)
    common = {"num_hidden_layers": shape.blocks, "initializer_factor": shape.spread}
    text = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.text_width,
        "intermediate_size": 4 * shape.text_width,
        "num_attention_heads": shape.text_heads,
        "bos_token_id": shape.vocabulary - 2,
        "eos_token_id": shape.vocabulary - 1,
        "pad_token_id": shape.vocabulary - 1,
    }
    image = {
        "hidden_size": shape.image_width,
        "intermediate_size": 4 * shape.image_width,
        "num_attention_heads": shape.image_heads,
        "image_size": shape.image_size,
        "patch_size": patch,
    }
    config = CLIPConfig(
        text_config=text | common, vision_config=image | common, projection_dim=shape.features
    )
    size = shape.image_size
    preprocessing = Preprocessing(size=size, crop=(size, size))
    return Backbone(CLIPModel(config).eval(), preprocessing, WordTokenizer(shape.vocabulary), name)


def class_group(task: int, classes: int) -> ClassGroup:
    """Classes with names of one to three words, as the public datasets have."""
    names = tuple(
        " ".join(f"word{task}x{row}y{part}" for part in range(1 + row % 3)) for row in range(classes)
    )
    return ClassGroup(f"task{task}", names, (TEMPLATE,))


def photographs(name: str, count: int, seed: int = 0) -> Tensor:
    """uint8 pixels of noise."""
    size = SHAPES[name].image_size
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)


def learned(name: str, below: Backbone, tasks: int, classes: int, **settings: Any) -> Any:
    """A method (dpw, dpw-reduced, diki) with tasks of random parameters and random Gaussians."""
    method = create(name, below, settings=settings)
    if name.startswith("dpw"):
        downs = method.initial.adapter_down(method.config.adapter_rank, method.config.adapter_down, 0)
        method.down_image, method.down_text = downs["image"], downs["text"]
    for index in range(tasks):
        add_task(method, index, classes)
    return method.eval()


def add_task(method: Any, index: int, classes: int) -> None:
    """Append a task with parameters as at the start of training, moved a little, and a wide Gaussian."""
    group = class_group(index, classes)
    method.tasks.append(LearnedTask(group.name, group.classes, group.templates))
    towers = {tower: method.new_tower(tower) for tower in ("image", "text")}
    module: Any = torch.nn.ModuleDict(towers)
    generator = torch.Generator().manual_seed(index)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.01 * torch.randn(parameter.shape, generator=generator)
    module[ROUTER] = gaussian(*random_gaussian(method.backbone.feature_width, generator))
    method.bank.append(module.requires_grad_(requires_grad=False))


def gaussian(mean: Tensor, cholesky: Tensor) -> HostTensors:
    """The Gaussian of a task as its module holds it."""
    return HostTensors({"mean": mean, "cholesky": cholesky})


def random_gaussian(width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Mean and Cholesky factor of features scattered about a random direction."""
    centre = F.normalize(torch.randn(width, generator=generator, dtype=torch.float64), dim=0)
    noise = torch.randn(2 * width, width, generator=generator, dtype=torch.float64) / width**0.5
    covariance = noise.T @ noise / (2 * width) + 1e-2 * torch.eye(width, dtype=torch.float64)
    return centre, torch.linalg.cholesky(covariance)


def start_training(method: Method) -> Method:
    """Let the newest task of a method learn again."""
    method.bank[-1].requires_grad_()  # type: ignore[index,union-attr]
    return method.train()


def mixture(below: Backbone) -> Adaptation:
    """MoE-Adapters in the image tower, with the published number and size of experts."""
    generator = torch.Generator().manual_seed(0)
    shape = below.image_shape
    experts = Experts(shape, 22, 64, generator)
    gates = torch.randn(shape.blocks, shape.width, 22, generator=generator)
    return MixtureAdaptation(experts, TaskRouter(gates, torch.zeros_like(gates)), top=2, scale=0.1)


def image_adaptation(name: str, below: Backbone, batch: int) -> Adaptation | None:
    """What a method adds to the image tower at prediction; nothing for `plain`."""
    if name == "plain":
        return None
    if name == "moe-adapters":
        return mixture(below)
    weight, filtered = torch.full((batch,), 0.7), torch.ones(batch, dtype=torch.bool)
    adaptation: Adaptation = learned(name, below, 1, 2).image_adaptation(0, weight, filtered)
    return adaptation


def domain(name: str, task: int, count: int, seed: int = 0) -> Tensor:
    """Images of one task: noise of its own colour and contrast."""
    noise = photographs(name, count, seed=1000 * task + seed).float()
    colour = torch.rand(1, 3, 1, 1, generator=torch.Generator().manual_seed(task)) * 160
    return (noise * (0.1 + 0.25 * (task % 3) / 3) + colour).clamp(0, 255).to(torch.uint8)


def add_domain_task(method: Any, name: str, index: int, classes: int) -> None:
    """Append a task whose Gaussian stands where its images really are."""
    add_task(method, index, classes)
    features = method.frozen_image_features(domain(name, index, 4, seed=500)).double()
    width = features.shape[1]
    spread = 0.02 * torch.eye(width, dtype=torch.float64)
    method.bank[-1][ROUTER] = gaussian(features.mean(dim=0), spread)


def forget_all(method: Any) -> None:
    """Back to nothing learned."""
    while method.tasks:
        method.forget(len(method.tasks) - 1)
