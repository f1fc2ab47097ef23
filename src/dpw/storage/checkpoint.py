"""The checkpoint of a training that is not finished, written so that it can go on after any interruption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpw.errors import DamagedFileError, InputError
from dpw.storage import files
from dpw.storage.lock import writing
from dpw.storage.schema import PlanContent, ProgressContent, check_content

if TYPE_CHECKING:
    from torch import Tensor

KIND = "dpw-progress"
PLAN_KIND, PLAN_FILE = "dpw-plan", "plan.json"
FILE = "progress.json"
DATA = "images and labels (SHA-256)"  # the key of an identity that earlier versions did not write
REMEDY = (
    "use the old settings and data, or begin anew: a run elsewhere, 'dpw learn' with --discard-unfinished"
)
SHOWN = 60  # letters of a value in a sentence
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
    log_sha256: str | None = None


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

    @property
    def planned(self) -> bool:
        """Whether a training was written down, however far it came."""
        return self.exists or (self.folder / PLAN_FILE).exists()

    def refuse_foreign(self) -> None:
        """Refuse to drop files that dpw did not write."""
        for path, kind in ((self.path, KIND), (self.folder / PLAN_FILE, PLAN_KIND)):
            if not files.is_own(path, kind.encode()):
                raise InputError(f"{path} was not written by dpw: move it elsewhere")

    def save(
        self,
        position: Position,
        tensors: Mapping[str, Tensor],
        best: Mapping[str, Tensor] | None,
        log_bytes: int,
        log_sha256: str | None = None,
    ) -> None:
        """Replace the stored state by a newer one."""
        with writing(self.folder):
            before = self._entries()
            entries = {"now": files.write_tensors(self.folder, "now", tensors)}
            if best is not None:
                entries["best"] = files.write_tensors(self.folder, "best", best)
            content = {
                "format": files.FORMAT,
                "kind": KIND,
                "identity": self.identity,
                "position": asdict(position),
                "log_bytes": log_bytes,
                "log_sha256": log_sha256,
                "tensors": entries,
            }
            files.commit(self.path, content, list(entries.values()), before)

    def load(self) -> Stored | None:
        """The stored state, or None if there is none."""
        if not self.exists:
            return None
        content = self.read()
        unsaid = {key: self.identity.get(key) for key in (DATA, CLIP_SETTINGS)}
        stored = unsaid | content["identity"]
        refuse_differences(self.path, stored, self.identity, REMEDY)
        check_content(ProgressContent, content, self.path)
        said = {one.name: content["position"][one.name] for one in fields(Position)}
        entries = content["tensors"]
        best = files.read_tensors(self.folder, entries["best"]) if entries.get("best") else None
        tensors = files.read_tensors(self.folder, entries["now"])
        return Stored(Position(**said), tensors, best, content["log_bytes"], content.get("log_sha256"))

    def read(self) -> dict[str, Any]:
        """The JSON of the stored state, checked."""
        content = files.read_json(self.path, "training state")
        if content.get("kind") != KIND or not isinstance(content.get("identity"), dict):
            raise DamagedFileError(f"{self.path} is a {content.get('kind')!r}, not a training state")
        return content

    def begun(self) -> dict[str, Any]:
        """The identity of the training that was begun, by its state or, where none was saved, its plan."""
        if self.exists:
            return dict(self.read()["identity"])
        content = files.read_json(self.folder / PLAN_FILE, "training plan")
        identity = content.get("identity")
        return dict(identity) if isinstance(identity, dict) else {}

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Write down how the training is to go, before it begins."""
        content = {"format": files.FORMAT, "kind": PLAN_KIND, "identity": self.identity, "plan": dict(plan)}
        files.write_json(self.folder / PLAN_FILE, content)

    def read_plan(self) -> dict[str, Any] | None:
        """The plan of the same training, or None if none was written down.

        The plan of another training of which no step was saved is no loss and does not count.
        """
        path = self.folder / PLAN_FILE
        if not path.exists():
            return None
        content = files.read_json(path, "training plan")
        check_content(PlanContent, content, path)
        if not self.exists and content["identity"] != self.identity:
            return None
        refuse_differences(path, content["identity"], self.identity, REMEDY)
        return dict(content["plan"])

    def clear(self) -> None:
        """Remove the state: the training is finished and saved elsewhere, or nobody wants it any more.

        Files of the same names that dpw did not write stay.
        """
        if not self.folder.is_dir():
            return
        with writing(self.folder):
            if files.is_own(self.path, KIND.encode()):
                files.commit(self.path, None, [], self._entries())
            if files.is_own(self.folder / PLAN_FILE, PLAN_KIND.encode()):
                (self.folder / PLAN_FILE).unlink(missing_ok=True)

    def _entries(self) -> list[dict[str, Any]]:
        """The tensor files of the stored state; none where there is no state that can be read."""
        try:
            content = self.read() if self.exists else None
            if content is None:
                return []
            check_content(ProgressContent, content, self.path)
            return [entry for entry in content["tensors"].values() if entry is not None]
        except DamagedFileError:
            return []


def refuse_differences(
    path: Path,
    stored: Mapping[str, Any],
    given: Mapping[str, Any],
    remedy: str = "use another folder or the old settings",
) -> None:
    """Refuse to go on with anything but what was begun, naming what differs."""
    was, now = _flat(stored), _flat(given)
    differing = sorted(key for key in {*was, *now} if was.get(key) != now.get(key))
    if differing:
        shown = "; ".join(
            f"{key}: was {_short(was.get(key))}, now {_short(now.get(key))}" for key in differing
        )
        raise InputError(f"{path} belongs to something else ({shown[:600]}): {remedy}")


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Values by their full names, so that of a whole group only what differs is named."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= (
            _flat(value, f"{above}{key}.") if isinstance(value, dict) and value else {f"{above}{key}": value}
        )
    return flat


def _short(value: Any) -> str:
    """A value as it is shown in a sentence."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
