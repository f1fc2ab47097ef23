"""Graphs of whole models answer as the methods do, image by image in a mixed batch and for every question."""

import numpy as np
import pytest
import torch

from dpw.data.images import Images
from dpw.errors import InputError
from dpw.methods import Candidates
from dpw.methods.graphs.whole import graph_of
from tests.helpers.checks import assert_alike
from tests.helpers.families import family_backbone
from tests.helpers.toy_methods import learn, stripes, toy_method, toy_task

EXPORTED = [
    "dpw-ridge",
    "dpw",
    "dpw-reduced",
    "diki",
    "zero-shot",
    "finetune",
    "wise-ft",
    "linear-probe",
    "tip-adapter",
    "rail",
    "lada",
]
TASKS = ("aircraft", "dtd", "mnist")


@pytest.fixture(scope="module")
def pixels():
    """Images of all tasks, and noise that belongs to none."""
    own = [stripes(3, 4, seed)[0].transpose(0, 3, 1, 2) for seed in (0, 10, 20)]
    noise = np.random.default_rng(0).integers(0, 256, (4, 3, 16, 16), dtype=np.uint8)
    return torch.from_numpy(np.concatenate([noise[:1], *own, noise[1:]]))


def learned(name, backbone=None, **settings):
    method = toy_method(name, backbone=backbone, **settings)
    for task in TASKS:
        learn(method, toy_task(task))
    return method.eval()


def questions(method):
    """What may be asked of a graph, with its number: all classes, and those of each task."""
    groups = [task.group() for task in method.tasks]
    return [(-1, Candidates.learned(groups)), *((i, Candidates.among(g)) for i, g in enumerate(groups))]


@pytest.mark.parametrize("name", EXPORTED)
def test_a_graph_answers_as_its_method(name, pixels):
    check(learned(name), pixels)


@pytest.mark.parametrize("name", ["dpw-ridge", "dpw"])
@pytest.mark.parametrize("family", ["metaclip_2", "siglip", "chinese_clip", "altclip"])
def test_a_graph_of_every_family_answers_as_its_method(family, name, pixels):
    check(learned(name, family_backbone(family)), pixels)


def check(method, pixels):
    """Compare a graph with its method on every question."""
    graph = graph_of(method)
    with torch.inference_mode():
        for number, candidates in questions(method):
            images = Images.of(pixels)
            expected = method.logits(images, candidates)
            found = graph(pixels, torch.tensor([number]))
            asked = graph.questions.asked[number + 1]
            assert torch.isneginf(found[0][:, ~asked]).all()
            assert_alike(method, found[0][:, asked], expected, rtol=2e-6)
            alone = graph(pixels[4:5], torch.tensor([number]))[0]
            assert_alike(method, alone[:, asked], expected[4:5], rtol=2e-6)
        assert_routes(method, images, dict(zip(graph.names, found, strict=True)))


def assert_routes(method, images, found):
    route = method.route(images)
    if route is None:
        assert set(found) == {"logits"}
        return
    assert torch.equal(route.task, found["task"])
    torch.testing.assert_close(route.confidence.float(), found["confidence"], atol=1e-5, rtol=0)
    typical = method.typicality(images)
    torch.testing.assert_close(typical.float(), found["typicality"], atol=1e-6, rtol=0)


def test_tasks_with_different_heads_are_gathered_together(pixels):
    method = toy_method("dpw", heads="fixed", head_multiple=1.0)
    learn(method, toy_task("aircraft"))
    method.config = method.config.model_copy(update={"head_multiple": 0.5})
    learn(method, toy_task("mnist"))
    method.eval()
    assert len({module["image"].heads for module in method.bank}) == 2
    candidates = Candidates.learned([task.group() for task in method.tasks])
    with torch.inference_mode():
        expected = method.logits(Images.of(pixels), candidates)
        found = graph_of(method)(pixels, torch.tensor([-1]))[0]
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=2e-6)


def test_without_questions_about_single_tasks_fewer_texts_are_kept(pixels):
    method = learned("dpw")
    whole, small = graph_of(method), graph_of(method, by_task=False)
    assert len(small.whole.texts.texts) * len(TASKS) == len(whole.texts.texts)
    with torch.inference_mode():
        for expected, found in zip(whole(pixels, torch.tensor([-1])), small(pixels), strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("l2p", {}, "'l2p' cannot be exported"),
        ("s-prompts", {}, "'s-prompts' cannot be exported"),
        ("dpw", {"text_weight": "exact"}, "text_weight"),
        ("diki", {"decision": "batch-vote"}, "vote"),
        ("dpw", {"activation": "sigmoid"}, "ablation"),
    ],
)
def test_what_cannot_be_a_graph_is_refused_in_a_sentence(name, settings, told):
    method = learn(toy_method(name, **settings), toy_task("aircraft"))
    with pytest.raises(InputError, match=told):
        graph_of(method)
