"""Linear maps by the quickest library are those of torch, and a row's digits do not depend on other rows."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from dpw.clip import products

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def by_onednn(monkeypatch):
    """oneDNN is asked, as on processors of others than Intel."""
    monkeypatch.setattr(products, "made_by_intel", lambda: False)
    if not products._has_avx512():
        pytest.skip("this processor does not know AVX-512, or this torch has no oneDNN")


def drawn(*shapes, requires_grad=False):
    """Random tensors that are always the same."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).requires_grad_(requires_grad) for shape in shapes]


@pytest.mark.parametrize("shape", [(3, 5, 48), (7, 48), (48,), (1, 1, 48), (0, 48)])
def test_values_and_gradients_are_those_of_torch(shape, by_onednn):
    inputs = drawn(shape, (32, 48), (32,), requires_grad=True)
    found, expected = products.linear(*inputs), F.linear(*inputs)
    torch.testing.assert_close(found, expected, **CLOSE)
    (outer,) = drawn(expected.shape)
    gradients = [torch.autograd.grad(one, inputs, outer) for one in (found, expected)]
    torch.testing.assert_close(*gradients, **CLOSE)


def test_a_map_without_bias_and_rows_that_do_not_lie_in_order(by_onednn):
    x, weight = drawn((6, 4, 48), (48, 48))
    found = products.linear(x.transpose(0, 1), weight.t())
    torch.testing.assert_close(found, x.transpose(0, 1) @ weight, **CLOSE)


def test_a_frozen_weight_keeps_no_input(by_onednn):
    kept = []
    x, weight, bias = drawn((9, 48), (32, 48), (32,))
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one.shape) or one, lambda one: one):
        products.linear(x.requires_grad_(), weight, bias)
    assert kept == [weight.shape]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_has_the_same_digits_alone_and_among_others(threads, by_onednn):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for width, out in ((48, 192), (192, 48), (128, 512), (512, 128), (768, 768)):
            x, weight, bias = drawn((400, width), (out, width), (out,))
            together = products.linear(x, weight, bias)
            for count in (1, 2, 3, 5, 8, 13, 37, 197, 300):
                torch.testing.assert_close(
                    products.linear(x[:count], weight, bias), together[:count], rtol=0, atol=0
                )
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("intel", [True, False])
def test_answers_are_onednns_everywhere_and_training_is_mkls_on_intels_processors(
    intel, by_onednn, monkeypatch
):
    monkeypatch.setattr(products, "made_by_intel", lambda: intel)
    asked, real = [], products._product
    monkeypatch.setattr(products, "_product", lambda *inputs: asked.append(1) or real(*inputs))
    x, weight = drawn((4, 48), (32, 48))
    with torch.inference_mode():
        products.linear(x, weight)
    assert len(asked) == 1
    with torch.no_grad():
        products.linear(x, weight)
    products.linear(x, weight)
    assert len(asked) == (1 if intel else 3)


@pytest.mark.parametrize("described", ["vendor_id : GenuineIntel", "vendor_id : AuthenticAMD"])
def test_intels_processors_are_known_by_their_description(described, monkeypatch):
    monkeypatch.setattr(products.Path, "read_text", lambda *_, **__: described)
    assert products.made_by_intel.__wrapped__() == ("Intel" in described)


def test_a_system_without_cpuinfo_is_asked_otherwise(monkeypatch):
    monkeypatch.setattr(products, "Path", lambda _: Path("/there/is/none"))
    monkeypatch.setattr(products.platform, "processor", lambda: "Intel64 Family 6 Model 143, GenuineIntel")
    assert products.made_by_intel.__wrapped__()


def test_torch_itself_is_asked_in_other_precision_and_where_onednn_is_switched_off(monkeypatch):
    def refuse(*_):
        raise AssertionError("oneDNN was asked")

    monkeypatch.setattr(products, "_product", refuse)
    x, weight = drawn((4, 48), (32, 48))
    assert products.linear(x.double(), weight.double()).dtype == torch.float64
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert products.linear(x, weight).dtype == torch.bfloat16
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    torch.testing.assert_close(products.linear(x, weight), F.linear(x, weight))
