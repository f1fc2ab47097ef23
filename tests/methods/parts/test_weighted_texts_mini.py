"""Text features from the grid predict what exact ones predict, on the embedded model and benchmark."""

import pytest
import torch

from dpw.benchmarks import load_benchmark
from dpw.clip.backbone import Backbone
from dpw.data.pixels import PixelCache
from dpw.engine.devices import make_accelerator
from dpw.engine.feeding import SplitImages
from dpw.engine.training import Trainer
from dpw.methods import Candidates, create
from dpw.methods.parts.weighted_texts import WeightedTexts

pytest.importorskip("sklearn")
TASKS = 3


@pytest.fixture(scope="module")
def learned():
    """DPW after a short training on the first tasks of `mini`."""
    tasks = load_benchmark("mini").tasks[:TASKS]
    settings = {"training.iterations": 20, "training.select": "last"}
    method = create("dpw", Backbone.from_pretrained("mini"), settings=settings)
    cache = PixelCache(method.backbone.preprocessing, None)
    for task in tasks:
        Trainer(cache, make_accelerator()).fit(method, task)
    return method.eval(), tasks, cache


@pytest.mark.slow
def test_grid_and_exact_text_weights_agree_on_999_of_1000_predictions(learned):
    method, tasks, cache = learned
    every = Candidates.learned([task.group() for task in method.tasks])
    ways = [
        WeightedTexts(method.answers.encode_texts, mode, method.config.grid_points)
        for mode in ("exact", "grid")
    ]
    same, count = 0, 0
    for task in tasks:
        split = task.test
        images = SplitImages(split, cache, method.backbone.device).images(range(min(len(split), 120)))
        for question in (every, Candidates.among(method.tasks[0].group())):
            answers = []
            for way in ways:
                method.answers.texts = way
                with torch.inference_mode():
                    answers.append(method.logits(images, question).argmax(dim=1))
            same += int((answers[0] == answers[1]).sum())
            count += len(answers[0])
    assert same / count >= 0.999
