"""The whole T×T accuracy matrix: the same numbers as by evaluating every row anew, for about one pass."""

import pytest
import torch
from benchmarks.straightforward import Straightforward

from benchmarks import models
from dpw.data.images import Images
from dpw.data.pixels import PixelCache
from dpw.engine.devices import make_accelerator
from dpw.engine.evaluation import Evaluator, own_group
from dpw.methods import Candidates
from dpw.methods.feature_cache import FeatureCache
from tests.helpers.toy_methods import learn, toy_method, toy_task

TASKS, CLASSES, TEST = 3, 5, 6
OFFICIAL = {"decision": "batch-vote", "text_weight": "exact", "strict_filter": True}


@pytest.fixture(scope="module")
def backbone():
    return models.backbone("tiny")


def image_sets():
    """Images and labels of every task, each with a colour of its own."""
    for task in range(TASKS):
        pixels = (models.photographs("tiny", TEST, seed=task) // 2 + 30 * task).to(torch.uint8)
        yield pixels, torch.arange(TEST) % CLASSES


def accuracy_matrix(backbone, answer, **settings):
    """p[i][j] with `answer(method, pixels, task)` giving the indices of the predicted classes."""
    method = models.learned("dpw", backbone, 0, CLASSES, **settings)
    method.feature_cache = FeatureCache()
    matrix = []
    for row in range(TASKS):
        models.add_task(method, row, CLASSES)
        results = [
            (answer(method, pixels, task), labels) for task, (pixels, labels) in enumerate(image_sets())
        ]
        matrix.append([int((guess == labels).sum()) for guess, labels in results])
    return matrix, method


def ours(setting):
    """Answers of `dpw` for images that can be recognised again."""

    def answer(method, pixels, task):
        images = Images.of(pixels, [f"{task}-{row}" for row in range(len(pixels))])
        if setting == "class" and task < len(method.tasks):
            groups = [models.class_group(index, CLASSES) for index in range(len(method.tasks))]
            return method.logits(images, Candidates.learned(groups)).argmax(dim=1) - task * CLASSES
        group = models.class_group(task, CLASSES)
        return method.logits(images, Candidates.among(group)).argmax(dim=1)

    return answer


def plain(setting):
    """The same by the straightforward way."""

    def answer(method, pixels, task):
        way = Straightforward(method)
        tokens = [method.tokens(models.class_group(index, CLASSES)) for index in range(TASKS)]
        if setting == "class" and task < len(method.tasks):
            logits = way.class_incremental(pixels, tokens[: len(method.tasks)])
            return logits.argmax(dim=1) - task * CLASSES
        return way.task_incremental(pixels, tokens[task]).argmax(dim=1)

    return answer


@torch.inference_mode()
@pytest.mark.parametrize("setting", ["task", "class"])
def test_the_matrix_equals_the_straightforward_one(backbone, setting):
    quick, _ = accuracy_matrix(backbone, ours(setting), **OFFICIAL)
    slow, _ = accuracy_matrix(backbone, plain(setting), **OFFICIAL)
    assert quick == slow


@torch.inference_mode()
@pytest.mark.parametrize("setting", ["task", "class"])
def test_images_pass_a_tower_once_frozen_and_once_for_each_task_they_were_taken_for(
    backbone, setting, monkeypatch
):
    passed = []
    encode = backbone.encode_images

    def counting(pixels, adaptation=None):
        passed.append(len(pixels))
        return encode(pixels, adaptation)

    monkeypatch.setattr(backbone, "encode_images", counting)
    chosen = set()

    def answer(method, pixels, task):
        route = method.route(Images.of(pixels))
        chosen.update((task, row, int(index)) for row, index in enumerate(route.task))
        passed.clear()
        guess = ours(setting)(method, pixels, task)
        counted.append(sum(passed))
        return guess

    counted = []
    _, method = accuracy_matrix(backbone, answer)
    images = TASKS * TEST
    assert sum(counted) == images + len(chosen)
    assert len(method.feature_cache) == images + len(chosen)
    assert sum(counted) < 2 * TASKS * images / 2, "each row anew would take 2·T passes"


def cross_domain(method):
    """An evaluator across domains."""
    cache = PixelCache(method.backbone.preprocessing, folder=None)
    return Evaluator(cache, make_accelerator(), "cross-domain")


def test_across_domains_every_test_set_is_asked_among_all_classes_at_every_step():
    method = learn(toy_method("zero-shot"), toy_task("dtd"))
    tasks = [toy_task(name) for name in ("aircraft", "dtd", "mnist")]
    groups = [own_group(task) for task in tasks]
    evaluator = cross_domain(method)
    for task in tasks:
        assert evaluator.question(method, task, groups) == Candidates.across(groups)
    answer = method.logits(Images.of(torch.zeros(1, 3, 16, 16)), Candidates.across(groups))
    assert answer.shape == (1, 7)
    assert all(test.accuracy is not None for test in evaluator.row(method, tasks))


def test_across_domains_the_label_counts_from_the_start_of_its_own_domain(monkeypatch):
    method, tasks = toy_method("zero-shot"), [toy_task(name) for name in ("aircraft", "dtd")]

    def always_the_third(images, candidates):
        return torch.eye(len(candidates.classes))[2].expand(len(images), -1)

    monkeypatch.setattr(method, "logits", always_the_third)
    first, second = cross_domain(method).row(method, tasks)
    assert first.accuracy == 0
    assert second.accuracy == pytest.approx(100 / 3)


def test_methods_that_know_only_learned_classes_are_asked_among_these():
    method = learn(toy_method("l2p"), toy_task("dtd"))
    tasks = [toy_task(name) for name in ("aircraft", "dtd")]
    unseen, seen = cross_domain(method).row(method, tasks)
    assert unseen.accuracy is None
    assert seen.accuracy is not None
