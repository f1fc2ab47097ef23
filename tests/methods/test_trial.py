"""Tensors that do not fit together: blamed on the folder they were read from, and on nothing else."""

import pytest
import torch

from dpw.errors import DamagedFileError, InputError
from dpw.methods.trial import refusing_unfit
from tests.helpers.toy_methods import toy_method


def test_what_was_read_from_a_folder_is_refused_with_its_name():
    method = toy_method("dpw")
    method.read_from = "models/birds"
    with pytest.raises(DamagedFileError, match=r"models/birds cannot answer.*shapes cannot be multiplied"):
        ask(method)


def test_a_mistake_in_a_model_that_was_taught_here_stays_what_it_is():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        ask(toy_method("dpw"))


def test_a_sentence_of_ours_passes_through():
    method = toy_method("dpw")
    method.read_from = "models/birds"
    with pytest.raises(InputError, match="no such class"), refusing_unfit(method):
        raise InputError("no such class")


def ask(method):
    with refusing_unfit(method):
        torch.ones(2, 3) @ torch.ones(2, 3)
