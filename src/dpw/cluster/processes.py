"""Who does jobs on this machine without a cluster: processes that begin with everything imported."""

import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from dpw.data.cores import limit_threads, limited_threads

TRACEBACK = "DPW_TRACEBACK"  # set: errors that nobody foresaw are shown whole
RETRIES = 3  # times that a job whose process died is begun again


@dataclass
class _Worker:
    """One process, how to speak with it, and the job it has in hand."""

    process: BaseProcess
    connection: "Connection[Any, Any]"
    handle: int | None = None


class ProcessWorkers:
    """So many processes of this machine, each with its share of the threads; they end with this one.

    A job whose process was killed is begun again from its checkpoint.
    """

    def __init__(self, count: int, threads: int) -> None:
        """Begin one; where that can be, they are copies of a process that has imported all they need.

        Example:
            >>> from dpw.cluster.processes import ProcessWorkers
            >>> with ProcessWorkers(2, threads=1) as workers:
            ...     workers.slots
            2
        """
        self.slots, self.threads = count, threads
        copied = "forkserver" in multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if copied else "spawn")
        if copied:
            self._context.set_forkserver_preload(["dpw.cluster.imported"])
            with limited_threads(threads):  # libraries read it when they are imported
                forkserver.ensure_running()
        self._workers: list[_Worker] = []
        self._waiting: deque[int] = deque()
        self._jobs: dict[int, Any] = {}
        self._deaths: dict[int, int] = {}
        self._done: dict[int, Any] = {}
        aside = ThreadPoolExecutor(1)
        self._begun = aside.submit(self._begin)
        aside.shutdown(wait=False)

    @property
    def ready(self) -> bool:
        """Whether the first of them has begun; then the others do at once."""
        return self._begun.done()

    def __enter__(self) -> "ProcessWorkers":
        """The first begins by itself, the others with the jobs for them."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind, whatever it does."""
        self._begun.exception()  # wait until it is there
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()

    def submit(self, job: Any) -> int:
        """Have a job done as soon as there is room."""
        handle = len(self._jobs)
        self._jobs[handle] = job
        self._waiting.append(handle)
        self._hand_out()
        return handle

    def wait(self, handles: Sequence[int], seconds: float) -> list[int]:
        """Those of the handles whose jobs have ended, after at most so many seconds."""
        if not any(handle in self._done for handle in handles):
            busy = {worker.connection: worker for worker in self._workers if worker.handle is not None}
            for connection in wait(list(busy), seconds):
                self._hear(busy[connection])  # type: ignore[index]
            self._hand_out()
        return [handle for handle in handles if handle in self._done]

    def result(self, handle: int) -> Any:
        """What an ended job gave."""
        return self._done[handle]

    def cancel(self, handle: int) -> bool:
        """Take back a job that no process has in hand."""
        if handle not in self._waiting:
            return False
        self._waiting.remove(handle)
        return True

    def _hand_out(self) -> None:
        """Give waiting jobs to idle processes, and begin processes while there is room."""
        self._begun.result()
        while self._waiting:
            idle = next((worker for worker in self._workers if worker.handle is None), None)
            if idle is None and len(self._workers) == self.slots:
                return
            worker = idle or self._begin()
            try:
                worker.connection.send(self._jobs[self._waiting[0]])
            except OSError:  # it died while it had nothing to do
                self._workers.remove(worker)
                continue
            worker.handle = self._waiting.popleft()

    def _begin(self) -> _Worker:
        """One process more."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self.threads), daemon=True)
        process.start()
        theirs.close()  # or the end of the process could not be heard
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]

    def _hear(self, worker: _Worker) -> None:
        """Take what a process answers; one that died is left, and its job begun again."""
        handle, worker.handle = worker.handle, None
        assert handle is not None
        try:
            self._done[handle] = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            self._workers.remove(worker)
            self._deaths[handle] = self._deaths.get(handle, 0) + 1
            if self._deaths[handle] <= RETRIES:
                self._waiting.appendleft(handle)
                return
            from dpw.cluster.jobs import Failed

            code = worker.process.exitcode
            self._done[handle] = Failed(
                f"a process of this machine died {RETRIES + 1} times over the same part (exit code {code}), "
                "perhaps for lack of memory: give the same command again with fewer --jobs; what was done "
                "is kept"
            )


def _work(connection: "Connection[Any, Any]", threads: int) -> None:
    """Do jobs until nobody gives any more."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # whoever gave the jobs hears it and asks workers to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import dpw.cluster.imported  # noqa: F401 (long ago, where a worker is a copy)
    from dpw.engine.memory import keep_freed_memory

    limit_threads(threads)
    keep_freed_memory()
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send(_outcome(job))


def _outcome(job: Any) -> Any:
    """What a job gave; what nobody foresaw is put into a sentence, too."""
    from dpw.cluster.jobs import Failed, carry_out

    try:
        return carry_out(job)
    except OSError as error:
        return Failed(f"{error.filename or 'the system'}: {error.strerror or error}; mend that and try again")
    except Exception as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        reason = (str(error).splitlines() or [""])[0][:200]
        return Failed(
            f"a mistake of dpw itself ({type(error).__name__}: {reason}): please report it together with "
            f"what {TRACEBACK}=1 shows"
        )


def _end_with_parent() -> None:
    """A process whose parent was killed is of no use any more; what it has committed stays."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
