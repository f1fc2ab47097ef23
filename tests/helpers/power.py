"""A power cut, simulated: what was written and not synced is lost, then the process is killed."""

import os
import signal
from pathlib import Path


class PowerCut:
    """Watches every sync and rename of this process and cuts the power at its n-th sync.

    A rename counts from the sync of its folder on; until then the old file comes back. Of a log and of a
    half-written file only what was synced stays; a lock's journal is synced with every line.
    """

    def __init__(self, folder: Path, syncs: int) -> None:
        self.folder, self.left = folder, syncs
        there = [path for path in folder.rglob("*") if path.is_file()]  # of earlier lives, so on the disk
        self.synced: dict[str, int] = {str(path.resolve()): path.stat().st_size for path in there}
        self.renamed: list[tuple[Path, bytes | None]] = []
        self.fsync, self.replace = os.fsync, Path.replace
        os.fsync = self._fsync
        Path.replace = lambda source, target: self._replace(source, Path(target))

    def _fsync(self, descriptor: int) -> None:
        if not self.left:
            self.cut()
        self.left -= 1
        self.fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            self.renamed = [entry for entry in self.renamed if entry[0].parent.resolve() != path]
        else:
            self.synced[str(path)] = os.fstat(descriptor).st_size

    def _replace(self, source: Path, target: Path) -> Path:
        self.renamed.append((target, target.read_bytes() if target.exists() else None))
        return self.replace(source, target)

    def cut(self) -> None:
        for target, before in reversed(self.renamed):
            target.unlink(missing_ok=True)
            if before is not None:
                target.write_bytes(before)
        for path in (*self.folder.rglob("*.jsonl"), *self.folder.rglob(".*.tmp")):
            os.truncate(path, min(path.stat().st_size, self.synced.get(str(path.resolve()), 0)))
        os.kill(os.getpid(), signal.SIGKILL)
