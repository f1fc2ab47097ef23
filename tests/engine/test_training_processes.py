"""Two processes on the CPU give the parameters of one."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from tests.helpers.checks import nonempty
from tests.helpers.toy_runs import run

# Batches that two processes cannot halve, a smaller last one, and the method's own dropout.
TRAINING = {"training.epochs": 1, "training.batch_size": 5, "training.drop_last": False}
SETTINGS = {"prefix_length": 2, "adapter_rank": 4, "adapter_dropout": 0.5, **TRAINING}
ORDER = ["birds", "signs"]

PROGRAM = """
import sys
from dpw.__main__ import main
from dpw.engine.devices import process_count

print(f"{process_count()} processes", file=sys.stderr)
main()
"""


def launch(toy, tmp_path, methods):
    """Runs by two processes, as `accelerate launch` starts them for two devices; gives what they printed."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(tmp_path / "program.py"), "run", str(toy / "toy.yaml"), "--method", ",".join(methods)]
    command += ["--model", str(toy / "clip"), "--output", str(tmp_path / "two"), "--order", ",".join(ORDER)]
    command += [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr.count("2 processes") == 2, "they know each other"
    return done.stdout


def tensors(folder):
    """All tensors of a run's model by task and name."""
    files = sorted(folder.glob("model/*.safetensors"))
    return {f"{path.name.rsplit('-', 1)[0]}/{k}": v for path in files for k, v in load_file(path).items()}


def losses(folder):
    """The losses in a run's log."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return nonempty([line["loss"] for line in lines if line["event"] == "train"])


def test_two_processes_learn_what_one_learns(toy, tmp_path):
    methods = ["dpw", "dpw-ridge"]
    said = launch(toy, tmp_path, methods)
    assert said.count("results.json") == 2, "two runs one after another, and one process speaks"
    for method in methods:
        one, two = tmp_path / "one" / method, tmp_path / "two" / f"{method}-seed0"
        run(toy, one, method=method, settings=SETTINGS, order=ORDER)
        first, second = tensors(one), tensors(two)
        assert first.keys() == second.keys()
        for key, tensor in nonempty(first.items()):
            assert torch.allclose(tensor, second[key], atol=2e-5, rtol=1e-4), key
        assert (one / "accuracy.csv").read_text() == (two / "accuracy.csv").read_text()
        assert losses(one) == pytest.approx(losses(two), rel=1e-4)
