"""DPW as a method: isolation, batch independence, plain CLIP where it must be, parameter counts."""

import pytest
import torch

from dpw.data.images import Images
from dpw.methods import Candidates, create
from dpw.methods.dpw.tower import DPWTower
from tests.helpers.bfloat16 import needs_bfloat16
from tests.helpers.checks import nonempty
from tests.helpers.digest import tensors_digest
from tests.helpers.golden_methods import golden_dpw
from tests.helpers.tiny_clip import tiny_backbone, vit_b16


def plain_logits(method, pixels, group):
    """What frozen CLIP says."""
    scale = method.backbone.logit_scale
    return scale * method.frozen_image_features(pixels) @ method.frozen_text_features(group).T


@torch.no_grad()
def test_without_a_task_the_model_is_plain_clip():
    method, groups, case, _ = golden_dpw("sharp", decision="per-image")
    expected = plain_logits(method, case["images_u8"], groups[0])
    for _ in range(3):
        method.forget(0)
    assert torch.equal(method.logits(Images.of(case["images_u8"]), Candidates.among(groups[0])), expected)


@torch.no_grad()
def test_an_image_far_from_every_task_gets_plain_clip():
    method, groups, case, _ = golden_dpw("sharp", decision="per-image")
    expected = plain_logits(method, case["images_u8"], groups[1])
    for module in nonempty(method.bank):
        module["router"].tensors["mean"] += 1000  # weight 0 for every image
    logits = method.logits(Images.of(case["images_u8"]), Candidates.among(groups[1]))
    assert torch.allclose(logits, expected, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("which", ["sharp", "blunt"])
@pytest.mark.parametrize("text_weight", ["exact", "grid"])
@pytest.mark.parametrize("variant", ["task", "class"])
def test_batches_of_any_size_and_order_give_the_same_logits(which, text_weight, variant):
    method, groups, case, _ = golden_dpw(which, decision="per-image", text_weight=text_weight)
    question = Candidates.among(groups[2]) if variant == "task" else Candidates.learned(groups)
    pixels = case["images_u8"].repeat(8, 1, 1, 1)[:64]

    def by(size, order):
        parts = [method.logits(Images.of(pixels[rows]), question) for rows in order.split(size)]
        return torch.cat(parts)[order.argsort()]

    whole = by(64, torch.arange(64))
    for size in (1, 7):
        assert torch.allclose(by(size, torch.arange(64)), whole, atol=1e-4)
    shuffled = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(by(64, shuffled), whole, atol=1e-4)


@torch.no_grad()
def test_a_mixed_batch_uses_several_tasks():
    method, _, case, _ = golden_dpw("sharp", decision="per-image")
    assert len(set(method.route(Images.of(case["images_u8"])).task.tolist())) > 1


@torch.no_grad()
def test_the_grid_agrees_with_exact_text_weights():
    for which in ("sharp", "blunt"):
        exact, groups, case, _ = golden_dpw(which, decision="per-image", text_weight="exact")
        grid, _, _, _ = golden_dpw(which, decision="per-image", text_weight="grid")
        images = Images.of(case["images_u8"])
        a = exact.logits(images, Candidates.learned(groups))
        b = grid.logits(images, Candidates.learned(groups))
        assert torch.equal(a.argmax(dim=1), b.argmax(dim=1))


@torch.no_grad()
def test_remembered_features_give_the_same_logits():
    from dpw.methods.feature_cache import FeatureCache

    method, groups, case, _ = golden_dpw("sharp", decision="per-image")
    pixels, keys = case["images_u8"], [str(i) for i in range(9)]
    expected = method.logits(Images.of(pixels), Candidates.among(groups[0]))
    method.feature_cache = FeatureCache()
    for _ in range(2):
        logits = method.logits(Images.of(pixels, keys), Candidates.among(groups[0]))
        assert torch.allclose(logits, expected, atol=1e-5)
    assert len(method.feature_cache) == 18  # a frozen and an adapted row for each image


def test_an_unlearned_task_cannot_be_asked_for_by_name():
    method, groups, case, _ = golden_dpw("sharp")
    method.forget(1)
    with pytest.raises(ValueError, match="task1"):
        method.logits(Images.of(case["images_u8"]), Candidates.learned(groups))


def test_forgetting_one_task_leaves_the_others_byte_for_byte():
    method, _, _, _ = golden_dpw("sharp")
    before = [tensors_digest(method.task_state(index)) for index in (0, 2)]
    method.forget(1)
    assert [tensors_digest(method.task_state(index)) for index in (0, 1)] == before


def test_state_round_trip_gives_equal_logits():
    method, groups, case, _ = golden_dpw("sharp", decision="per-image")
    fresh, _, _, _ = golden_dpw("blunt", decision="per-image")
    for _ in range(3):
        fresh.forget(0)
    fresh.load_shared_state(method.shared_state())
    for index, task in enumerate(method.tasks):
        fresh.load_task(task, method.task_state(index))
    images = Images.of(case["images_u8"])
    with torch.no_grad():
        for question in (Candidates.among(groups[0]), Candidates.learned(groups)):
            assert torch.equal(method.logits(images, question), fresh.logits(images, question))


def count(name: str, heads: tuple[int, int], rank: int, own_slice: bool) -> int:
    """Learned parameters of one task of DPW on ViT-B/16."""
    backbone, total = vit_b16(), 0
    for shape, h in zip((backbone.image_shape, backbone.text_shape), heads, strict=True):
        rows = shape.width // h if own_slice else shape.width
        tower = DPWTower(
            torch.empty(shape.blocks, h, rows, 8),
            torch.empty(shape.blocks, h, shape.tokens, 8),
            torch.empty(shape.blocks, 8, shape.width),
            torch.empty(shape.blocks, rank, shape.width),
            torch.empty(shape.blocks, shape.width),
            has_cls=False,
        )
        total += sum(parameter.numel() for parameter in tower.parameters())
    return total


def test_parameter_counts_of_the_paper():
    assert count("dpw", (12, 8), 64, False) == 2_685_312
    assert round(11 * count("dpw", (12, 8), 64, False) / 1e6, 1) == 29.5
    assert round(11 * count("dpw", (6, 4), 64, False) / 1e6, 1) == 20.9
    assert round(11 * count("dpw", (24, 16), 64, False) / 1e6, 1) == 46.7
    reduced = 11 * count("dpw-reduced", (4, 2), 4, True)
    down = 12 * 4 * (768 + 512)
    assert round(reduced / 1e6, 2) == 4.54
    assert round((reduced + down) / 1e6, 1) == 4.6


def test_reduced_heads_and_refused_settings():
    method = create("dpw-reduced", vit_b16())
    assert (method._heads("image", 1.0), method._heads("text", 1.0)) == (4, 2)
    with pytest.raises(ValueError, match=r"'prefix_lenght'.*did you mean 'prefix_length'"):
        create("dpw", tiny_backbone(), settings={"prefix_lenght": 4, "training.epochs": 0})
    with pytest.raises(ValueError, match="2 wrong"):
        create("dpw", tiny_backbone(), settings={"prefix_lenght": 4, "training.epochs": 0})


@torch.no_grad()
@pytest.mark.parametrize("name", ["task", "class"])
def test_float64_and_bfloat16_autocast_agree_with_float32(name):
    needs_bfloat16()
    method, groups, case, _ = golden_dpw("sharp", decision="per-image")
    question = Candidates.among(groups[0]) if name == "task" else Candidates.learned(groups)
    images = Images.of(case["images_u8"])
    single = method.logits(images, question)
    with torch.autocast(single.device.type, dtype=torch.bfloat16):
        half = method.logits(images, question)
    assert torch.isfinite(half).all()
    assert (half.float() - single).abs().max() < 0.05 * single.abs().max()
    method.double()
    method.answers.texts.clear()
    double = method.logits(images, question)
    assert double.dtype == torch.float64
    assert torch.allclose(double.float(), single, atol=1e-3)


def test_training_runs_under_bfloat16_autocast():
    needs_bfloat16()
    method, _, case, _ = golden_dpw("sharp")
    method.bank[-1].requires_grad_()
    with torch.autocast(case["images_u8"].device.type, dtype=torch.bfloat16):
        loss = method(case["images_u8"], torch.zeros(9, dtype=torch.long))
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in nonempty(method.bank[-1].parameters()))
