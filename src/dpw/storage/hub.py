"""Models of ours on the hub: whether a name means one, and its folder in the hub's own cache."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpw.clip.pretrained import HUB_NAME
from dpw.errors import InputError
from dpw.storage.model_json import FILE

WANTED = (FILE, "*.safetensors")


def hub_model(source: str | Path, revision: str | None = None) -> Path | None:
    """The snapshot of a model that a hub name means; None for folders, for CLIPs and for what is not there.

    Somebody who names a model wants it fetched. What cannot be reached is None too: it may be a CLIP, and
    who looks for one says what is wrong.
    """
    name = str(source)
    if not HUB_NAME.fullmatch(name) or Path(name).exists():
        return None
    from huggingface_hub import hf_hub_download, snapshot_download

    try:
        with _quiet():
            hf_hub_download(name, FILE, revision=revision)
    except Exception:
        return None
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(WANTED)))
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise InputError(f"cannot fetch all of {name!r} from the hub ({reason}): try again") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the hub's word about every try off the terminal: whoever asked says in one sentence what came."""
    log = logging.getLogger("huggingface_hub")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
