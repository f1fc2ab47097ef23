"""Written-out gradients of parts of a block are those of autograd; frozen weights keep no input."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dpw.clip import blocks, products
from dpw.clip.by_hand import QUICK, by_hand, projections, with_linear, with_mlp
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import some_pixels

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
WIDTH = 32


@pytest.fixture(params=["MKL", "oneDNN"], autouse=True)
def library(request, monkeypatch):
    """Both ways a product may go."""
    monkeypatch.setattr(products, "made_by_intel", lambda: request.param == "MKL")
    if not products._has_avx512() and request.param == "oneDNN":
        pytest.skip("this processor does not know AVX-512, or this torch has no oneDNN")
    return request.param


def drawn(*shape):
    """Random numbers that require a gradient."""
    return torch.randn(shape, requires_grad=True)


def layers(*sizes, trained=False):
    """Linear maps, frozen or not, and a layer norm whose numbers say something."""
    torch.manual_seed(0)
    norm = nn.LayerNorm(WIDTH)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return [one.requires_grad_(trained) for one in (norm, *(nn.Linear(*size) for size in sizes))]


def by_autograd(u, norm, fc1, fc2):
    """U + MLP(LN(U)) as one would write it."""
    hidden = fc1(norm(u))
    return u + fc2(hidden * torch.sigmoid(QUICK * hidden))


def same(found, expected, inputs):
    """Values and all gradients agree."""
    torch.testing.assert_close(found, expected, **CLOSE)
    outer = [torch.randn_like(one) for one in expected]
    ours, theirs = (torch.autograd.grad(one, inputs, outer) for one in (found, expected))
    torch.testing.assert_close(ours, theirs, **CLOSE)


def learned(*modules):
    """The parameters that are trained."""
    return [one for module in modules for one in module.parameters() if one.requires_grad]


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("shape", [(2, 5), (3, 1), (1, 1)])
def test_the_mlp_of_the_quick_gelu(shape, trained):
    norm, fc1, fc2 = layers((WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH), trained=trained)
    u = drawn(*shape, WIDTH)
    found, expected = with_mlp(u, norm, fc1, fc2), by_autograd(u, norm, fc1, fc2)
    same([found], [expected], [u, *learned(norm, fc1, fc2)])


@pytest.mark.parametrize("trained", [False, True])
def test_a_linear_map_beside_what_it_is_added_to(trained):
    _, out = layers((WIDTH, WIDTH), trained=trained)
    h, x = drawn(3, 4, WIDTH), drawn(4, 3, WIDTH).transpose(0, 1)
    same([with_linear(h[:, :2], x[:, :2], out)], [h[:, :2] + out(x[:, :2])], [h, *learned(out)])


def test_a_linear_map_without_bias():
    out = nn.Linear(WIDTH, WIDTH, bias=False)
    h, x = drawn(2, 3, WIDTH), drawn(2, 3, WIDTH)
    before = h.detach().clone()
    same([with_linear(h, x, out)], [h + F.linear(x, out.weight)], [h, x, out.weight])
    assert torch.equal(h, before)


@pytest.mark.parametrize("trained", [False, True])
def test_three_maps_of_the_same_tokens(trained):
    _, *maps = layers(*[(WIDTH, WIDTH)] * 3, trained=trained)
    x = drawn(3, 4, WIDTH)
    same(list(projections(x, *maps)), [one(x) for one in maps], [x, *learned(*maps)])


def test_frozen_weights_keep_no_input():
    norm, fc1, fc2, out = layers((WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH), (WIDTH, WIDTH))
    kept = []
    u = drawn(2, 5, WIDTH)
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one):
        with_linear(u, u, out)
        projections(u, out, out)
        with_mlp(u, norm, fc1, fc2)
    of_tokens = [tuple(one.shape) for one in kept if one.dim() == 3 and one.shape[-1] > 1]
    assert of_tokens == [(2, 5, WIDTH), (2, 5, 4 * WIDTH)]  # U and what goes into the quick GELU


def test_a_tower_takes_this_way_only_where_it_is_trained(monkeypatch):
    asked = []
    monkeypatch.setattr(blocks, "by_hand", lambda x: asked.append(by_hand(x)) or asked[-1])
    backbone, pixels = tiny_backbone(), some_pixels()
    with torch.no_grad():
        answered = backbone.encode_images(pixels)
    backbone.encode_images(pixels)  # nothing is learned
    assert not any(asked)
    try:
        backbone.clip.vision_model.requires_grad_()
        trained = backbone.encode_images(pixels)
        assert any(asked)
        torch.testing.assert_close(trained.detach(), answered, **CLOSE)
    finally:
        backbone.clip.requires_grad_(requires_grad=False)
