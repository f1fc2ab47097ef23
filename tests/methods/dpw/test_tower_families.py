"""Where a family has no [CLS], DPW keeps and asks the mean over the patches."""

import pytest
import torch

from dpw import functional as paper
from dpw.methods.dpw.method import DPW
from tests.helpers.families import family_backbone
from tests.helpers.toy_methods import ToyImages, learn, some_pixels, toy_method, toy_task


def learned(family: str, **settings: object) -> DPW:
    method = learn(toy_method("dpw", backbone=family_backbone(family), **settings), toy_task("aircraft"))
    assert isinstance(method, DPW)
    return method


def first_block_scores(method: DPW, pixels: torch.Tensor) -> torch.Tensor:
    """RePA scores in the first block, by hand."""
    backbone = method.backbone
    h = backbone.family.images.enter(
        backbone.clip, backbone.clip.vision_model.embeddings(backbone.normalized(pixels))
    )
    tower = method._tower(0, "image")
    return paper.repa_scores(backbone.blocks("vision")[0].layer_norm1(h), tower.weight[0], tower.bias[0])


def test_statistics_are_of_the_mean_patch_without_cls_and_of_cls_with_it():
    for family, has_cls in (("siglip", False), ("altclip", True)):
        method = learned(family)
        images = ToyImages(toy_task("aircraft").train, method.backbone)
        with torch.no_grad():
            scores = torch.cat([first_block_scores(method, pixels) for pixels, _ in images.batches()])
        whole = paper.image_scores(scores, has_cls).double()
        tower = method._tower(0, "image")
        assert torch.allclose(tower.cls_mean[0].double(), whole.mean(dim=0), atol=1e-5)
        assert torch.allclose(tower.cls_var[0].double(), whole.var(dim=0, unbiased=False), atol=1e-5)


def test_the_cutoff_follows_them():
    method = learned("siglip")
    pixels = some_pixels()
    with torch.no_grad():
        scores = first_block_scores(method, pixels)
        weight = torch.full((len(pixels),), 0.5)
        acting = method.image_adaptation(0, weight, torch.ones(len(pixels), dtype=torch.bool))
        tower = method._tower(0, "image")
        mean, var = tower.cls_mean[0], tower.cls_var[0]
        expected = paper.gaussian_cutoff(scores.mean(dim=2), mean, var)
        found = acting.cutoff(0, scores)
    assert found is not None
    assert torch.allclose(found[:, :, 0], expected)


@pytest.mark.parametrize("family", ["siglip", "altclip"])
@pytest.mark.parametrize("ablation", ["scores-trained-attention", "cutoff-dynamic", "weight-router"])
def test_ablations_learn_without_cls_and_with_norms_behind(family, ablation):
    method = toy_method("dpw", f"ablation/{ablation}", family_backbone(family))
    learn(method, toy_task("aircraft"), steps=1)
    with torch.no_grad():
        assert method.task_logits(some_pixels()).isfinite().all()
