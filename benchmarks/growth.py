"""How our cost grows with classes, tasks, prefixes and image tokens: slopes and a plot."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from benchmarks.measure import seconds

from benchmarks import models
from dpw.data.images import Images
from dpw.methods import Candidates
from dpw.report.style import looks, new_figure, style

Points = list[tuple[float, float]]
TOKENS = {"tiny": (5, 17, 50, 65), "vit-b-32": (5, 17, 50, 197), "vit-b-16": (5, 17, 50, 197)}


def growth(shape: str, output: Path) -> None:
    """Measure all four, tell the slopes and write `growth-SHAPE.json`."""
    curves = {
        "classes (training step)": training_by(shape, "classes", (10, 50, 100, 200, 400)),
        "learned tasks (prediction)": prediction_by_tasks(shape, (1, 5, 10, 25, 50)),
        "prefixes (training step)": training_by(shape, "prefixes", (2, 4, 8, 16)),
        "image tokens (training step)": training_by(shape, "tokens", TOKENS[shape]),
    }
    told = {name: {"points": points, "slope": slope(points)} for name, points in curves.items()}
    (output / f"growth-{shape}.json").write_text(
        json.dumps({"shape": shape, "growth": told}, indent=1) + "\n"
    )
    for name, one in told.items():
        print(f"{shape}, growth with {name}: {100 * float(one['slope']):.2f} % of the smallest per unit")


def slope(points: Points) -> float:
    """Least-squares slope, as a share of the first point."""
    x, y = (torch.tensor(values, dtype=torch.float64) for values in zip(*points, strict=True))
    x, share = x - x.mean(), y / y[0]
    return float((x * (share - share.mean())).sum() / (x**2).sum())


def best(way: Callable[[], object], repeats: int = 3) -> float:
    """The least CPU seconds of several calls."""
    way()
    return min(seconds(way) for _ in range(repeats))


def training_by(shape: str, what: str, values: tuple[int, ...]) -> Points:
    """CPU seconds of a training step, one quantity changing."""
    points = []
    for value in values:
        backbone = models.backbone(shape, tokens=value if what == "tokens" else None)
        classes = value if what == "classes" else 10
        prefixes = value if what == "prefixes" else 8
        method = models.start_training(models.learned("dpw", backbone, 1, classes, prefix_length=prefixes))
        pixels, labels = models.photographs(shape, 8), torch.arange(8) % classes
        place = backbone.image_shape.tokens if what == "tokens" else value
        points.append((float(place), best(lambda m=method, p=pixels, y=labels: m(p, y).backward())))
    return points


def prediction_by_tasks(shape: str, values: tuple[int, ...]) -> Points:
    """CPU seconds of predicting a batch of 16 among all classes of some tasks, texts being cached."""
    backbone, points = models.backbone(shape), []
    images = models.photographs(shape, 16)
    with torch.inference_mode():
        for value in values:
            method = models.learned("dpw", backbone, value, 5)
            question = Candidates.learned([models.class_group(task, 5) for task in range(value)])
            points.append((float(value), best(lambda m=method, q=question: m.logits(Images.of(images), q))))
    return points


def plot(folder: Path) -> None:
    """One small plot for each quantity, with a line for every shape measured in the folder."""
    told = [json.loads(path.read_text()) for path in sorted(folder.glob("growth-*.json"))]
    names = list(told[0]["growth"])
    look = looks([one["shape"] for one in told])
    with style():
        figure, axes = new_figure(2.6 * len(names), 2.6, columns=len(names))
        for axis, name in zip(axes, names, strict=True):
            for one in told:
                x, y = zip(*one["growth"][name]["points"], strict=True)
                own, shares = look[one["shape"]], [value / y[0] for value in y]
                axis.plot(x, shares, own.dash, color=own.colour, marker=own.marker, label=one["shape"])
            axis.set(xlabel=name, ylim=(0, 1.05 * axis.get_ylim()[1]))
            axis.grid(visible=True)
        axes[0].set_ylabel("cost / cost of the first")
        axes[0].legend()
        figure.savefig(folder / "growth.png", dpi=130)
