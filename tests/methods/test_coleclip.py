"""CoLeCLIP: read-only prompts, the vocabulary, and training against earlier classes."""

import dataclasses

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from dpw.methods import Candidates, ClassGroup
from dpw.methods.coleclip import ReadOnlyPrompts, hidden_negatives
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import Trainer, answers, learn, some_pixels, toy_method, toy_task


def coleclip(*tasks: str):
    method = toy_method("coleclip")
    for task in tasks:
        learn(method, toy_task(task))
    return method


def test_cls_is_plain_clips_whatever_prompts_there_are():
    backbone, pixels = tiny_backbone(), some_pixels()
    plain = backbone.image_tokens(pixels)
    prompts = torch.randn(3, backbone.image_shape.width)
    for count in (1, 2, 3):
        prompted = backbone.image_tokens(pixels, ReadOnlyPrompts(prompts[:count]))
        torch.testing.assert_close(prompted[:, :-count], plain, rtol=1e-5, atol=1e-5)


def test_an_earlier_prompt_does_not_see_a_later_one():
    backbone, pixels = tiny_backbone(), some_pixels()
    prompts = torch.randn(2, backbone.image_shape.width)
    alone = backbone.image_tokens(pixels, ReadOnlyPrompts(prompts[:1]))[:, -1]
    both = backbone.image_tokens(pixels, ReadOnlyPrompts(prompts))[:, -2:]
    torch.testing.assert_close(both[:, 0], alone, rtol=1e-5, atol=1e-5)
    later = backbone.image_tokens(pixels, ReadOnlyPrompts(prompts[1:]))[:, -1]
    assert not torch.allclose(both[:, 1], later)


def test_a_task_starts_from_plain_clips_texts_and_no_drift():
    method = toy_method("coleclip")
    task = dataclasses.replace(toy_task("aircraft"), protocol="coop")  # one template in training and test
    trainer = Trainer(method, task)
    pixels, labels = trainer.images.batch_of([0, 1, 2])
    features, cls = method.task_features(pixels)
    texts = method.frozen_text_features(method.tasks[0].group())
    torch.testing.assert_close(method.initial_vectors, texts)
    scale = method.backbone.logit_scale
    expected = 0.5 * sum(F.cross_entropy(scale * f @ texts.T, labels) for f in (features[:, -1], cls))
    torch.testing.assert_close(method(pixels, labels), expected, rtol=1e-4, atol=1e-4)


def test_class_vectors_follow_the_texts_slowly():
    method = toy_method("coleclip", memory_rate=0.25)
    Trainer(method, toy_task("aircraft"))
    start = method.vectors.clone()
    method.latest = F.normalize(start.flip(0), dim=-1)
    method.after_step(0)
    torch.testing.assert_close(method.vectors, F.normalize(0.25 * method.latest + 0.75 * start, dim=-1))


def test_what_survives_a_task_is_one_token_and_one_vector_per_class():
    method = coleclip("aircraft", "dtd")
    assert method.parameter_count() == 2 * method.backbone.image_shape.width
    assert sorted(method.vocabulary) == ["dots", "jet", "kite", "mesh", "wool"]
    assert method.lora is None
    assert {name: tuple(t.shape) for name, t in method.task_state(1).items()} == {
        "prompt": (48,),
        "vocabulary": (3, 16),
    }


def test_unknown_names_are_answered_by_plain_clip():
    method, pixels = coleclip("aircraft"), some_pixels()
    question = Candidates.among(ClassGroup("trees", ("oak", "jet", "elm")))
    ours = answers(method, pixels, question)
    plain = answers(toy_method("zero-shot"), pixels, question)
    torch.testing.assert_close(ours[:, [0, 2]], plain[:, [0, 2]], rtol=1e-4, atol=1e-3)
    assert not torch.allclose(ours[:, 1], plain[:, 1], atol=1e-2)


def test_a_name_that_two_tasks_know_is_one_class():
    method = coleclip("aircraft")
    before = method.vocabulary["jet"].clone()
    again = dataclasses.replace(toy_task("dtd"), classes=("jet", "wool", "mesh"))
    learn(method, again)
    assert not torch.equal(method.vocabulary["jet"], before)
    assert torch.equal(method.task_state(0)["vocabulary"][0], method.task_state(1)["vocabulary"][0])
    logits = answers(method, some_pixels(), Candidates.learned([task.group() for task in method.tasks]))
    assert torch.equal(logits[:, 0], logits[:, 2])


def test_earlier_classes_join_the_loss_in_the_second_half_of_training():
    method = toy_method("coleclip", negatives_quantile=0.0, training={"iterations": 35})
    learn(method, toy_task("aircraft"))
    trainer = Trainer(method, toy_task("dtd"))
    pixels, labels = trainer.images.batch_of(list(range(8)))
    # An earlier class as attractive as one of the new classes, but not more than all of them together.
    first = method.initial_vectors[0]
    method.bank[0].vocabulary = torch.stack([first, -first])
    losses = []
    for step in (0, 17, 18):  # of 35 planned ones
        method.step = step
        losses.append(method(pixels, labels).item())
    assert losses[1] == losses[0]
    assert losses[2] > losses[0]


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), quantile=st.floats(0, 1))
def test_earlier_classes_are_hidden_from_images_near_them_and_own_classes_never(seed, quantile):
    logits = 5 * torch.randn(10, 6, generator=torch.Generator().manual_seed(seed))
    hidden = hidden_negatives(logits, [torch.tensor([3, 4]), torch.tensor([5])], 3, 10.0, quantile)
    assert not hidden[:, :3].any()
    assert torch.equal(hidden[:, 3], hidden[:, 4])
    gap = (logits[:, :3].logsumexp(dim=1) - logits[:, 5]) / 10
    assert hidden[gap <= 0, 5].all()
    if hidden[:, 5].any() and not hidden[:, 5].all():
        assert gap[hidden[:, 5]].max() <= gap[~hidden[:, 5]].min()


def test_in_the_second_half_every_image_is_scored_by_the_best_owner_of_a_name():
    """Both tasks know `jet`, and no earlier class is left to attract anything."""
    method = toy_method("coleclip", negatives_after=0.0)
    learn(method, dataclasses.replace(toy_task("aircraft"), classes=("jet", "wool")))
    trainer = Trainer(method, dataclasses.replace(toy_task("dtd"), classes=("jet", "wool", "mesh")))
    with torch.no_grad():  # the prompt of the first task stands out, so that the best owner is not the newest
        method.bank[0].prompt.add_(20 * torch.randn(48, generator=torch.Generator().manual_seed(1)))
    pixels, labels = trainer.images.batch_of(list(range(8)))
    with torch.no_grad():
        features, cls = method.task_features(pixels)
        scale, classes = method.backbone.logit_scale, method.initial_vectors
        texts = F.normalize(method.backbone.encode_texts(method.training_tokens()), dim=-1)
        classes = F.normalize((method.vectors + texts) / 2, dim=-1)
        by_task = scale * features @ classes.T
        best = torch.cat([by_task[..., :2].amax(dim=1), by_task[:, -1, 2:]], dim=1)
        drift = torch.linalg.vector_norm(classes - method.initial_vectors, dim=-1).mean()
        expected = 0.5 * (F.cross_entropy(best, labels) + F.cross_entropy(scale * cls @ classes.T, labels))
        assert not torch.allclose(best, by_task[:, -1])
        torch.testing.assert_close(method(pixels, labels), expected + drift, rtol=1e-4, atol=1e-4)
