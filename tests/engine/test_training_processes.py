"""Two processes on the CPU give the parameters of one."""

import os
import subprocess
import sys

import torch
from safetensors.torch import load_file

from tests.helpers.checks import nonempty
from tests.helpers.command_line import dpw

SETTINGS = ["prefix_length=2", "adapter_rank=4", "training.epochs=1", "training.batch_size=4"]


def command(toy, output):
    """What is run."""
    asked = ["run", str(toy / "toy.yaml"), "--model", str(toy / "clip"), "--output", str(output)]
    # Each process would draw its own dropout mask.
    settings = [word for setting in [*SETTINGS, "adapter_dropout=0"] for word in ("--set", setting)]
    return [*asked, "--order", "birds,signs", *settings]


def launch(asked, processes):
    """The run by `accelerate launch`, as a user would start it."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_machines", "1"]
    command += ["--num_processes", str(processes), "--mixed_precision", "no", "--dynamo_backend", "no"]
    command += ["--num_cpu_threads_per_process", "1", "-m", "dpw", *asked]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MASTER_PORT": "29571"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]


def tensors(folder):
    """All tensors of a run's model by task and name."""
    files = sorted(folder.glob("model/*.safetensors"))
    return {f"{path.name.rsplit('-', 1)[0]}/{k}": v for path in files for k, v in load_file(path).items()}


def test_two_processes_learn_what_one_learns(capsys, toy, tmp_path):
    launch(command(toy, tmp_path / "two"), 2)
    code, _, err = dpw(capsys, *command(toy, tmp_path / "one"))
    assert code == 0, err
    one, two = tensors(tmp_path / "one"), tensors(tmp_path / "two")
    assert one.keys() == two.keys()
    for name, tensor in nonempty(one.items()):
        assert torch.allclose(tensor, two[name], atol=2e-5, rtol=1e-4), name
    assert (tmp_path / "one" / "accuracy.csv").read_text() == (tmp_path / "two" / "accuracy.csv").read_text()
