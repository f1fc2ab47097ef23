"""DIKI: its size."""

from dpw.methods import create
from tests.helpers.tiny_clip import vit_b16


def test_diki_has_163840_parameters_a_task_on_vit_b16():
    method = create("diki", vit_b16())
    towers = [method.new_tower(tower) for tower in ("image", "text")]
    assert sum(tensor.numel() for tower in towers for tensor in tower.parameters()) == 163_840
