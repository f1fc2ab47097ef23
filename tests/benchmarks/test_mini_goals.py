"""What the mini benchmark was designed to show, measured: minutes of training, so not part of the suite."""

import pytest

from dpw.runs import RunConfig, RunOptions, start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dpw_learns_and_keeps_what_fine_tuning_forgets(tmp_path, seed):
    found = {
        method: start(
            RunConfig(benchmark="mini", model="mini", method=method, seed=seed),
            tmp_path / method,
            RunOptions(),
        )
        for method in ("dpw", "finetune")
    }
    dpw, finetune = found["dpw"]["metrics"], found["finetune"]["metrics"]
    zero_shot = found["dpw"]["zero_shot"]
    assert 35 <= dpw["zero_shot"] <= 75
    assert dpw["last"] >= dpw["zero_shot"] + 15
    assert dpw["transfer"] >= sum(zero_shot[1:]) / len(zero_shot[1:]) - 2
    assert finetune["last"] <= dpw["last"] - 10
    assert finetune["transfer"] < dpw["transfer"]
