"""Methods by name, with their presets and the settings that suit a small CLIP."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from dpw.clip.backbone import Backbone
from dpw.clip.pretrained import embedded_name
from dpw.data.reference import OWN_IMAGES, OWN_PROMPTS
from dpw.errors import a_text
from dpw.methods.base import Method
from dpw.methods.catalog import no_method, no_preset
from dpw.methods.config import MethodConfig, build, merge, refuse_overridden

Settings = Mapping[str, Any]
PATH_SETTINGS = ("reference_images", "reference_sentences", "synthetic", "synthetic_classes", "diffusion")

METHODS: dict[str, type[Method]] = {}
PRESETS: dict[str, dict[str, Settings]] = {}
SUITED: dict[str, dict[str, Settings]] = {}  # by method and embedded CLIP

Registered = TypeVar("Registered", bound=type[Method])


def register(*, mini: Settings | None = None, **presets: Settings) -> Callable[[Registered], Registered]:
    """Make a method available under its name.

    Args:
        mini: what the embedded CLIP `mini`, a hundred times smaller than ViT-B/16, changes in the defaults.
        presets: named sets of settings, such as `official={"decision": "batch-vote"}`.

    Returns:
        A decorator for a subclass of `Method` with a `name`.

    Raises:
        ValueError: two methods have the same name.

    Example:
        >>> from dpw.methods import METHODS, PRESETS
        >>> METHODS["wise-ft"].name, sorted(PRESETS["wise-ft"])
        ('wise-ft', ['default', 'zeroshot'])
    """

    def add(kind: Registered) -> Registered:
        if kind.name in METHODS:
            raise ValueError(f"two methods are called {kind.name!r}")
        METHODS[kind.name] = kind
        PRESETS[kind.name] = {"default": {}, **presets}
        SUITED[kind.name] = {"mini": mini or {}}
        return kind

    return add


def suited_settings(name: str, clip: str) -> dict[str, Any]:
    """What a CLIP (`mini`, a folder or a hub name) changes in a method's defaults.

    The defaults are the published settings, which belong to ViT-B/16; only the embedded CLIP has others.
    """
    return dict(SUITED[name].get(embedded_name(clip) or "", {}))


def configure(
    name: str, preset: str = "default", settings: Settings | None = None, *, clip: str = ""
) -> MethodConfig:
    """The validated settings of a method.

    Args:
        name: a registered method.
        preset: one of its presets, or several as `official+ablation/sigmoid`, later ones over earlier ones.
        settings: single settings, such as `{"training.epochs": 3}`; they go over the preset.
        clip: the CLIP below (`mini`, a folder or a hub name); what suits it goes below the preset.

    Raises:
        InputError: the method, the preset or a setting does not exist, or a value is impossible.

    Example:
        >>> from dpw.methods import configure
        >>> configure("dpw", settings={"training.epochs": 3}).training.epochs
        3
    """
    if name not in METHODS:
        raise no_method(name, METHODS)
    layers = preset.split("+")
    for layer in layers:
        if layer not in PRESETS[name]:
            raise no_preset(name, layer, PRESETS[name])
    kind = METHODS[name].config_class
    chosen = merge(kind, kind().model_dump(), suited_settings(name, clip))
    for layer in layers:
        chosen = merge(kind, chosen, PRESETS[name][layer])
    named = {a_text(key, "the name of a setting"): value for key, value in (settings or {}).items()}
    given = {key: _durable(key, value) for key, value in named.items()}
    config = build(kind, merge(kind, chosen, given))
    refuse_overridden(config, given)
    return config


def _durable(key: str, value: Any) -> Any:
    """A setting that names a file or folder as an absolute path, so that it means the same from anywhere."""
    if key not in PATH_SETTINGS or not isinstance(value, str) or value in (OWN_IMAGES, OWN_PROMPTS):
        return value
    path = Path(value)
    return str(path.absolute()) if path.exists() else value


def create(
    name: str, backbone: Backbone, preset: str = "default", settings: Settings | None = None
) -> Method:
    """A method over a backbone, ready to learn its first task, with the settings that suit the backbone."""
    return METHODS[name](backbone, configure(name, preset, settings, clip=backbone.reference))
