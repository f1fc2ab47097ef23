"""Who does jobs: the processes of a Ray cluster, each job again from its checkpoint if its worker dies."""

from collections.abc import Sequence
from typing import Any, Protocol

from dpw.cluster.connection import Head, resources, slots
from dpw.cluster.jobs import Done, Failed, Job, carry_out

RETRIES = 20  # times that a job whose worker or machine died is begun again


class Workers(Protocol):
    """Something that does jobs, several at once."""

    slots: int

    def submit(self, job: Job) -> Any:
        """Have a job done as soon as there is room; gives a handle."""
        ...

    def wait(self, handles: Sequence[Any], seconds: float) -> list[Any]:
        """Those of the handles whose jobs have ended, after at most so many seconds."""
        ...

    def result(self, handle: Any) -> Done | Failed:
        """What an ended job gave."""
        ...

    def cancel(self, handle: Any) -> bool:
        """Take back a job; whether it has not been begun, so that nothing of it will come."""
        ...


class RayWorkers:
    """The workers of a connected cluster; a job takes as many cores as it computes with threads."""

    def __init__(self, ray: Any, threads: int) -> None:
        """Look at what the cluster has."""
        self.ray, self.slots, self.head = ray, slots(ray, threads), Head(ray)
        self.remote = ray.remote(max_retries=RETRIES, **resources(ray, threads))(carry_out)

    def submit(self, job: Job) -> Any:
        """Queue a job; Ray begins those that were queued first."""
        return self.remote.options(name=f"{job.kind} {job.part or job.folder.name}").remote(job)

    def wait(self, handles: Sequence[Any], seconds: float) -> list[Any]:
        """Ask Ray, and now and then whether it is still there."""
        self.head.refuse_lost()
        done, _ = self.ray.wait(list(handles), num_returns=1, timeout=seconds)
        return list(done)

    def cancel(self, handle: Any) -> bool:
        """Take a job out of Ray's queue; one that just begins is told to end and harms nobody."""
        self.ray.cancel(handle, force=True)
        return True

    def result(self, handle: Any) -> Done | Failed:
        """The value, or a sentence about a worker that died again and again or a program that failed."""
        try:
            found: Done | Failed = self.ray.get(handle)
            return found
        except self.ray.exceptions.RayError as error:
            self.head.refuse_lost(patience=0.0)  # then that is why
            return Failed(worker_failed(error))


def worker_failed(error: Exception) -> str:
    """The sentence about a worker that died again and again, or whose program failed."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return (
        f"a worker failed ({lines[-1].strip():.300}): look at the logs of Ray, then give the same command "
        "again; what was done is kept"
    )
