"""A Ray cluster of two nodes that loses workers, a node and its head: nothing is lost, no byte differs."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from dpw.cluster.batch_prediction import Question, predict_on_cluster, prepare
from dpw.cluster.connection import ray_module, silence
from dpw.cluster.devices import run_on_devices
from dpw.cluster.grid import GridOptions, PlannedRun, run_grid
from dpw.cluster.sweep import SweepSpec, run_sweep
from dpw.cluster.workers import RayWorkers
from dpw.errors import InputError
from tests.engine.test_training_processes import tensors
from tests.helpers.toy_runs import config, outcome, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
LONG = {"prefix_length": 2, "adapter_rank": 4, "training.epochs": 60, "training.batch_size": 4}
ORDER = ["birds", "signs"]


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one core each."""
    ray = ray_module()
    from ray.cluster_utils import Cluster

    for left in reversed(range(3)):  # a busy machine may take longer than Ray waits
        started = Cluster()
        try:
            started.add_node(num_cpus=1, include_dashboard=False)
            started.add_node(num_cpus=1)
            break
        except Exception:
            started.shutdown()
            if not left:
                raise
    ray.init(address=started.address, log_to_driver=False, configure_logging=False, logging_level="error")
    yield ray, started
    ray.shutdown()
    started.shutdown()


