"""A person's way through other families: learn, save, load, predict, explain, and no mixing of families."""

import shutil

import pytest

from dpw import ContinualCLIP
from dpw.analysis.explain import explain
from dpw.errors import InputError
from dpw.storage.model_folder import export_task, import_task
from tests.helpers.families import save_family
from tests.helpers.toy_learner import task


@pytest.fixture(scope="module")
def siglip(tmp_path_factory):
    """A SigLIP folder, and a model that has learned two tasks on it."""
    root = tmp_path_factory.mktemp("siglip")
    return save_family(root / "clip", "siglip2"), root / "model"


@pytest.fixture(scope="module")
def learned(toy, siglip):
    model = ContinualCLIP.from_pretrained(siglip[0], settings={"training.epochs": 1, "prefix_length": 2})
    for name in ("birds", "metals"):
        model.learn(task(toy, name))
    model.save_pretrained(siglip[1])
    return model


def test_it_learns_saves_loads_predicts_and_explains(siglip, learned, picture):
    again = ContinualCLIP.from_pretrained(siglip[1])
    assert again.tasks == ["birds", "metals"]
    told = [model.predict(picture) for model in (learned, again)]
    assert told[0] == told[1]
    found = explain(again, picture)
    assert found.tokens is not None
    assert found.tokens.prefix.shape == (2, 2, 2)


def test_a_task_is_exported_and_added_again(siglip, learned, tmp_path):
    export_task(siglip[1], "birds", tmp_path / "birds")
    copy = shutil.copytree(siglip[1], tmp_path / "copy")
    model = ContinualCLIP.from_pretrained(copy)
    model.forget("birds")
    model.save_pretrained(copy)
    import_task(copy, tmp_path / "birds")
    assert sorted(ContinualCLIP.from_pretrained(copy).tasks) == ["birds", "metals"]


def test_a_model_of_one_family_is_refused_on_another(toy, siglip, learned, saved, tmp_path):
    with pytest.raises(InputError, match=r"family 'siglip', but .* is of family 'clip': use .*clip"):
        ContinualCLIP.from_pretrained(siglip[1], backbone=toy / "clip")
    with pytest.raises(InputError, match=r"family 'clip', but .* is of family 'siglip'"):
        ContinualCLIP.from_pretrained(saved[1], backbone=siglip[0])
