"""`--data-root` and `--rebuild-splits`, refused where no public dataset is asked for."""

import os
from collections.abc import Mapping
from pathlib import Path

DATA = "DPW_DATA"  # the variable that stands for --data-root


def data_root_for(benchmark: str, data_root: Path | None) -> str | None:
    """The folder of the public datasets, if a benchmark has any.

    The variable may stay set for all commands, so it is passed over where nothing needs it; an option that
    somebody typed is refused there.
    """
    from dpw import InputError
    from dpw.benchmarks import get_benchmark
    from dpw.benchmarks.sources import public_datasets

    if data_root is None or public_datasets(get_benchmark(benchmark).tasks):
        return None if data_root is None else str(data_root)
    if str(data_root) != os.environ.get(DATA):
        raise InputError(
            f"--data-root {data_root} has no effect on {benchmark}: it uses no public dataset; leave it out"
        )
    return None


def may_rebuild(benchmark: str, protocol: str | None) -> bool:
    """True; `--rebuild-splits` is refused where no task reads a published split file."""
    from dpw import InputError
    from dpw.benchmarks import get_benchmark
    from dpw.benchmarks.sources import XTailTask, public_datasets
    from dpw.data.public import get_dataset

    found = get_benchmark(benchmark)
    chosen = protocol or found.protocol
    read = [one for one in found.tasks if chosen == "coop" or isinstance(one, XTailTask)]
    if not any(get_dataset(name).rebuild for name in public_datasets(read)):
        raise InputError(
            f"--rebuild-splits has no effect on {benchmark} under protocol {chosen}: none of its tasks has a "
            "published split file; leave it out"
        )
    return True


def refuse_given(options: Mapping[str, object], where: str) -> None:
    """Refuse the first option that was given although it has no effect there; None was not given."""
    from dpw import InputError

    for name, value in options.items():
        if value is None:
            continue
        raise InputError(f"{name} {value} has no effect on {where}: leave it out")
