"""Train once, any order: a task that was learned under the same conditions is never trained again."""

import pytest

from dpw.engine.callbacks import TrainingCallback
from dpw.errors import DamagedFileError
from dpw.methods import METHODS
from dpw.runs.config import RunOptions
from dpw.runs.reuse import method_source, program_digest
from tests.helpers.toy_runs import StopAfter, outcome, run

ORDER = ["metals", "signs"]


class Trained(TrainingCallback):
    """Remembers which tasks were trained."""

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def on_begin(self, task: str, steps: int, done: int) -> None:
        self.tasks.append(task)


def trained(toy, folder, store, **changes) -> list[str]:
    """The tasks that a run with a store had to train."""
    seen = Trained()
    run(toy, folder, RunOptions(callback=seen, reuse=store), **changes)
    return seen.tasks


@pytest.fixture(scope="module")
def filled(toy, tmp_path_factory):
    """A store with two toy tasks, by a run in the opposite order."""
    store = tmp_path_factory.mktemp("filled") / "store"
    assert trained(toy, store.parent / "run", store, order=ORDER[::-1]) == ["signs", "metals"]
    return store


@pytest.fixture(scope="module")
def without(toy, tmp_path_factory):
    """What the run finds without a store."""
    folder = tmp_path_factory.mktemp("without") / "run"
    run(toy, folder, order=ORDER)
    return outcome(folder)


def test_another_order_trains_nothing_and_ends_in_the_same_bytes(toy, tmp_path, filled, without):
    assert trained(toy, tmp_path / "again", filled, order=ORDER) == []
    assert outcome(tmp_path / "again") == without


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"settings": {"prefix_length": 3, "training.epochs": 1}}, {"gradient_accumulation": 2}],
    ids=["seed", "settings", "accumulation"],
)
def test_other_conditions_train_anew(toy, tmp_path, filled, changes):
    assert trained(toy, tmp_path / "run", filled, order=["signs"], **changes) == ["signs"]


def test_another_number_of_threads_trains_anew(toy, tmp_path, filled, monkeypatch):
    monkeypatch.setattr("dpw.runs.reuse.torch.get_num_threads", lambda: 7)
    assert trained(toy, tmp_path / "run", filled, order=["signs"]) == ["signs"]


def test_a_changed_program_trains_anew(toy, tmp_path, filled, monkeypatch):
    monkeypatch.setattr("dpw.runs.reuse.program_digest", lambda: "changed")
    assert trained(toy, tmp_path / "run", filled, order=["signs"]) == ["signs"]


def test_methods_that_mix_their_tasks_keep_nothing(toy, tmp_path):
    settings = {"training.iterations": 2, "training.batch_size": 4}
    trained(toy, tmp_path / "run", tmp_path / "store", method="finetune", settings=settings, order=["signs"])
    assert not (tmp_path / "store").exists()


def test_a_run_that_was_stopped_half_way_takes_what_another_learned_meanwhile(toy, tmp_path, filled, without):
    stop = StopAfter(3)
    with pytest.raises(Exception, match="stopped"):
        run(toy, tmp_path / "run", stop.options(), order=ORDER)
    assert trained(toy, tmp_path / "run", filled, order=ORDER) == []
    assert outcome(tmp_path / "run") == without


def test_a_damaged_entry_is_named(toy, tmp_path):
    store = tmp_path / "store"
    trained(toy, tmp_path / "one", store, order=["signs"])
    tensors = next(path for path in store.glob("learned/*/signs-*.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:-1])
    with pytest.raises(DamagedFileError, match=tensors.name):
        trained(toy, tmp_path / "two", store, order=["signs"])


def test_the_program_and_a_method_are_known_by_their_source():
    assert len(program_digest()) == 64
    assert method_source(METHODS["dpw"]) != method_source(METHODS["diki"])
