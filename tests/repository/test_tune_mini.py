"""`tools/tune_mini.py`: settings are tried on validation images, and what cannot be tried is one sentence."""

import importlib.util
from pathlib import Path

import pytest

from tests.helpers.checks import nonempty

TOOL = Path(__file__).parents[2] / "tools" / "tune_mini.py"
pytest.importorskip("sklearn")


@pytest.fixture
def tune():
    spec = importlib.util.spec_from_file_location("tune_mini", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_try_is_measured_on_validation_images(tune, capsys, monkeypatch):
    seen = []
    test = tune.Evaluator.test
    monkeypatch.setattr(tune.Evaluator, "test", lambda *given: (seen.append(given[2]), test(*given))[1])
    tune.main(["finetune", "--tasks", "1", "--try", "training.iterations=1,training.warmup=0"])
    printed = capsys.readouterr().out
    assert printed.startswith("finetune      training.iterations=1,training.warmup=0")
    assert "last" in printed
    assert seen
    assert all(task.test is task.val for task in nonempty(seen))


@pytest.mark.parametrize(
    ("asked", "why"), [(["nothing"], "nothing"), (["finetune", "--try", "colour=red"], "colour")]
)
def test_what_cannot_be_tried_is_one_sentence(tune, capsys, asked, why):
    with pytest.raises(SystemExit) as stopped:
        tune.main([*asked, "--tasks", "1"])
    assert stopped.value.code == 2
    assert why in capsys.readouterr().err
