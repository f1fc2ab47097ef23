"""Measure the goals of the `mini` benchmark: `python tools/measure_mini.py MODEL_FOLDER --split val`."""

import argparse
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from mini_world.zeroshot import image_features, text_features
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression
from transformers import CLIPModel, CLIPTokenizer

from dpw.benchmarks.mini import tasks
from dpw.clip.preprocessing import Preprocessing
from dpw.data.task import Split, Task

Features = npt.NDArray[np.float32]


def pixels_of(split: Split, preprocessing: Preprocessing) -> npt.NDArray[np.uint8]:
    """Preprocess every picture of a split to uint8 `(N, 3, H, W)`."""
    return np.stack([preprocessing.pixels(sample.image) for sample in split])


@torch.no_grad()
def features_of(model: CLIPModel, pixels: npt.NDArray[np.uint8], preprocessing: Preprocessing) -> Features:
    """Embed preprocessed pictures as unit vectors."""
    mean, std = (torch.tensor(v)[:, None, None] for v in (preprocessing.mean, preprocessing.std))
    return image_features(model, (torch.from_numpy(pixels).float() / 255 - mean) / std).numpy()


@torch.no_grad()
def zero_shot(
    model: CLIPModel, tokenizer: CLIPTokenizer, task: Task, features: Features
) -> npt.NDArray[np.int64]:
    """Name every picture by the nearest prompt."""
    return (features @ text_features(model, tokenizer, task.prompts()).numpy().T).argmax(1)


def nearest_pixels(
    train: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], other: npt.NDArray[np.uint8]
) -> npt.NDArray[np.int64]:
    """Name every picture like the training picture with the least squared pixel difference."""
    a, b = (x.reshape(len(x), -1).astype(np.float32) / 255 for x in (other, train))
    far = (b**2).sum(1)[None] - 2 * a @ b.T
    return labels[far.argmin(1)]


def task_scores(features: dict[str, Features], queries: Features) -> npt.NDArray[np.float64]:
    """Give the log-likelihood of queries under one Gaussian per task, fitted on training features."""
    columns = []
    for known in features.values():
        fitted = LedoitWolf().fit(known.astype(np.float64))
        distance = fitted.mahalanobis(queries.astype(np.float64))
        columns.append(-0.5 * (distance + np.linalg.slogdet(fitted.covariance_)[1]))
    return np.stack(columns, axis=1)


def percent(right: npt.NDArray[np.bool_]) -> float:
    """Give a share in percent with one decimal."""
    return round(float(right.mean()) * 100, 1)


def measure(folder: Path, split: str, seed: int) -> dict[str, dict[str, float]]:
    """Measure every task and the mean over tasks."""
    model, tokenizer = CLIPModel.from_pretrained(folder).eval(), CLIPTokenizer.from_pretrained(folder)
    preprocessing = Preprocessing.from_folder(folder)
    table: dict[str, dict[str, float]] = {}
    known, asked = {}, {}
    for task in tasks(seed):
        train, other = pixels_of(task.train, preprocessing), pixels_of(task.splits()[split], preprocessing)
        labels, wanted = np.array(task.train.labels), np.array(task.splits()[split].labels)
        known[task.name], asked[task.name] = (features_of(model, x, preprocessing) for x in (train, other))
        probe = LogisticRegression(C=30, max_iter=2000).fit(known[task.name], labels)
        table[task.name] = {
            "classes": len(task.classes),
            "chance": round(100 / len(task.classes), 1),
            "nearest_pixels": percent(nearest_pixels(train, labels, other) == wanted),
            "zero_shot": percent(zero_shot(model, tokenizer, task, asked[task.name]) == wanted),
            "linear_probe": percent(probe.predict(asked[task.name]) == wanted),
        }
    for index, name in enumerate(known):
        table[name]["task_identified"] = percent(task_scores(known, asked[name]).argmax(1) == index)
    columns = next(iter(table.values()))
    table["mean"] = {c: round(float(np.mean([row[c] for row in table.values()])), 1) for c in columns}
    return table


def main() -> None:
    """Print the table and, if asked for, write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--split", choices=("val", "test"), default="val")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    table = measure(options.model, options.split, options.seed)
    columns = list(table["mean"])
    print(f"{options.split:>10} " + " ".join(f"{c:>15}" for c in columns))
    for name, row in table.items():
        print(f"{name:>10} " + " ".join(f"{row[c]:>15}" for c in columns))
    if options.json is not None:
        options.json.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
