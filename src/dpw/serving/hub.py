"""Sharing models by the Hugging Face hub: push a folder, pull one."""

import tempfile
from pathlib import Path
from typing import Any

from dpw.clip.pretrained import HUB_NAME, embedded_name
from dpw.errors import DamagedFileError, InputError
from dpw.learner import ContinualCLIP
from dpw.serving.card import model_card
from dpw.storage import files, model_folder
from dpw.storage.hub import WANTED, hub_model
from dpw.storage.model_json import FILE, entries_of, read_model

RESULTS = "results.json"


def push_to_hub(
    model: ContinualCLIP | str | Path,
    name: str,
    *,
    private: bool = False,
    licence: str | None = None,
    clip: str | None = None,
) -> str:
    """Put a model on the hub, with a card; who is logged in there (`hf auth login`) may do so.

    Args:
        model: a model, or its folder; every file of a folder is checked first.
        name: where to, as `name/model`; made if it is not there.
        private: whether only you can see a new one.
        licence: of your tensors, such as `apache-2.0`; stands in the card.
        clip: the hub name of the CLIP below, where the model knows it as a folder of this machine.

    Returns:
        The address of the commit.

    Raises:
        InputError: there is no such model, its CLIP is a folder and has no name, or the hub refuses.
        DamagedFileError: a file of the model was changed or cut off.

    Example:
        >>> from dpw import ContinualCLIP
        >>> from dpw.serving.hub import push_to_hub
        >>> push_to_hub(ContinualCLIP.from_pretrained("mini"), "birds")
        Traceback (most recent call last):
        ...
        dpw.errors.InputError: 'birds' is no name on the hub: give one such as my-name/my-model
    """
    _check_name(name)
    with tempfile.TemporaryDirectory() as temporary:
        source, shared = Path(temporary) / "source", Path(temporary) / "shared"
        if isinstance(model, ContinualCLIP):
            model.save_pretrained(source)
        else:
            source = Path(model)
        content = model_folder.read_model(source)
        content = model_folder.copy_model(source, shared, clip or _shared_reference(source, content))
        card = model_card(name, content, licence, _results(source))
        files.write_bytes(shared / "README.md", card.encode())
        return _upload(shared, name, private)


def pull(name: str, folder: str | Path, *, revision: str | None = None) -> list[str]:
    """Copy a model from the hub into a folder that can learn more, every file checked.

    Args:
        name: as `name/model`.
        folder: a new folder.
        revision: a branch, tag or commit; the newest by default.

    Returns:
        The names of its tasks.

    Raises:
        InputError: there is no such model on the hub, or the folder holds one already.
        DamagedFileError: a file came changed or cut off.

    Example:
        >>> from dpw.serving.hub import pull
        >>> pull("birds", "my-clip")
        Traceback (most recent call last):
        ...
        dpw.errors.InputError: 'birds' is no name on the hub: give one such as my-name/my-model
    """
    _check_name(name)
    found = hub_model(name, revision)
    if found is None:
        raise InputError(f"no model of dpw is found on the hub as {name!r}: check the name and the network")
    content = model_folder.copy_model(found, Path(folder))
    return [str(task["name"]) for task in content["tasks"]]


def _check_name(name: str) -> None:
    """Refuse what cannot be a model on the hub."""
    if not HUB_NAME.fullmatch(name):
        advice = "; a model folder needs no hub, copy it as it is" if Path(name).is_dir() else ""
        raise InputError(f"{name!r} is no name on the hub: give one such as my-name/my-model{advice}")


def _shared_reference(folder: Path, content: dict[str, Any]) -> str:
    """The CLIP below as other machines know it."""
    reference = str(content["backbone"]["reference"])
    if embedded_name(reference) is not None:
        return str(embedded_name(reference))
    if Path(reference).exists() or not HUB_NAME.fullmatch(reference):
        raise InputError(
            f"{folder} stands on the CLIP in {reference}, which others do not have: say what the hub calls "
            "it, such as --clip openai/clip-vit-base-patch32"
        )
    return reference


def _results(folder: Path) -> dict[str, Any] | None:
    """The results of the benchmark run that a model lies in, if it does."""
    path = folder.absolute().parent / RESULTS
    return files.read_json(path, "dpw run") if path.is_file() else None


def _named_there(name: str) -> list[str]:
    """The tensor files that the model on the hub names: of all files there only these are ours to remove."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        there = Path(hf_hub_download(name, FILE)).parent
        return [str(entry["file"]) for entry in entries_of(read_model(there))]
    except (EntryNotFoundError, DamagedFileError):
        return []


def _upload(folder: Path, name: str, private: bool) -> str:
    """Send a folder in one commit; tensor files that the model there named and no longer names go."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(name, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=[*WANTED, "README.md"],
            delete_patterns=_named_there(name),
            commit_message="Model by dpw",
        )
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise InputError(
            f"cannot push to {name!r} ({reason}): log in by 'hf auth login' and check name and network"
        ) from error
    return str(commit.commit_url)
