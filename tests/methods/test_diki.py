"""DIKI: its size."""

from dpw.methods import create
from tests.helpers.tiny_clip import vit_b16


def test_diki_has_163840_parameters_a_task_on_vit_b16():
    method = create("diki", vit_b16())
    module = method.new_module(None, None, None)
    assert sum(parameter.numel() for parameter in module.parameters()) == 163_840
