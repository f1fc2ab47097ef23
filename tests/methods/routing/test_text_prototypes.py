"""The text router: nearest mean class text, weight by class prototypes, as a setting of dpw and diki."""

import pytest
import torch
from torch.nn import functional as F

from dpw import InputError
from dpw.methods import METHODS, configure
from dpw.methods.routing.text_prototypes import (
    BEST_CLASSES,
    PROTOTYPES,
    TextPrototypeRouter,
    fit_text_prototypes,
    task_confidence,
)
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import answers, learn, questions, reload, some_pixels, toy_task


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unit(rows: int, width: int = 16, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(rows, width, generator=seeded(seed)), dim=-1)


def task_around(texts: torch.Tensor, a_class: int = 6, noise: float = 0.05, seed: int = 3):
    labels = torch.arange(len(texts)).repeat_interleave(a_class)
    features = F.normalize(
        texts[labels] + noise * torch.randn(len(labels), 16, generator=seeded(seed)), dim=-1
    )
    return features, labels, fit_text_prototypes(features, labels, texts, seeded())


def test_confidence_is_the_mean_of_the_five_best_class_scores():
    texts = unit(7)
    features, _, task = task_around(texts)
    expected = []
    for feature in features:
        scores = sorted(
            (float((task["centres"][c] @ feature).max() + texts[c] @ feature) / 2 for c in range(7)),
            reverse=True,
        )
        expected.append(sum(scores[:BEST_CLASSES]) / BEST_CLASSES)
    torch.testing.assert_close(task_confidence(task, features), torch.tensor(expected))


def test_the_nearest_mean_text_decides():
    first, second = unit(4, seed=1), unit(4, seed=2)
    tasks = [task_around(first)[2], task_around(second)[2]]
    router = TextPrototypeRouter(lambda: tasks, gate=0.825)
    means = torch.stack([task["text"] for task in tasks])
    route = router.route(means)
    assert route.task.tolist() == [0, 1]
    assert route.confidence.shape == (2, 2)
    assert router.gates().tolist() == [0.825, 0.825]


def test_weights_are_one_above_the_thresholds_and_zero_below():
    features, _, task = task_around(unit(5), a_class=20, noise=0.4)
    weight = TextPrototypeRouter(lambda: [task], gate=0.825).route(features).weight
    assert (weight == 1).double().mean().item() == pytest.approx(0.2, abs=0.02)
    assert (weight == 0).double().mean().item() == pytest.approx(0.2, abs=0.02)
    between = weight[(weight > 0) & (weight < 1)]
    low, high = task["thresholds"]
    assert len(between) and bool(((between >= low) & (between <= high)).all())


def test_one_image_a_class_and_a_class_of_none_are_enough():
    texts = unit(3)
    task = fit_text_prototypes(texts[:2], torch.tensor([0, 1]), texts, seeded())
    assert task["centres"].shape == (3, PROTOTYPES, 16)
    torch.testing.assert_close(task["centres"][2], texts[2:].expand(PROTOTYPES, -1))


def test_heads_that_need_likelihoods_refuse_the_text_router():
    with pytest.raises(InputError, match="router"):
        configure("dpw-ridge", settings={"router": "text-prototypes"})
    assert configure("diki", settings={"router": "text-prototypes"}).router == "text-prototypes"


@pytest.mark.parametrize("name", ["dpw", "diki"])
def test_a_method_learns_answers_and_is_stored_with_it(name):
    settings = {"router": "text-prototypes", "training.epochs": 1, "training.batch_size": 8}
    method = METHODS[name](tiny_backbone(), configure(name, settings=settings))
    for task in ("aircraft", "dtd"):
        learn(method, toy_task(task))
    assert method.tasks[0].details["router"]["kind"] == "text-prototypes"
    pixels = some_pixels()
    for question in questions(method):
        assert torch.equal(answers(reload(method), pixels, question), answers(method, pixels, question))
