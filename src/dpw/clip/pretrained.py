"""Getting a CLIP checkpoint off a disk or the hub, with one clear sentence for all that can go wrong."""

import importlib.util
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpw.clip.family_names import NAMES, REFUSED, known_families
from dpw.clip.plain_tokens import plain_tokenizer
from dpw.clip.preprocessing import Preprocessing
from dpw.errors import InputError

EMBEDDED = {"mini": Path(__file__).parent / "mini"}
SHARD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.safetensors")
# What is fetched from the hub: transformers' files, not those that open_clip keeps beside them.
WANTED = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
)
TOKENIZERS = ("tokenizer.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
LARGEST_TEXT = 256_000_000  # bytes of a JSON or text file; tokenisers of many languages have a tenth
LARGEST_SIZES = {  # far above those of the largest CLIPs
    "num_hidden_layers": 1000,
    "hidden_size": 65_536,
    "intermediate_size": 1_000_000,
    "projection_dim": 65_536,
    "num_attention_heads": 65_536,
    "vocab_size": 10_000_000,
    "max_position_embeddings": 1_000_000,
    "image_size": 4096,
    "patch_size": 4096,
}
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def embedded_name(reference: str | Path) -> str | None:
    """The name of the embedded CLIP that a reference (a name or a folder) means, or None for another CLIP.

    Example:
        >>> from dpw.clip import embedded_name
        >>> embedded_name("mini"), embedded_name("openai/clip-vit-base-patch16")
        ('mini', None)
    """
    if str(reference) in EMBEDDED:
        return str(reference)
    folder = os.path.realpath(reference)
    return next((name for name, own in EMBEDDED.items() if os.path.realpath(own) == folder), None)


def load_clip(name_or_folder: str, allow_download: bool = True) -> tuple[Any, Preprocessing, Any]:
    """The `CLIPModel`, preprocessing and tokeniser of an embedded name, a folder or a hub name."""
    from dpw.clip.fitting import check_tokenizer

    source = find_clip(name_or_folder) or fetch(name_or_folder, allow_download)
    found = _load_plain(source) or _load(source, name_or_folder)
    _refuse_not_finite(found[0], name_or_folder)
    check_tokenizer(found[0], found[2], name_or_folder)
    return found


def transformers_model(name_or_folder: str) -> Any:
    """The model as transformers itself has it, to compare with."""
    return _load(find_clip(name_or_folder) or fetch(name_or_folder), name_or_folder)[0].eval()


def find_clip(name_or_folder: str, *, model_too: bool = False) -> Path | None:
    """The folder of a CLIP, looked over; None for a hub name. Anything else is refused, without torch.

    `model_too` says that a model of dpw might have stood there as well, so that the refusal names both.
    """
    folder = EMBEDDED.get(name_or_folder, Path(name_or_folder))
    if folder.is_dir():
        check_folder(folder)
        return folder
    if HUB_NAME.fullmatch(name_or_folder) and not folder.exists():
        return None
    kind, first = ("model", "a folder that 'dpw learn' made, or a CLIP: ") if model_too else ("CLIP", "")
    raise InputError(
        f"there is no {kind} at {name_or_folder!r}: give {first}'mini', a folder with config.json and "
        "model.safetensors, or a hub name such as openai/clip-vit-base-patch16"
    )


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not a complete CLIP checkpoint before transformers sees it."""
    path = folder / "config.json"
    if not path.is_file():
        if (folder / "open_clip_config.json").is_file():
            raise InputError(
                f"{folder} holds a checkpoint of open_clip only: dpw needs transformers' files (config.json "
                "and model.safetensors), which most repositories have beside it"
            )
        if (folder / "model.json").is_file():
            raise InputError(f"{folder} is a model of dpw, not a CLIP: name the CLIP that it stands on")
        raise InputError(f"{folder} is not a model folder: it has no config.json")
    _refuse_odd_files(folder)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kind = content.get("model_type")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path} is not valid JSON ({error}): copy it again from the original model"
        ) from error
    _refuse_family(folder, kind)
    _refuse_absurd(path, content)
    weights = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
    if not any((folder / name).is_file() for name in weights):
        raise InputError(f"{folder} has no weights: expected model.safetensors beside config.json")
    _refuse_weights_outside(folder)
    # transformers would silently make an empty tokeniser.
    pair = (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file()
    if not pair and not any((folder / name).is_file() for name in TOKENIZERS):
        raise InputError(f"{folder} has no tokeniser: expected tokenizer.json, or vocab.json and merges.txt")


def _refuse_family(folder: Path, kind: object) -> None:
    """Refuse a model of a family that dpw does not know."""
    if str(kind) in REFUSED:
        raise InputError(f"{folder} holds {REFUSED[str(kind)]}")
    if not isinstance(kind, str) or kind not in NAMES:
        raise InputError(
            f"{folder} holds a model of type {kind!r}; dpw needs a CLIP of one of the families "
            f"{known_families()}"
        )


def _refuse_odd_files(folder: Path) -> None:
    """Refuse files that lie elsewhere, or would be waited for or never end: pipes, texts of a huge size."""
    inside = {Path(os.path.realpath(folder))}
    if folder.parent.name == "snapshots":  # the hub's own cache: snapshots/REVISION/FILE leads to blobs/HASH
        inside.add(Path(os.path.realpath(folder.parent.parent / "blobs")))
    for path in folder.iterdir():
        if path.suffix not in (".json", ".txt", ".model", ".safetensors", ".bin"):
            continue
        if path.is_symlink() and Path(os.path.realpath(path)).parent not in inside:
            raise InputError(f"{path} is a link that leads out of {folder}: put the file itself there")
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path} is a pipe or a device: copy the model again")
        if path.suffix in (".json", ".txt") and path.is_file() and path.stat().st_size > LARGEST_TEXT:
            raise InputError(
                f"{path} has more than {LARGEST_TEXT // 10**6} MB, as no file of a CLIP does: copy it again"
            )


def _refuse_absurd(path: Path, content: Mapping[str, Any]) -> None:
    """Refuse sizes of towers that no CLIP has: one would take all memory there is, or give no numbers."""
    for part in (content, content.get("text_config"), content.get("vision_config")):
        for name, most in LARGEST_SIZES.items():
            size = part.get(name) if isinstance(part, dict) else None
            if isinstance(size, int | float) and not 1 <= size <= most:
                raise InputError(f"{path} says {name} = {size}, not 1 to {most}: copy the model again")
        added = part.get("layer_norm_eps") if isinstance(part, dict) else None
        if isinstance(added, int | float) and not 0 <= added < 1:
            raise InputError(f"{path} says layer_norm_eps = {added}, not 0 to 1: copy the model again")


def _refuse_weights_outside(folder: Path) -> None:
    """Refuse an index of weights that names files which do not lie in the folder itself."""
    path = folder / "model.safetensors.index.json"
    if not path.is_file():
        return
    try:
        names = set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values())
        outside = sorted(str(name) for name in names if not SHARD.fullmatch(str(name)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is not an index of weights: copy it again from the original") from error
    if outside:
        raise InputError(f"{path} names {outside[0]!r}, which is no weights file of {folder}: refused")


def fetch(name: str, allow_download: bool = True) -> Path:
    """Download a hub model (or take it from the local hub cache) and give its folder."""
    from huggingface_hub import snapshot_download

    wanted, local = list(WANTED), not allow_download
    try:
        folder = Path(snapshot_download(name, allow_patterns=wanted, local_files_only=local))
        if not any(folder.glob("model*.safetensors")):
            wanted.append("pytorch_model.bin")
            folder = Path(snapshot_download(name, allow_patterns=wanted, local_files_only=local))
    except Exception as error:
        if local:
            raise InputError(
                f"{name!r} is not in the hub's cache of this machine, and a saved model does not fetch it "
                "by itself: say --allow-download (allow_download=True), or --backbone FOLDER"
            ) from error
        raise InputError(
            f"cannot fetch {name!r} from the hub ({_first_line(error)}): check the name and the network, or "
            "give a folder with a downloaded copy"
        ) from error
    check_folder(folder)
    return folder


def _load(folder: Path, name: str) -> tuple[Any, Preprocessing, Any]:
    """Load everything from a checked folder, offline, and insist that no weight is missing."""
    clip_model, clip_tokenizer = _import_family(folder)
    preprocessing = Preprocessing.from_folder(folder)
    with _quiet():
        try:
            clip, report = clip_model.from_pretrained(
                folder, local_files_only=True, output_loading_info=True, attn_implementation="sdpa"
            )
        except Exception as error:
            if "weights_only" in str(error):  # torch's advice would be to run whatever the file says
                raise InputError(
                    f"the weights in {folder} hold more than tensors, which could be any program: refused, "
                    "use a copy with model.safetensors"
                ) from error
            raise InputError(
                f"the weights in {folder} cannot be read ({_first_line(error)}): the file is truncated or "
                "damaged, copy it again"
            ) from error
        tokenizer = _load_tokenizer(clip_tokenizer, folder)
    _refuse_other_weights(report, name)
    return clip.float(), preprocessing, tokenizer


def _refuse_not_finite(clip: Any, name: str) -> None:
    """Refuse weights that no training leaves behind."""
    from dpw.clip.fitting import is_finite

    for key, tensor in clip.state_dict().items():
        if tensor.is_floating_point() and not is_finite(tensor):
            raise InputError(f"{name}: the weights {key} hold NaN or infinite values: copy the model again")


def _load_tokenizer(kind: Any, folder: Path) -> Any:
    """The tokeniser of a folder; one that needs a package which is not installed names it."""
    try:
        return kind.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        if "sentencepiece" in str(error).lower() and importlib.util.find_spec("sentencepiece") is None:
            raise InputError(
                f"the tokeniser in {folder} needs the package sentencepiece: pip install sentencepiece"
            ) from error
        raise InputError(
            f"the tokeniser in {folder} cannot be read ({_first_line(error)}): copy it again from the "
            "original model"
        ) from error


def _refuse_other_weights(report: Mapping[str, Any], name: str) -> None:
    """Refuse weights that do not match the configuration: missing, of another shape, or of further blocks."""
    lost = sorted(report["missing_keys"]) + sorted(str(key) for key in report.get("mismatched_keys", ()))
    if lost:
        raise InputError(
            f"{name}: {len(lost)} weights are missing or of another shape, the first is {lost[0]}"
        )
    more = sorted(key for key in report.get("unexpected_keys", ()) if ".encoder.layer" in key)
    if more:
        raise InputError(
            f"{name}: {len(more)} weights have no place in the configuration, the first is {more[0]}: take "
            "config.json and weights from the same model"
        )


def _load_plain(folder: Path) -> tuple[Any, Preprocessing, Any] | None:
    """An ordinary CLIP without importing transformers, which takes seconds.

    None for one that is in any way unusual: transformers reads it, or says what is wrong with it.
    """
    from dpw.clip.plain_clip import load_weights, plain_config

    config, tokenizer = plain_config(folder), plain_tokenizer(folder)
    if config is None or tokenizer is None:
        return None
    clip = load_weights(folder, config)
    return None if clip is None else (clip.float(), Preprocessing.from_folder(folder), tokenizer)


def _import_family(folder: Path) -> tuple[Any, Any]:
    """The classes of model and tokeniser in transformers, for the family that a folder names.

    Where a broken torchvision stands in the way, it is named.
    """
    kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    try:
        import transformers

        model = getattr(transformers, NAMES[kind][1], None)
        tokenizer = transformers.CLIPTokenizer if kind == "clip" else transformers.AutoTokenizer
    except Exception as error:
        if importlib.util.find_spec("torchvision") is not None:
            raise InputError(
                f"transformers cannot import CLIP because the installed torchvision is broken "
                f"({_first_line(error)}): run 'pip uninstall torchvision' (dpw does not need it) or install "
                "the version that matches your torch"
            ) from error
        raise
    if model is None:
        version, missing = transformers.__version__, NAMES[kind][1]
        raise InputError(f"transformers {version} has no {missing}: pip install --upgrade transformers")
    return model, tokenizer


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' loading report and progress bars off the terminal."""
    from transformers.utils import logging as transformers_logging

    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _first_line(error: Exception) -> str:
    """The first line of a library's message, which is all a user can act on."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
