"""Pretrain the embedded model on rendered scenes: `python tools/pretrain_mini.py --seed 0`."""

import argparse
import json
import math
import time
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
import numpy.typing as npt
import torch
from mini_world.captions import caption
from mini_world.optimiser import OrthogonalMomentum, cosine_filters, place_codes
from mini_world.pool import Pool, pool
from mini_world.scenes import draw_scene
from mini_world.tokens import save_tokenizer
from mini_world.vocabulary import CONCEPTS, Scene
from mini_world.words import SENTENCES
from mini_world.zeroshot import image_features, plain_name, text_features, world_accuracy
from torch import Tensor
from torch.nn import functional as F
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

from dpw.benchmarks.mini.canvas import SIDE
from dpw.clip.preprocessing import CLIP_MEAN, CLIP_STD, Preprocessing

CONTEXT = 32
WIDTH = 128
PATCH = 8
LARGEST_LOGIT_SCALE = math.log(100)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument(
        "--threads", type=int, default=2, help="of torch; another number changes the last digits"
    )
    parser.add_argument("--pictures", type=int, default=120_000, help="size of the rendered training pool")
    parser.add_argument(
        "--pool", type=Path, default=Path("runs/mini-pool"), help="where rendered pictures are kept"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("runs/mini-model"), help="where the model is written"
    )
    return parser.parse_args()


def new_model(tokenizer: CLIPTokenizer) -> CLIPModel:
    """Build the untrained model: 36 patches, four image and two text blocks of width 128."""
    shared = {
        "hidden_size": WIDTH,
        "intermediate_size": 4 * WIDTH,
        "num_attention_heads": 4,
        "projection_dim": WIDTH,
    }
    end = len(tokenizer) - 1
    text = {
        **shared,
        "vocab_size": len(tokenizer),
        "num_hidden_layers": 2,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": end - 1,
        "eos_token_id": end,
        "pad_token_id": end,
    }
    vision = {**shared, "num_hidden_layers": 4, "image_size": SIDE, "patch_size": PATCH}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=WIDTH))
    with torch.no_grad():
        embeddings = model.vision_model.embeddings
        embeddings.position_embedding.weight[1:] = 0.3 * place_codes(SIDE // PATCH, WIDTH)
        embeddings.patch_embedding.weight.copy_(0.3 * cosine_filters(PATCH, WIDTH))
    return model


def to_tensor(images: npt.NDArray[np.uint8]) -> Tensor:
    """Scale and normalise uint8 pictures as the image processor does."""
    scaled = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float() / 255
    return (scaled - torch.tensor(CLIP_MEAN)[:, None, None]) / torch.tensor(CLIP_STD)[:, None, None]


def shifted(images: npt.NDArray[np.uint8], rng: np.random.Generator, reach: int = 5) -> npt.NDArray[np.uint8]:
    """Shift every picture by a few pixels, repeating its edge."""
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="edge")
    moves = rng.integers(0, 2 * reach + 1, (len(images), 2))
    return np.stack([p[y : y + SIDE, x : x + SIDE] for p, (y, x) in zip(padded, moves, strict=True)])


def truth(scenes: npt.NDArray[np.int16], said: npt.NDArray[np.int16]) -> Tensor:
    """Mark which captions (columns) are true of which pictures (rows)."""
    fits = (said[None] < 0) | (said[None] == scenes[:, None])
    return torch.from_numpy(fits.all(axis=2))


def contrastive_loss(logits: Tensor, true: Tensor) -> Tensor:
    """CLIP's loss where every true caption of a picture, and every picture a caption is true of, counts."""
    targets = true.float()
    rows = F.cross_entropy(logits, targets / targets.sum(1, keepdim=True))
    columns = F.cross_entropy(logits.T, targets.T / targets.T.sum(1, keepdim=True))
    return (rows + columns) / 2


