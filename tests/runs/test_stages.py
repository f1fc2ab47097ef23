"""A run done in parts, in any order, by processes that share only folders, is the run of one process."""

import random
import shutil

import pytest

from dpw.errors import InputError, Interrupted
from dpw.runs import stages
from dpw.runs.config import RunOptions
from dpw.runs.run import resume_run
from dpw.storage.run_folder import RunFolder
from tests.helpers.toy_runs import StopAfter, config, outcome, run

SMALL = {"training.iterations": 2, "training.batch_size": 4}
SOON = ("dpw", "rail")
ISOLATED = {
    "dpw": {"prefix_length": 2, "adapter_rank": 4},
    "dpw-reduced": {"prefix_length": 2},
    "dpw-ridge": {"prefix_length": 2, "adapter_rank": 4},
    "diki": {"prefix_length": 2},
    "s-prompts": {},
    "dpeclip": {},
    "tip-adapter": {},
    "linear-probe": {},
    "rail": {"width": 40},
    "zero-shot": {},
}


def in_parts(toy, folder, store, **changes):
    """Learn the tasks last to first and measure the sets in a random order, each as if by another process."""
    wanted, options = config(toy, **changes), RunOptions(checkpoint_seconds=0, reuse=store)
    parts = stages.begin(wanted, folder, options)
    for index in reversed(range(len(parts.learn))):
        stages.learn(stages.opened(folder, options), index, parts.learn[index].key)
    columns = list(range(len(parts.measure)))
    random.Random(0).shuffle(columns)
    for index in columns:
        stages.measure(stages.opened(folder, options), index, parts.measure[index].key)
    return stages.finish(wanted, folder, options, parts.learn[0].key)


def names_in(folder):
    """All files of a run."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "method", [name if name in SOON else pytest.param(name, marks=pytest.mark.slow) for name in ISOLATED]
)
def test_the_parts_of_a_run_are_the_run(toy, tmp_path, method):
    settings = ISOLATED[method] | ({} if method in ("zero-shot", "rail") else SMALL)
    run(toy, tmp_path / "one", method=method, settings=settings)
    in_parts(toy, tmp_path / "parts", tmp_path / "store", method=method, settings=settings)
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "one")
    assert names_in(tmp_path / "parts") == names_in(tmp_path / "one")


def test_across_domains_too(toy, tmp_path):
    text = (toy / "toy.yaml").read_text().replace("task-incremental", "cross-domain")
    (tmp_path / "across.yaml").write_text(text.replace("data/", f"{toy}/data/"))
    given = {"benchmark": str(tmp_path / "across.yaml"), "method": "rail", "settings": {"width": 40}}
    run(toy, tmp_path / "one", **given)
    in_parts(toy, tmp_path / "parts", tmp_path / "store", **given)
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "one")
    assert RunFolder(tmp_path / "one").read_results()["setting"] == "cross-domain"


def test_a_learning_that_was_stopped_goes_on_from_its_checkpoint(toy, tmp_path):
    folder, store = tmp_path / "run", tmp_path / "store"
    run(toy, tmp_path / "one", order=["birds"])
    parts = stages.begin(config(toy, order=["birds"]), folder, RunOptions(reuse=store))
    stop = StopAfter(3)
    with pytest.raises(Interrupted):
        options = RunOptions(1e9, callback=stop, should_stop=stop, reuse=store)
        stages.learn(stages.opened(folder, options), 0, parts.learn[0].key)
    assert list(store.glob("unfinished/*/progress.json"))
    count = StopAfter(10**6)
    options = RunOptions(1e9, callback=count, reuse=store)
    stages.learn(stages.opened(folder, options), 0, parts.learn[0].key)
    assert 10**6 - count.left == 9, "of 12 steps three were done"
    assert not list(store.glob("unfinished/*"))
    in_parts(toy, folder, store, order=["birds"])
    assert outcome(folder) == outcome(tmp_path / "one")


def test_resume_takes_from_the_store_what_workers_left_there(toy, tmp_path):
    """The workers of a run are gone, one task is learned and one half: one process goes on with both."""
    folder, store, given = tmp_path / "run", tmp_path / "store", {"order": ["birds", "signs"]}
    run(toy, tmp_path / "one", **given)
    options = RunOptions(1e9, reuse=store)
    parts = stages.begin(config(toy, **given), folder, options)
    stages.learn(stages.opened(folder, options), 0, parts.learn[0].key)
    stop = StopAfter(3)
    with pytest.raises(Interrupted):
        half = RunOptions(1e9, callback=stop, should_stop=stop, reuse=store)
        stages.learn(stages.opened(folder, half), 1, parts.learn[1].key)
    count = StopAfter(10**6)
    resume_run(folder, RunOptions(1e9, callback=count))
    assert 10**6 - count.left == 8 - 3, "of eight steps of signs three were done, birds was learned"
    assert outcome(folder) == outcome(tmp_path / "one")
    assert names_in(folder) == names_in(tmp_path / "one")


def test_resume_learns_again_where_the_store_is_gone(toy, tmp_path):
    folder, store, given = tmp_path / "run", tmp_path / "store", {"order": ["signs"]}
    stages.begin(config(toy, **given), folder, RunOptions(reuse=store))
    resume_run(folder)
    run(toy, tmp_path / "one", **given)
    assert outcome(folder) == outcome(tmp_path / "one") and not store.exists()


def test_a_finished_run_has_no_parts(toy, tmp_path):
    plain = {"method": "zero-shot", "settings": {}}
    run(toy, tmp_path / "run", **plain)
    assert stages.begin(config(toy, **plain), tmp_path / "run", RunOptions(reuse=tmp_path / "store")) is None


def test_a_method_whose_tasks_need_each_other_has_no_parts(toy, tmp_path):
    options = RunOptions(reuse=tmp_path / "store")
    parts = stages.begin(config(toy, method="finetune", settings=SMALL), tmp_path / "run", options)
    assert not parts.learn and not parts.measure
    trained = {"adapter_down": "trained", "prefix_length": 2, "adapter_rank": 4, **SMALL}
    parts = stages.begin(config(toy, settings=trained), tmp_path / "ablation", options)
    assert not parts.learn, "all tasks train the same D"
    with pytest.raises(InputError, match="no run whose tasks can be learned apart"):
        stages.measure(stages.opened(tmp_path / "run", options), 0, "")


def test_a_worker_that_sees_other_images_is_refused(toy, tmp_path):
    world, options = tmp_path / "world", RunOptions(reuse=tmp_path / "store")
    shutil.copytree(toy, world)
    parts = stages.begin(config(world), tmp_path / "run", options)
    shutil.copy(world / "data/birds/train/crow/0.png", world / "data/birds/train/crow/1.png")
    with pytest.raises(InputError, match="sees other"):
        stages.learn(stages.opened(tmp_path / "run", options), 0, parts.learn[0].key)
    with pytest.raises(InputError, match="sees other"):
        stages.measure(stages.opened(tmp_path / "run", options), 1, parts.measure[1].key)


def test_a_worker_of_another_kind_does_not_learn_again_what_others_have_learned(toy, tmp_path, monkeypatch):
    options, wanted = RunOptions(reuse=tmp_path / "store"), config(toy, method="rail", settings={"width": 40})
    parts = stages.begin(wanted, tmp_path / "run", options)
    monkeypatch.setattr("dpw.runs.reuse.versions", lambda: {"torch": "another"})
    with pytest.raises(InputError, match="use machines of one kind"):
        stages.finish(wanted, tmp_path / "run", options, parts.learn[0].key)
    assert not (tmp_path / "run" / "results.json").exists()
