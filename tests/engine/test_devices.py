"""What the processor cannot do is found out in a process of its own, before it is used."""

import pytest

from dpw.engine import devices
from dpw.errors import InputError


@pytest.fixture(autouse=True)
def _ask_anew():
    """Forget what was found out, before and after."""
    devices.bfloat16_problem.cache_clear()
    yield
    devices.bfloat16_problem.cache_clear()


@pytest.mark.parametrize("trial", ["import os; os.kill(os.getpid(), 4)", "raise SystemExit(1)"])
def test_a_processor_that_dies_of_bfloat16_is_one_sentence(monkeypatch, trial):
    monkeypatch.setattr(devices, "TRIAL", trial)
    monkeypatch.setattr(devices, "default_device", lambda: devices.torch.device("cpu"))
    with pytest.raises(InputError, match="bf16 cannot be used: this machine's processor fails"):
        devices.make_accelerator(mixed_precision="bf16")


def test_the_trial_itself_runs_where_it_is_allowed_to(monkeypatch):
    monkeypatch.setattr(devices, "TRIAL", "import dpw")
    assert devices.bfloat16_problem() is None


def test_threads_are_given_back():
    before = devices.torch.get_num_threads()
    with devices.with_threads(before + 1):
        assert devices.torch.get_num_threads() == before + 1
    assert devices.torch.get_num_threads() == before


def test_one_process_computes_where_the_model_is():
    chosen = devices.torch.device("meta")
    assert devices.make_accelerator(chosen).device == chosen
    assert devices.make_accelerator().device == devices.default_device()