def optimizers_of(model: CLIPModel, rate: float) -> list[torch.optim.Optimizer]:
    """Orthogonal momentum for the matrices of the blocks, AdamW for all else."""
    matrices = {name: p for name, p in model.named_parameters() if p.ndim == 2 and ".layers." in name}
    others = [p for name, p in model.named_parameters() if name not in matrices]
    groups = [
        {"params": [p for p in others if p.ndim >= 2], "weight_decay": 0.05},
        {"params": [p for p in others if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [
        OrthogonalMomentum(matrices.values(), lr=20 * rate),
        torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98)),
    ]


def rate_factor(step: int, steps: int, warmup: int = 100, fall: int = 700) -> float:
    """Rise linearly, stay, and fall linearly to one hundredth over the last steps."""
    return max(0.01, min((step + 1) / warmup, (steps - step) / fall, 1.0))


class Batch(NamedTuple):
    """Pictures with captions, and plain names of all concepts in one sentence."""

    pixels: Tensor
    captions: list[str]
    true: Tensor
    names: list[str]
    concepts: Tensor


def batch_of(pictures: Pool, indices: npt.NDArray[np.int64], rng: np.random.Generator) -> Batch:
    """Take pictures from the pool and draw fresh captions for them."""
    scenes = pictures.scenes[indices]
    captions, said = zip(*(caption(Scene(*map(int, row)), rng) for row in scenes), strict=True)
    sentence = SENTENCES[int(rng.integers(len(SENTENCES)))]
    return Batch(
        to_tensor(shifted(pictures.images[indices], rng)),
        list(captions),
        truth(scenes, np.array(said, dtype=np.int16)),
        [sentence.format(plain_name(*concept)) for concept in CONCEPTS],
        torch.from_numpy(scenes[:, 0].astype(np.int64)),
    )


def batch_loss(model: CLIPModel, tokenizer: CLIPTokenizer, batch: Batch) -> Tensor:
    """Match pictures with captions, and name them among all concepts."""
    images = image_features(model, batch.pixels)
    scale = model.logit_scale.exp()
    captions = text_features(model, tokenizer, batch.captions)
    names = text_features(model, tokenizer, batch.names)
    naming = F.cross_entropy(scale * images @ names.T, batch.concepts)
    return contrastive_loss(scale * images @ captions.T, batch.true) + naming


def train(model: CLIPModel, tokenizer: CLIPTokenizer, options: argparse.Namespace, log: TextIO) -> None:
    """Run all steps; write a line of numbers every 50 steps and accuracies now and then."""
    pictures = pool(options.pool, "train", options.pictures, options.seed, options.threads)
    checks = {
        name: pool(options.pool, name, 2000, options.seed, options.threads) for name in ("seen", "unseen")
    }
    rng = np.random.default_rng([options.seed, 99])
    optimizers = optimizers_of(model, options.rate)
    rates = [(group, group["lr"]) for optimizer in optimizers for group in optimizer.param_groups]
    order, started, mean = np.empty(0, dtype=np.int64), time.monotonic(), 0.0
    for step in range(options.steps):
        if len(order) < options.batch:
            order = rng.permutation(len(pictures.images))
        indices, order = order[: options.batch], order[options.batch :]
        batch = batch_of(pictures, np.sort(indices), rng)
        for group, rate in rates:
            group["lr"] = rate * rate_factor(step, options.steps)
        loss = batch_loss(model, tokenizer, batch)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(max=LARGEST_LOGIT_SCALE)
        mean += loss.item() / 50
        if (step + 1) % 50 == 0:
            line = {
                "step": step + 1,
                "loss": round(mean, 4),
                "logit_scale": round(model.logit_scale.item(), 3),
            }
            mean = 0.0
            if (step + 1) % 500 == 0 or step + 1 == options.steps:
                line.update(world_accuracy(model, tokenizer, checks, to_tensor))
                model.save_pretrained(options.output)
            line["minutes"] = round((time.monotonic() - started) / 60, 1)
            log.write(json.dumps(line) + "\n")
            log.flush()


def main() -> None:
    """Learn the vocabulary, train the model and write both with their preprocessing and log."""
    options = arguments()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    rng = np.random.default_rng([options.seed, 98])
    texts = [caption(draw_scene(rng), rng)[0] for _ in range(40_000)]
    tokenizer = save_tokenizer(texts, options.output, CONTEXT)
    preprocessing = Preprocessing(size=SIDE, crop=(SIDE, SIDE)).to_config()
    (options.output / "preprocessor_config.json").write_text(json.dumps(preprocessing, indent=2) + "\n")
    with (options.output / "training_log.jsonl").open("w") as log:
        train(new_model(tokenizer), tokenizer, options, log)


if __name__ == "__main__":
    main()
