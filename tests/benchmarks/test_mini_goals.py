"""What the mini benchmark was designed to show, measured: minutes of training, so not part of the suite."""

import pytest

from dpw.runs.config import RunConfig
from dpw.runs.run import start_run

pytestmark = pytest.mark.slow


def run(folder, method, seed):
    config = RunConfig(benchmark="mini", model="mini", method=method, seed=seed)
    return start_run(config, folder / f"{method}-{seed}")


def test_dpw_learns_and_keeps_what_fine_tuning_forgets(tmp_path):
    learned = [run(tmp_path, "dpw", seed) for seed in (1, 2, 3)]
    tuned = [run(tmp_path, "finetune", seed) for seed in (1, 2, 3)]

    def mean(results, name):
        return sum(result["metrics"][name] for result in results) / len(results)

    zero_shot = mean(learned, "zero_shot")
    assert 35 <= zero_shot <= 75
    assert mean(learned, "last") >= zero_shot + 15
    assert mean(learned, "zero_shot_loss") <= 2
    assert mean(tuned, "last") <= mean(learned, "last") - 10
    assert mean(tuned, "zero_shot_loss") > 5