@pytest.fixture(scope="module")
def alone(toy, tmp_path_factory):
    """What one process finds, and how its dpw learns."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    run(toy, folder, settings=LONG, order=ORDER)
    return outcome(folder)


def in_the_middle(store, act, kind="learn"):
    """Once a training has done some steps, call `act(pid)` in a thread; gives the thread."""

    def watch() -> None:
        for _ in range(6000):
            for path in store.glob("at/*/*.json"):
                try:
                    sign = json.loads(path.read_text())
                except (OSError, ValueError):
                    continue
                if 20 < sign.get("step", 0) < sign.get("steps", 0) - 20:
                    act(sign["pid"])
                    return
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def on_cluster(toy, ray, tmp_path, **changes):
    """One long run over the cluster."""
    wanted = config(toy, **({"settings": LONG, "order": ORDER} | changes))
    options = GridOptions(tmp_path / "store", checkpoint_seconds=0.2)
    return run_grid([PlannedRun(wanted, tmp_path / "run")], RayWorkers(ray, 1), options)


def test_a_worker_that_is_killed_in_the_middle_changes_no_byte(toy, tmp_path, cluster, alone):
    ray, _ = cluster
    killed = []

    def kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    thread = in_the_middle(tmp_path / "store", kill)
    on_cluster(toy, ray, tmp_path)
    thread.join()
    assert killed and outcome(tmp_path / "run") == alone


def test_a_bad_image_comes_back_as_its_sentence(toy, tmp_path, cluster):
    world = tmp_path / "world"
    shutil.copytree(toy, world)
    picture = world / "data" / "signs" / "train" / "stop" / "3.png"
    picture.write_bytes(picture.read_bytes()[:60])
    with pytest.raises(InputError, match=r"signs/train/stop/3\.png") as raised:
        on_cluster(world, cluster[0], tmp_path)
    assert "\n" not in str(raised.value)


def test_eight_points_are_searched_on_validation_images(toy, tmp_path, cluster):
    settings = {"training.learning_rate": [0.001, 0.01, 0.1, 1.0], "prefix_length": [2, 3]}
    fixed = {"training.epochs": 1, "training.batch_size": 4, "adapter_rank": 4}
    halving = {"first": 1, "factor": 2}
    where = {"benchmark": str(toy / "toy.yaml"), "model": str(toy / "clip")}
    spec = SweepSpec(settings=settings, fixed=fixed, halving=halving, **where)
    rows = run_sweep(cluster[0], spec, tmp_path / "sweep")
    assert len(rows) == 8 and not any(row["error"] for row in rows)
    assert rows[0]["tasks"] == 3 and rows[0]["score"] >= max(r["score"] for r in rows if r["tasks"] == 3)
    began = time.monotonic()
    again = run_sweep(cluster[0], spec, tmp_path / "sweep")
    assert again == rows and time.monotonic() - began < 5, "a finished sweep is only read"


def test_a_sweep_that_is_interrupted_goes_on(toy, tmp_path):
    spec = {
        "benchmark": str(toy / "toy.yaml"),
        "model": str(toy / "clip"),
        "settings": {"prefix_length": [2, 3]},
    }
    fixed = {"training.epochs": 40, "training.batch_size": 4, "adapter_rank": 4}
    (tmp_path / "s.yaml").write_text(json.dumps(spec | {"fixed": fixed}))
    command = [sys.executable, "-m", "dpw", "sweep", str(tmp_path / "s.yaml"), "--cluster", "local:1"]
    command += ["--output", str(tmp_path / "sweep")]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("sweep/points/0000.json")) and time.monotonic() < deadline:
        time.sleep(0.2)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate()
    assert first.returncode == 130 and "the same command goes on" in said, said
    assert not (tmp_path / "sweep" / "finished.json").exists()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "sweep" / "finished.json").exists(), done.stderr
    assert (tmp_path / "sweep" / "sweep.png").stat().st_size > 1000


def test_five_thousand_images_are_answered_once_though_a_worker_dies(saved, tmp_path, cluster):
    ray, _ = cluster
    content = []
    for number in range(5000):
        held = io.BytesIO()
        Image.new("RGB", (8, 8), (number % 256, number // 256, 90)).save(held, "PNG")
        content.append(held.getvalue() if number != 77 else b"no image")
    pq.write_table(pa.table({"image": content}), tmp_path / "images.parquet", row_group_size=500)
    question = Question(str(saved[1]))
    left = prepare(str(tmp_path / "images.parquet"), question, tmp_path / "out", size=250)
    killed = []
    for one in predict_on_cluster(ray, left, question, tmp_path / "out", 2):
        if not killed:
            os.kill(one["worker"], signal.SIGKILL)
            killed.append(one["worker"])
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert [row["image"] for row in rows] == [f"row {number}" for number in range(5000)]
    assert [row["image"] for row in rows if row["error"]] == ["row 77"]


def test_two_processes_of_ray_train_learn_what_one_learns(toy, tmp_path, cluster):
    settings = LONG | {"training.epochs": 1, "training.batch_size": 5}
    wanted = config(toy, settings=settings, order=ORDER)
    run_on_devices(cluster[0], wanted, tmp_path / "two", 2)
    run(toy, tmp_path / "one", settings=settings, order=ORDER)
    one, two = tensors(tmp_path / "one"), tensors(tmp_path / "two")
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert torch.allclose(tensor, two[name], atol=2e-5, rtol=1e-4), name
    with pytest.raises(InputError, match="has room for"):
        run_on_devices(cluster[0], wanted, tmp_path / "many", 64)
    world = tmp_path / "world"
    shutil.copytree(toy, world)
    (world / "data" / "signs" / "train" / "stop" / "3.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"signs/train/stop/3\.png") as raised:
        run_on_devices(cluster[0], config(world, settings=settings, order=ORDER), tmp_path / "bad", 2)
    assert "\n" not in str(raised.value)


def test_a_removed_node_changes_no_byte(toy, tmp_path, cluster, alone):
    """The last test of this cluster, since a node of it is gone."""
    ray, started = cluster
    gone = []

    def remove(_: int) -> None:
        gone.append(started.worker_nodes)
        started.remove_node(next(iter(started.worker_nodes)), allow_graceful=False)

    thread = in_the_middle(tmp_path / "store", remove)
    on_cluster(toy, ray, tmp_path)
    thread.join()
    assert gone and outcome(tmp_path / "run") == alone


def command_for(toy, tmp_path, where):
    """The long run as a command, on a cluster."""
    command = [sys.executable, "-m", "dpw", "run", str(toy / "toy.yaml"), "--model", str(toy / "clip")]
    command += ["--order", ",".join(ORDER), "--output", str(tmp_path / "run"), "--cluster", where]
    command += ["--checkpoint-seconds", "0.2", "--reuse", str(tmp_path / "store")]
    return command + [word for name, value in LONG.items() for word in ("--set", f"{name}={value}")]


def without_results(found):
    """All that a run decides but `results.json`, which names the command."""
    return {name: content for name, content in found.items() if name != "results.json"}


def test_a_command_that_dies_with_its_cluster_goes_on(toy, tmp_path, alone):
    """The same command goes on in another cluster, from the last checkpoint."""
    command = command_for(toy, tmp_path, "local:1")
    first = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    thread = in_the_middle(tmp_path / "store", lambda _: os.killpg(first.pid, signal.SIGKILL))
    _, said = first.communicate()
    thread.join()
    assert first.returncode == -signal.SIGKILL, said
    assert list((tmp_path / "store" / "unfinished").iterdir())
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert without_results(outcome(tmp_path / "run")) == without_results(alone)


@pytest.fixture
def head(monkeypatch):
    """Starts a head at one address, as often as it is called; all of it ends with the test."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # paths of sockets must be short
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus", "1"]
    ray += ["--port", address.rpartition(":")[2], "--include-dashboard=false", "--temp-dir", folder]
    started = []

    def start():
        started.append(subprocess.Popen(ray, stdout=subprocess.DEVNULL, start_new_session=True))
        deadline = time.monotonic() + 300
        while silence(address, 1.0) is not None:
            assert time.monotonic() < deadline, "no head came up"
            time.sleep(0.5)
        return address, started[-1].pid

    yield start
    for one in started:
        with suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_head_that_restarts_is_waited_for(toy, tmp_path, alone, head):
    """The command loses its head in the middle, waits, and goes on by itself once there is one again."""
    address, leader = head()
    driver = subprocess.Popen(command_for(toy, tmp_path, address), stderr=subprocess.PIPE, text=True)
    thread = in_the_middle(tmp_path / "store", lambda _: os.killpg(leader, signal.SIGKILL))
    thread.join()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("store/learned/*/task.json")}
    time.sleep(25)  # longer than the silence after which a head is lost
    head()
    _, said = driver.communicate(timeout=900)
    assert driver.returncode == 0, said
    assert f"{address.rpartition(':')[2]} does not answer any more; waiting" in said
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "nothing is learned twice"
    assert without_results(outcome(tmp_path / "run")) == without_results(alone)
