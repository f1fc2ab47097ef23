"""The state of a training that is under way, written so that it can go on after any interruption."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from dpw.errors import StoreError
from dpw.storage import files

KIND = "dpw-progress"


@dataclass
class Position:
    """Where a training stands; together with the tensors it is everything that is needed to go on."""

    task: str
    epoch: int = 0
    batch: int = 0
    step: int = 0
    best_epoch: int | None = None
    best_accuracy: float | None = None
    validation: list[float] = field(default_factory=list)


class ProgressFolder:
    """A folder that always holds the last complete state of one training, or none."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """`identity` says what is being trained; a state of anything else is refused."""
        self.folder, self.identity = folder, dict(identity)

    @property
    def path(self) -> Path:
        """The file whose replacement is the commit."""
        return self.folder / "progress.json"

    def save(
        self,
        position: Position,
        tensors: Mapping[str, Tensor],
        best: Mapping[str, Tensor] | None,
        log_bytes: int,
    ) -> None:
        """Replace the stored state by a newer one."""
        entries = {"now": files.write_tensors(self.folder, "now", tensors)}
        if best is not None:
            entries["best"] = files.write_tensors(self.folder, "best", best)
        content = {
            "format": files.FORMAT,
            "kind": KIND,
            "identity": self.identity,
            "position": asdict(position),
            "log_bytes": log_bytes,
            "tensors": entries,
        }
        files.write_json(self.path, content)
        files.remove_unused(self.folder, list(entries.values()))

    def load(self) -> tuple[Position, dict[str, Tensor], dict[str, Tensor] | None, int] | None:
        """The stored state, or None if nothing is under way."""
        if not self.path.exists():
            return None
        content = files.read_json(self.path, "training state")
        if content.get("kind") != KIND:
            raise StoreError(f"{self.path} is a {content.get('kind')!r}, not a training state")
        refuse_differences(self.path, content["identity"], self.identity)
        entries = content["tensors"]
        best = files.read_tensors(self.folder, entries["best"]) if "best" in entries else None
        position = Position(**content["position"])
        return position, files.read_tensors(self.folder, entries["now"]), best, content["log_bytes"]

    def clear(self) -> None:
        """The training is finished and saved elsewhere."""
        self.path.unlink(missing_ok=True)
        if self.folder.is_dir():
            files.remove_unused(self.folder, [])


def refuse_differences(path: Path, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to go on with anything but what was begun, naming what differs."""
    differing = sorted(key for key in {*stored, *given} if stored.get(key) != given.get(key))
    if differing:
        told = "; ".join(f"{k}: was {stored.get(k)!r}, now {given.get(k)!r}" for k in differing)
        raise StoreError(
            f"{path} belongs to something else ({told[:600]}): use another folder or the old settings"
        )
