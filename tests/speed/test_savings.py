"""Single savings: packed prompts, last blocks, remembered features, compiled and checkpointed towers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from benchmarks import models
from dpw.clip import blocks
from dpw.clip.adaptation import Adaptation
from dpw.clip.sequences import PackedPrompts
from dpw.data.images import Images
from dpw.engine.training import prepare_towers
from dpw.methods import Candidates
from dpw.methods.dpw.statistics import RunningScores
from dpw.methods.feature_cache import FeatureCache
from dpw.methods.routing.gaussian import GaussianRouter

BACKBONE = models.backbone("tiny")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
prompts = st.lists(
    st.text("abc ", max_size=12).map(lambda words: f"a photo of {words}."), min_size=1, max_size=6
)


@settings(max_examples=25, deadline=None)
@given(prompts)
def test_packed_prompts_equal_whole_ones(names):
    tokens = BACKBONE.tokenize(names)
    with torch.no_grad():
        packed = BACKBONE.encode_texts(tokens)
        whole = BACKBONE.encode_texts(
            tokens, Adaptation()
        )  # may not be packed: nobody says it looks at single tokens
    torch.testing.assert_close(packed, whole, **CLOSE)


def test_the_common_beginning_is_computed_once_and_nothing_behind_an_end():
    tokens = BACKBONE.tokenize(["a photo of a cat.", "a photo of a very old dog.", "a photo of a dog."])
    packed = PackedPrompts(tokens, BACKBONE.end_of_text(tokens))
    assert packed.shared == 5  # start, a, photo, of, a
    assert len(packed.ids) == 5 + (1 + 2) + (3 + 2) + (1 + 2)
    equal = BACKBONE.tokenize(["x."] * 3)
    assert PackedPrompts(equal, BACKBONE.end_of_text(equal)).shared == equal.shape[1] - 1


@torch.no_grad()
@pytest.mark.parametrize("name", ["dpw", "dpw-reduced", "diki"])
def test_many_weights_at_once_equal_one_after_another(name):
    method = models.learned(name, BACKBONE, 1, 4)
    group = models.class_group(0, 4)
    weight, gate = torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64), torch.tensor([False, True, False])
    together = method.encode_texts(0, group, weight, gate)
    single = [method.encode_texts(0, group, weight[[row]], gate[[row]])[0] for row in range(3)]
    torch.testing.assert_close(together, torch.stack(single), **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("name", ["dpw", "dpw-reduced", "diki"])
def test_the_last_image_block_for_cls_alone_equals_the_whole_block(name):
    method, pixels = models.learned(name, BACKBONE, 1, 4), models.photographs("tiny", 3)
    adaptation = method.image_adaptation(0, torch.tensor([0.2, 0.5, 0.9]), torch.tensor([True, False, True]))
    whole = BACKBONE.project_images(BACKBONE.image_tokens(pixels, adaptation)[:, 0])
    torch.testing.assert_close(BACKBONE.encode_images(pixels, adaptation), whole, **CLOSE)


@torch.no_grad()
def test_cls_statistics_need_only_cls_in_the_last_block():
    method, pixels = models.learned("dpw", BACKBONE, 1, 4), models.photographs("tiny", 3)
    moments = []
    for run in (BACKBONE.image_tokens, BACKBONE.encode_images):
        running = RunningScores()
        run(pixels, method.image_adaptation(0, None, None, running))
        moments.append(running.moments())
    torch.testing.assert_close(moments[0], moments[1], **CLOSE)


def loss_and_gradients(method):
    """One training step's numbers."""
    loss = method(models.photographs("tiny", 4), torch.arange(4))
    loss.backward()
    gradients = {name: value.grad.clone() for name, value in method.trainable().items()}
    method.zero_grad()
    return loss.detach(), gradients


