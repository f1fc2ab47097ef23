"""The checkpoint of a training that is not finished, written so that it can go on after any interruption."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from dpw.errors import DamagedFileError, InputError
from dpw.storage import files

KIND = "dpw-progress"
FILE = "progress.json"
CLIP_SETTINGS = "CLIP settings"  # part of the identity that checkpoints of earlier versions lack


@dataclass
class Position:
    """How far a training has come; together with the tensors it is everything that is needed to go on."""

    task: str
    epoch: int = 0
    batch: int = 0
    step: int = 0
    best_epoch: int | None = None
    best_accuracy: float | None = None
    validation: list[float] = field(default_factory=list)


class Stored(NamedTuple):
    """What a checkpoint gives back: position, tensors, those of the best epoch, and the log's length."""

    position: Position
    tensors: dict[str, Tensor]
    best: dict[str, Tensor] | None
    log_bytes: int


class TrainingCheckpoint:
    """A folder that always holds the last complete state of one training, or none."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """`identity` says what is being trained; a state of anything else is refused."""
        self.folder, self.identity = folder, dict(identity)

    @property
    def path(self) -> Path:
        """The file whose replacement is the commit."""
        return self.folder / FILE

    @property
    def exists(self) -> bool:
        """Whether a training was saved and not yet finished."""
        return self.path.exists()

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

    def load(self) -> Stored | None:
        """The stored state, or None if there is none."""
        if not self.exists:
            return None
        content = files.read_json(self.path, "training state")
        if content.get("kind") != KIND:
            raise DamagedFileError(f"{self.path} is a {content.get('kind')!r}, not a training state")
        unsaid = {CLIP_SETTINGS: self.identity.get(CLIP_SETTINGS)}
        refuse_differences(self.path, unsaid | content["identity"], self.identity)
        entries = content["tensors"]
        best = files.read_tensors(self.folder, entries["best"]) if "best" in entries else None
        tensors = files.read_tensors(self.folder, entries["now"])
        return Stored(Position(**content["position"]), tensors, best, content["log_bytes"])

    def clear(self) -> None:
        """Remove the state: the training is finished and saved elsewhere."""
        self.path.unlink(missing_ok=True)
        if self.folder.is_dir():
            files.remove_unused(self.folder, [])


def refuse_differences(path: Path, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to go on with anything but what was begun, naming what differs."""
    differing = sorted(key for key in {*stored, *given} if stored.get(key) != given.get(key))
    if differing:
        shown = "; ".join(f"{k}: was {stored.get(k)!r}, now {given.get(k)!r}" for k in differing)
        raise InputError(
            f"{path} belongs to something else ({shown[:600]}): use another folder or the old settings"
        )
