"""The eleven public datasets of MTIL in the CoOp/DIKI layout, under both protocols."""

from pathlib import Path

from dpw.data.content import TaskContent
from dpw.data.protocol import get_protocol
from dpw.data.public.catalog import DATASETS, Expected, PublicDataset, get_dataset
from dpw.data.public.listing import Listing
from dpw.data.root import Root
from dpw.data.task import Task
from dpw.errors import InputError

__all__ = ["DATASETS", "Expected", "PublicDataset", "get_dataset", "list_public", "load_public"]


def list_public(
    dataset: PublicDataset, data_root: Path, *, protocol: str, seed: int, rebuild_splits: bool = False
) -> Listing:
    """List classes, splits and problems of a dataset, decoding nothing."""
    get_protocol(protocol)
    folder = data_root / dataset.folder
    if not folder.is_dir():
        raise InputError(
            f"{folder} is missing; put {dataset.title} there or run `dpw data get {dataset.name}`"
        )
    rule = dataset.rules[protocol]
    if rebuild_splits and protocol == "coop" and dataset.rebuild is not None:
        rule = dataset.rebuild
    return rule.read(Root(folder), f"{seed}-{dataset.name}")


def load_public(
    name: str, data_root: Path, *, protocol: str = "coop", seed: int = 0, rebuild_splits: bool = False
) -> Task:
    """Load one of the eleven datasets; the first thing that is wrong is raised."""
    dataset = get_dataset(name)
    listing = list_public(dataset, data_root, protocol=protocol, seed=seed, rebuild_splits=rebuild_splits)
    if listing.problems:
        raise InputError(listing.problems[0])
    content = TaskContent(dataset.name, listing.classes, listing.splits)
    return Task.from_content(content, templates=dataset.templates, protocol=protocol)
