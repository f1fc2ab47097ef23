"""Who may speak: tasks that know a candidate, about the candidates they know, for images that belong."""

import pytest
import torch

from dpw.data.images import Images
from dpw.methods import Candidates, ClassGroup
from dpw.methods.parts.heads import known_evidence, own_likelihood
from dpw.methods.routing.gaussian import fitted_gaussian
from tests.helpers.toy_methods import answers, learn, some_pixels, toy_method, toy_task

UNSEEN = ClassGroup("unseen", ("oak", "fir"))


@pytest.fixture(scope="module")
def probe():
    method = toy_method("linear-probe")
    for name in ("aircraft", "dtd"):
        learn(method, toy_task(name))
    return method


def test_lists_without_a_learned_name_are_plain_clips_to_the_last_bit(probe):
    question, pixels = Candidates.among(UNSEEN), some_pixels()
    assert torch.equal(answers(probe, pixels, question), answers(toy_method("zero-shot"), pixels, question))


def test_answers_are_log_probabilities(probe):
    groups = [task.group() for task in probe.tasks]
    for question in (
        Candidates.among(groups[0]),
        Candidates.learned(groups),
        Candidates.across([*groups, UNSEEN]),
    ):
        total = answers(probe, some_pixels(), question).exp().sum(dim=1)
        torch.testing.assert_close(total, torch.ones_like(total))


def test_heads_share_out_what_the_evidence_leaves_of_plain_clips_odds(probe, monkeypatch):
    sure = torch.tensor([[0.0, -100.0]], dtype=torch.float64)
    monkeypatch.setattr(probe.answers, "head_logits", lambda _, images: sure.expand(len(images), 2))
    question = Candidates.among(ClassGroup("mixed", ("oak", "jet", "fir", "kite")))
    pixels = some_pixels()
    plain = (0.35 * answers(toy_method("zero-shot"), pixels, question).double()).softmax(dim=1)
    learned = plain[:, [1, 3]].sum(dim=1)
    for evidence in (-2.0, 0.0, 1.5):
        told = torch.full((len(pixels),), evidence, dtype=torch.float64)
        monkeypatch.setattr(
            probe.answers,
            "_weights",
            lambda images, _, told=told: (torch.ones(len(images), 1).double(), told),
        )
        found = answers(probe, pixels, question).exp().double()
        expected = torch.sigmoid(torch.logit(learned) + evidence)
        torch.testing.assert_close(found[:, 1], expected, rtol=1e-5, atol=0)
        torch.testing.assert_close(found[:, 0] / found[:, 2], plain[:, 0] / plain[:, 2], rtol=1e-5, atol=0)


def test_evidence_grows_with_the_likelihood_and_has_bounds():
    z = torch.tensor([-1e6, -5.0, -1.0, 0.0, 1e6], dtype=torch.float64)
    assert known_evidence(z).tolist() == [-8, -4, 0, 1, 3]


def test_a_handful_of_images_is_no_evidence():
    method = learn(toy_method("linear-probe"), toy_task("aircraft"))
    method.bank[0]["router"].tensors["own"] = method.bank[0]["router"]["own"][:5]
    assert method.answers._weights(Images.of(some_pixels()), [0])[1].tolist() == [0] * len(some_pixels())


def test_a_group_of_the_tasks_own_name_is_its_own_and_others_are_not():
    groups = [ClassGroup("a", ("lotus", "rose")), ClassGroup("b", ("rose", "sun_flower"))]
    question = Candidates.across(groups)
    assert question.known_to("b", ("sun flower", "rose")) == {2: 1, 3: 0}
    assert question.known_to("c", ("rose",)) == {1: 0, 2: 0}
    assert question.known_to("c", ("oak",)) == {}


def test_any_order_of_tasks_gives_the_same_answers_to_the_last_bit(probe):
    other = toy_method("linear-probe")
    for name in ("dtd", "aircraft"):
        learn(other, toy_task(name))
    question = Candidates.across([*(task.group() for task in probe.tasks), UNSEEN])
    assert torch.equal(answers(probe, some_pixels(), question), answers(other, some_pixels(), question))


def test_likelihoods_of_left_out_images_say_who_belongs():
    features = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    target = torch.eye(4, dtype=torch.float64) / 4
    median, spread = own_likelihood(fitted_gaussian(features, target, 1e-7))
    assert median.isfinite()
    assert 0 < float(spread) < 10
    assert float(own_likelihood(fitted_gaussian(features[:4], target, 1e-7))[1]) == float("inf")


def test_an_image_unlike_every_task_is_left_to_plain_clip(probe):
    task = probe.tasks[0]
    images = Images.of(some_pixels())
    weight, _ = probe.answers._weights(images, [0])
    probe.bank[0]["router"].tensors["own"] += 1e6
    try:
        assert bool((weight > 0).any())
        question = Candidates.among(task.group())
        plain = answers(toy_method("zero-shot"), some_pixels(), question)
        torch.testing.assert_close(
            answers(probe, some_pixels(), question), (0.35 * plain).log_softmax(dim=1), rtol=1e-5, atol=1e-5
        )
    finally:
        probe.bank[0]["router"].tensors["own"] -= 1e6


def test_a_task_is_asked_only_about_images_it_may_decide(probe, monkeypatch):
    asked = []
    speak = probe.answers.head_logits

    def counting(index, images):
        asked.append((index, len(images)))
        return speak(index, images)

    weight = torch.tensor([[1.0, 0.0], [0.5, 0.5], [1e-7, 0.9]], dtype=torch.float64)
    monkeypatch.setattr(probe.answers, "head_logits", counting)
    monkeypatch.setattr(probe.answers, "_weights", lambda _, speakers: (weight[:, speakers], weight[:, 0]))
    question = Candidates.learned([task.group() for task in probe.tasks])
    assert answers(probe, some_pixels()[:3], question).isfinite().all()
    assert asked == [(0, 2), (1, 2)]