@pytest.mark.parametrize(("together", "sizes"), [(1, [1, 1, 1, 1]), (3, [3, 1])])
def test_an_mlp_over_few_images_at_a_time_gives_the_same_numbers(monkeypatch, together, sizes):
    method = models.start_training(models.learned("dpw", BACKBONE, 1, 4))
    method.bank.eval()  # no dropout
    expected = loss_and_gradients(method)
    shape, parts = BACKBONE.image_shape, []
    monkeypatch.setattr(blocks, "REUSED", together * shape.tokens * 4 * shape.width * 4)
    at_once = blocks._with_mlp_at_once
    monkeypatch.setattr(
        blocks,
        "_with_mlp_at_once",
        lambda block, index, u, adaptation: (parts.append(len(u)), at_once(block, index, u, adaptation))[1],
    )
    torch.testing.assert_close(loss_and_gradients(method), expected, **CLOSE)
    assert parts[: len(sizes)] == sizes


@pytest.mark.parametrize("name", ["dpw", "diki"])
def test_checkpointed_towers_give_the_same_gradients(name):
    wanted = {"training": {"gradient_checkpointing": True}}
    method = models.start_training(models.learned(name, BACKBONE, 1, 4, **wanted))
    prepare_towers(method)
    assert BACKBONE.gradient_checkpointing
    torch.manual_seed(0)
    checkpointed = loss_and_gradients(method)
    BACKBONE.gradient_checkpointing = False
    torch.manual_seed(0)
    expected = loss_and_gradients(method)
    torch.testing.assert_close(checkpointed, expected, **CLOSE)


@pytest.mark.parametrize("name", ["dpw", "diki"])
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # from inside torch.compile
def test_compiled_towers_give_the_same_numbers(name):
    backbone = models.backbone("tiny")
    method = models.start_training(models.learned(name, backbone, 1, 4))
    method.bank.eval()  # dropout draws other numbers when compiled
    expected = loss_and_gradients(method)
    backbone.compile(backend="aot_eager")
    torch.testing.assert_close(loss_and_gradients(method), expected, **CLOSE)
    pixels = models.photographs("tiny", 3)
    question = Candidates.among(models.class_group(0, 4))
    with torch.inference_mode():
        compiled = method.eval().logits(Images.of(pixels), question)
        backbone._compiled = None
        torch.testing.assert_close(compiled, method.logits(Images.of(pixels), question), **CLOSE)


def test_a_batch_is_frozen_only_once(monkeypatch):
    method, images = models.learned("dpw", BACKBONE, 2, 4), Images.of(models.photographs("tiny", 3))
    calls = []
    frozen = method.frozen_image_features
    monkeypatch.setattr(method, "frozen_image_features", lambda pixels: (calls.append(1), frozen(pixels))[1])
    with torch.inference_mode():
        method.logits(images, Candidates.among(models.class_group(0, 4)))
        method.route(images)
    assert len(calls) == 1


def test_features_beyond_the_limit_wait_on_disk():
    rows = torch.randn(6, 8, dtype=torch.float64)
    memory = FeatureCache(in_memory=2 * rows[0].nbytes)
    for _ in range(2):
        found = memory.recall(range(6), lambda places: rows[places])
        assert torch.equal(found, rows)
    assert memory.recall([5, 0], rows.__getitem__).equal(rows[[5, 0]])
    assert len(memory) == 6


def test_likelihoods_follow_when_tasks_come_and_go():
    router, generator = GaussianRouter(8), torch.Generator().manual_seed(0)
    features = F.normalize(torch.randn(5, 8, generator=generator), dim=-1)
    for _ in range(3):
        router.add(*models.random_gaussian(8, generator))
    three = router.log_likelihood(features)
    router.remove(1)
    assert torch.equal(router.log_likelihood(features), three[:, [0, 2]])
    router.means[0] = router.means[0] + 1
    assert not torch.equal(router.log_likelihood(features)[:, 0], three[:, 0])


@torch.inference_mode()
def test_exact_texts_are_kept_by_task_classes_and_weight():
    method = models.learned("dpw", BACKBONE, 2, 4, text_weight="exact")
    group = models.class_group(0, 4)
    calls = []
    encode = method.texts.encode
    method.texts.encode = lambda *question: (calls.append(1), encode(*question))[1]
    features = F.normalize(torch.randn(3, BACKBONE.feature_width), dim=-1)
    weight, gate = torch.tensor([0.25, 0.5, 0.25]), torch.zeros(3, dtype=torch.bool)
    for _ in range(2):
        method.texts.cosines(features, 0, group, weight, gate)
    assert len(calls) == 2
