"""`tools/tune_mini.py`: settings are tried on validation images, and what cannot be tried is one sentence."""

import pytest

from tests.helpers.checks import nonempty
from tests.helpers.tools import tool

pytest.importorskip("sklearn")


@pytest.fixture
def tune():
    return tool("tune_mini")


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
