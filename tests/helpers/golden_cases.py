"""Reading the numeric cases that were computed with the authors' code (tests/golden)."""

import json
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from tests.helpers.checks import nonempty

FOLDER = Path(__file__).parents[1] / "golden"


def load(name: str) -> tuple[dict[str, Tensor], dict]:
    """Tensors and metadata of one case."""
    with safe_open(FOLDER / f"{name}.safetensors", "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        meta = json.loads(file.metadata()["meta"])
    return tensors, meta


def load_json(name: str) -> dict:
    """One of the JSON cases."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def names(*prefixes: str) -> list[str]:
    """All cases whose file name begins with one of the prefixes."""
    found = sorted(path.stem for path in FOLDER.glob("*.safetensors"))
    return nonempty(name for name in found if name.startswith(prefixes))


def assert_close(actual: Tensor, expected: Tensor, what: str = "", tolerance: float = 1e-5) -> None:
    """|a − b| ≤ tolerance · (1 + max|b|); the cases were made for 2e-5, all but one hold to half of it."""
    actual, expected = torch.as_tensor(actual).double(), torch.as_tensor(expected).double()
    assert actual.shape == expected.shape, f"{what}: {tuple(actual.shape)} is not {tuple(expected.shape)}"
    error = (actual - expected).abs().max().item()
    bound = tolerance * (1 + expected.abs().max().item())
    assert error <= bound, f"{what}: differs by {error:.3g}, allowed {bound:.3g}"


def align(columns: Tensor, expected: Tensor) -> Tensor:
    """Turn columns so that they point the same way: singular vectors are defined up to sign."""
    return columns * (columns * expected).sum(dim=0, keepdim=True).sign()
