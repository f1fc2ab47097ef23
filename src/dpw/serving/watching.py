"""The model folder while it is served: new commits are loaded beside the old one, damaged ones refused."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from dpw.errors import DpwError
from dpw.serving.served import ServedModel
from dpw.storage.model_json import FILE

log = logging.getLogger("dpw.serve")

Signature = tuple[tuple[str, int, int], ...]


class ModelWatcher:
    """Keeps the newest good state of a model folder in `current`; looks at the folder in a thread."""

    def __init__(self, folder: Path, load: Callable[[], ServedModel], seconds: float) -> None:
        """Load the folder now, by `load()`; `seconds` pass between two looks."""
        self.folder, self.load, self.seconds = folder, load, seconds
        self.refused: str | None = None  # why the newest state is not served
        self.reloads = self.refusals = 0
        self._looking = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen = signature(folder)
        self.current = load()

    def look(self) -> bool:
        """Load the folder if it has changed since the last look; gives whether a new state is served.

        What is refused stays refused until some file changes; the old state goes on meanwhile.
        """
        with self._looking:
            return self._look()

    def _look(self) -> bool:
        """The same, by one thread at a time."""
        found = signature(self.folder)
        if found == self._seen:
            return False
        try:
            loaded = self.load()
        except (DpwError, OSError) as error:
            if signature(self.folder) != found:
                return False  # a writer is at work: the next look will see what it leaves
            self._seen, self.refused = found, str(error)
            self.refusals += 1
            log.warning("refused: %s; still serving %s", error, self.current.revision)
            return False
        self._seen, self.refused = found, None
        if loaded.revision == self.current.revision:
            return False
        self.current = loaded
        self.reloads += 1
        log.info("now serving %s: %s", loaded.revision, ", ".join(loaded.learner.tasks) or "nothing learned")
        return True

    def start(self) -> None:
        """Look at the folder from now on."""
        self._thread = threading.Thread(target=self._run, name="dpw-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """Look again and again; whatever goes wrong must not end the watching."""
        while not self._stop.wait(self.seconds):
            try:
                self.look()
            except Exception as error:
                self.refused = f"the model folder cannot be looked at ({error})"
                log.exception("the model folder cannot be looked at; still serving the old state")


def signature(folder: Path) -> Signature:
    """Names, sizes and times of the files that make a model; it changes whenever one of them does."""
    found = []
    for path in (folder / FILE, *sorted(folder.glob("*.safetensors"))):
        try:
            state = path.stat()
        except OSError:
            continue
        found.append((path.name, state.st_size, state.st_mtime_ns))
    return tuple(found)
