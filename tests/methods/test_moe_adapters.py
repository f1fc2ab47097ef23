"""MoE-Adapters: experts, gates, freezing, and autoencoders that tell the task."""

import pytest
import torch
from transformers import CLIPConfig, CLIPModel

from dpw.clip.adaptation import Adaptation
from dpw.clip.backbone import Backbone
from dpw.clip.preprocessing import Preprocessing
from dpw.data.images import Images
from dpw.data.reference import ReferenceData
from dpw.errors import InputError
from dpw.methods import create
from tests.helpers.checks import nonempty
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import (
    ToyImages,
    Trainer,
    answers,
    learn,
    questions,
    some_pixels,
    toy_method,
    toy_task,
)

QUICK = {"router_iterations": 60, "reference_iterations": 60}


def moe(reference: bool = False, **settings):
    method = toy_method("moe-adapters", **QUICK, **settings)
    if not reference:
        method.reference = ReferenceData()
    return method


def pixels_of(task: str) -> torch.Tensor:
    """Training images of a toy task."""
    images = ToyImages(toy_task(task).train, tiny_backbone())
    return torch.cat([pixels for pixels, _ in images.batches()])


@pytest.fixture(scope="module")
def learned():
    """Two tasks, without reference images."""
    method = moe()
    for task in ("aircraft", "dtd"):
        learn(method, toy_task(task, train=48))
    return method


def test_a_new_task_starts_as_plain_clip_bit_for_bit():
    method = moe()
    Trainer(method, toy_task("aircraft"))
    method.eval()
    # An adaptation that adds nothing takes the same path over whole prompts.
    texts = method.backbone.encode_texts(method.training_tokens(), Adaptation())
    texts = texts / texts.norm(dim=-1, keepdim=True)
    pixels = some_pixels()
    plain = method.backbone.logit_scale * method.frozen_image_features(pixels) @ texts.T
    assert torch.equal(method.task_logits(pixels), plain)


def test_every_sample_takes_two_experts_whose_weights_sum_to_one(learned):
    u = torch.randn(9, 5, learned.backbone.image_shape.width)
    chosen, weights = learned.image_adaptation(0).gates(1, u)
    assert chosen.shape == (9, 2)
    assert (chosen[:, 0] != chosen[:, 1]).all()
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(9))


def test_the_text_gates_choose_the_same_experts_for_every_sentence(learned):
    seen = []
    mixture = learned._mixture(1, "text")
    gates = mixture.gates
    mixture.gates = lambda block, u: seen.append(gates(block, u)) or seen[-1]
    learned.backbone.encode_texts(learned.backbone.tokenize(["a cat", "two long dogs", "x"]), mixture)
    for chosen, _ in nonempty(seen):
        assert (chosen == chosen[0]).all()


def test_training_is_noisy_and_counts_what_was_chosen():
    method = moe()
    trainer = Trainer(method, toy_task("aircraft")).run(3)
    blocks = method.backbone.image_shape.blocks
    assert method.counts["image"].sum(dim=1).tolist() == [3 * 8 * 2] * blocks
    assert (method.counts["image"] > 0).sum() > 2 * blocks
    trainer.end()
    assert method.counts is None


def test_the_most_used_experts_are_frozen_for_ever():
    method = learn(moe(), toy_task("aircraft"))
    for tower in ("image", "text"):
        assert method.experts[tower].frozen.sum(dim=1).tolist() == [2, 2]
    kept = {}
    for block, row in enumerate(method.experts["image"].frozen.tolist()):
        for expert in (index for index, frozen in enumerate(row) if frozen):
            kept[block, expert] = method.experts["image"].at(block, expert).up.clone()
    trainer = Trainer(method, toy_task("dtd"))
    assert not any(f"experts.image.blocks.{b}.{e}.up" in trainer.parameters for b, e in nonempty(kept))
    trainer.run(3).end()
    for (block, expert), up in nonempty(kept.items()):
        assert torch.equal(method.experts["image"].at(block, expert).up, up)


def test_of_equally_used_experts_the_first_are_frozen():
    experts = moe().new_experts()["text"]
    experts.freeze_most_used(torch.tensor([[0, 5, 5, 5] + [0] * 18, [0] * 22]), 2)
    assert experts.frozen.nonzero().tolist() == [[0, 1], [0, 2], [1, 0], [1, 1]]


def test_autoencoders_tell_the_tasks_apart(learned):
    for index, task in enumerate(("aircraft", "dtd")):
        route = learned.route(Images.of(pixels_of(task)))
        assert route.task.tolist() == [index] * 24


def test_what_no_task_can_repeat_goes_to_plain_clip(learned):
    strange = torch.randint(0, 256, (4, 3, 16, 16), dtype=torch.uint8)
    assert learned.route(Images.of(strange)).weight.tolist() == [0, 0, 0, 0]
    question = questions(learned)[0]
    expected = answers(toy_method("zero-shot"), strange, question)
    torch.testing.assert_close(answers(learned, strange, question), expected)


def test_reference_images_stand_for_no_task():
    method = learn(moe(reference=True, reject_threshold=1.0), toy_task("aircraft", train=48))
    prepared = [method.backbone.preprocessing.pixels(s.image) for s in method.reference.images]
    reference = torch.stack([torch.from_numpy(image) for image in prepared])
    assert method.route(Images.of(reference)).weight.sum() == 0
    without = learn(moe(reject_threshold=1.0), toy_task("aircraft", train=48))
    assert without.route(Images.of(reference)).weight.min() == 1


def test_the_published_vote_decides_for_the_whole_batch():
    method = moe(decision="batch-vote")
    for task in ("aircraft", "dtd"):
        learn(method, toy_task(task))
    mixed = torch.cat([pixels_of("aircraft")[:7], pixels_of("dtd")[:2]])
    route = method.route(Images.of(mixed))
    assert len(set(route.task.tolist())) == 1
    assert len(set(route.weight.tolist())) == 1


def test_the_tasks_own_images_cannot_be_the_reference():
    with pytest.raises(InputError, match="would reject the task's own images"):
        learn(moe(reference_images="task"), toy_task("aircraft"))


def test_parameter_counts_on_vit_b_16_are_the_published_ones():
    with torch.device("meta"):
        clip = CLIPModel(CLIPConfig(vision_config={"patch_size": 16}))
    backbone = Backbone(clip, Preprocessing(size=224, crop=(224, 224)), None, "meta")
    method = create("moe-adapters", backbone)
    assert sum(tensor.numel() for tensor in method.new_experts().parameters()) == 43_625_472
    assert sum(t.numel() for gates in method.new_gates().values() for t in gates.parameters()) == 675_840


def test_a_vote_is_calibrated_on_means_of_classes():
    """The mean of a batch varies little: a threshold for single images would accept almost any batch."""
    error = torch.tensor([1.0, 9.0, 1.0, 9.0, 2.0, 8.0, 2.0, 8.0, 3.0, 9.0])
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2, 2])
    assert moe().router._worst(error, labels) == error.quantile(0.99)
    vote = moe(decision="batch-vote").router._worst(error, labels)  # classes have means 5, 5 and 6
    assert vote == pytest.approx(16 / 3 + 2.3263 * 0.57735, abs=1e-4)
    assert moe(decision="batch-vote").router._worst(error[:4], labels[:4]) == error[:4].quantile(0.99)


def test_says_at_the_start_that_there_are_no_reference_images():
    assert "reference_images=FOLDER" in moe().notices()[0]
    assert moe(reference=True).notices() == []
    assert moe(reference_images="some/folder").notices() == []
