"""No image's answer depends on its neighbours in the batch, to the last bit."""

import random

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dpw.data.pixels import PixelCache
from dpw.engine.invariance import BatchInvariance
from dpw.engine.predictor import Predictor
from dpw.methods import METHODS
from tests.helpers.toy_methods import learn, stripes, toy_method, toy_task


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_answers_alike_alone_and_in_any_company(name):
    method = toy_method(name)
    for task in ("aircraft", "dtd"):
        learn(method, toy_task(task))
    predictor = Predictor(method.eval(), PixelCache(method.backbone.preprocessing, folder=None))
    images, _ = stripes(3, 21, seed=5)
    alone = [predictor.predict(image, top=9) for image in images]
    draw = random.Random(0)
    for size in (2, 3, 5, 8, 13, 21):
        rows = draw.sample(range(len(images)), size)
        together = predictor.predict(images[rows], top=9)
        assert [answer.as_json() | {"image": ""} for answer in together] == [
            alone[row].as_json() | {"image": ""} for row in rows
        ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_and_functions_are_those_of_torch(dtype):
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape, dtype=dtype) for shape in ((3, 5, 48), (32, 48), (32,)))
    square = torch.randn(48, 48, dtype=dtype).tril() + 20 * torch.eye(48, dtype=dtype)
    linear, logsigmoid = torch.nn.functional.linear, torch.nn.functional.logsigmoid
    attention = torch.nn.functional.scaled_dot_product_attention
    wanted = [
        lambda: linear(x, weight, bias),
        lambda: linear(x, weight),
        lambda: torch.addmm(bias, x[0], weight.t(), beta=0.5, alpha=2.0),
        lambda: torch.addmm(x[0] @ weight.t(), x[0], weight.t()),
        lambda: x @ weight.t(),
        lambda: x[0, 0] @ weight.t(),
        lambda: x @ x.transpose(1, 2),
        lambda: torch.linalg.solve_triangular(square, x[0].T, upper=False),
        lambda: torch.einsum("bk,nk->bn", x[0], weight),
        lambda: torch.einsum("bnk,bmk->bnm", x, x),
        lambda: attention(x[:, :1], x, x),
        lambda: attention(x, x, x, is_causal=True),
        lambda: x.sigmoid(),
        lambda: x.exp(),
        lambda: x.abs().log(),
        lambda: logsigmoid(x),
    ]
    for compute in wanted:
        plain = compute()
        with BatchInvariance():
            found = compute()
        assert found.shape == plain.shape
        torch.testing.assert_close(found, plain)


WIDTHS = ((48, 5), (128, 512), (512, 1000), (640, 512), (768, 96), (1280, 300))


@pytest.mark.parametrize(("width", "out"), WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_of_real_widths_have_the_same_digits_in_any_company(width, out, dtype):
    generator = torch.Generator().manual_seed(width)
    shapes = (400, width), (out, width), (out,)
    rows, weight, bias = (torch.randn(*shape, dtype=dtype, generator=generator) for shape in shapes)
    square = torch.eye(width, dtype=dtype) * 20 + rows.new_ones(width, width).tril()
    linear, solve = torch.nn.functional.linear, torch.linalg.solve_triangular
    products = [
        lambda x: linear(x, weight, bias),
        lambda x: x @ weight.t(),
        lambda x: torch.einsum("bk,nk->bn", x, weight),
        lambda x: linear(x.expand(50, -1, -1).transpose(0, 1), weight, bias).sum(dim=1),
        lambda x: solve(square, x.T, upper=False).square().sum(dim=0),
    ]
    with BatchInvariance():
        for compute in products:
            together = compute(rows[:70])
            for some in ([0], [69, 3], range(5, 18), range(70)):
                assert torch.equal(compute(rows[some]), together[some])


def test_a_tensor_without_rows_stays_one():
    with BatchInvariance():
        assert (torch.zeros(0, 4) @ torch.zeros(4, 3)).shape == (0, 3)
        assert (torch.ones(2, 0) @ torch.zeros(0, 3)).tolist() == [[0.0] * 3] * 2
        assert torch.sigmoid(torch.zeros(0)).shape == (0,)
        assert torch.sigmoid(torch.zeros(())).shape == ()


def test_an_accelerator_is_not_asked_in_small_products():
    class Products(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += function._schema.name in ("aten::mm", "aten::addmm")
            return function(*args, **(kwargs or {}))

    x, weight = torch.empty(3, 60, 32, device="meta"), torch.empty(16, 32, device="meta")
    with Products() as products, BatchInvariance():
        assert torch.nn.functional.linear(x, weight).shape == (3, 60, 16)
    assert products.count == 1
