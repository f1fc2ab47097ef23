"""Typed, validated settings: an unknown key or a wrong value is an error before anything runs."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpw.errors import InputError


class Settings(BaseModel):
    """Base of all settings: immutable, nothing unknown is accepted, a string below a field is its meaning."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TrainingConfig(Settings):
    """How one task is trained; every method's preset fills this in from its paper or code."""

    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """Plain SGD, Adam or AdamW."""
    learning_rate: float = Field(1.25, gt=0)
    """Rate at the start of a task, before the schedule."""
    task_learning_rates: dict[str, float] = Field(default_factory=dict)
    """Other rates for tasks by name."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum of SGD."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of Adam's two running means."""
    weight_decay: float = Field(0.0, ge=0)
    """Share of every weight that a step takes away, times the rate."""
    batch_size: int = Field(32, ge=1)
    """Images in a step."""
    epochs: int | None = Field(10, ge=1)
    """Passes over the training images; null where `iterations` counts."""
    iterations: int | None = Field(None, ge=1)
    """Steps of a task, whatever its size; null where `epochs` counts."""
    minimum_steps: int = Field(0, ge=0)
    """Steps that a task with few images takes at least, in more epochs."""
    task_epochs: dict[str, int] = Field(default_factory=dict)
    """Other numbers of epochs for tasks by name."""
    schedule: Literal["cosine", "warmup-cosine", "constant"] = "cosine"
    """How the rate falls: along a cosine, after a linear warm-up, or not at all."""
    final_factor: float = Field(1e-3, ge=0, le=1)
    """Rate at the end of `cosine`, as a share of the first."""
    warmup: int = Field(0, ge=0)
    """Steps of the warm-up of `warmup-cosine`."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of the target that is spread over all classes."""
    drop_last: bool = True
    """Leave out the last batch of an epoch if it is not full."""
    select: Literal["best-validation", "last"] = "best-validation"
    """Keep the weights of the epoch that was best on validation images, or the last."""
    gradient_checkpointing: bool = False
    """Less memory for more time; changes no number."""
    compile_towers: bool = False
    """Compile both towers by torch.compile; worth it for long runs on one shape."""


class MethodConfig(Settings):
    """Settings every method has.

    `absent` says what a stored configuration means that lacks a setting because it is older than it.
    """

    absent: ClassVar[Mapping[str, Any]] = {}
    needed_reference: ClassVar[tuple[str, ...]] = ()  # settings whose data a method cannot do without

    seed: int = Field(0, ge=0)
    """Seed of everything that is drawn."""
    training: TrainingConfig = TrainingConfig()
    """How one task is trained."""


class RoutedConfig(MethodConfig):
    """Settings of methods that decide for themselves which task's parameters an image needs."""

    decision: Literal["per-image", "batch-vote"] = "per-image"
    """Every image finds its task alone, or all images of a batch vote as in the published code."""


Config = TypeVar("Config", bound=Settings)
Method = TypeVar("Method", bound=MethodConfig)


def build(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Validate settings; all mistakes come in one error, unknown keys with the nearest valid name."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        problems = [_sentence(kind, detail) for detail in error.errors()]
        raise InputError(f"{len(problems)} wrong setting(s): " + "; ".join(problems)) from error


def stored(kind: type[Method], values: Mapping[str, Any]) -> Method:
    """Settings as they were stored, by this version or an earlier one."""
    return build(kind, {**kind.absent, **values})


def told_apart(config: MethodConfig) -> dict[str, Any]:
    """Settings as plain values without those at the value that a missing one stands for.

    So settings that were stored before a new one existed compare equal to the same settings today.
    """
    values, absent = config.model_dump(mode="json"), config.absent
    kept = {key: value for key, value in values.items() if key not in absent or value != absent[key]}
    if not config.training.minimum_steps:  # the one section with a setting that older files lack
        kept["training"] = {key: value for key, value in kept["training"].items() if key != "minimum_steps"}
    return kept


def merge(kind: type[BaseModel], base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Lay changes over settings of a kind, section by section; dotted keys reach into sections and mappings.

    A mapping that is the value of a setting, such as `{}` for a table of rates, replaces the old one.
    """
    merged: dict[str, Any] = dict(base)
    for key, value in changes.items():
        head, _, rest = key.partition(".")
        section = _section(kind, head)
        if rest:
            old = merged.get(head)
            old = dict(old) if isinstance(old, Mapping) else {}
            merged[head] = {**old, rest: value} if section is None else merge(section, old, {rest: value})
        elif section is not None and isinstance(value, Mapping):
            merged[head] = merge(section, merged.get(head, {}), value)
        else:
            merged[head] = value
    return merged


GAUSSIAN = ("ridge", "covariance", "weights", "fit_drop_last")  # settings of the Gaussians of all tasks

# A setting, and what must be so for it to have an effect.
_EFFECT: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("training.epochs", "training.iterations=null", lambda c: c.training.iterations is None),
    ("training.task_epochs", "training.iterations=null", lambda c: c.training.iterations is None),
    ("training.minimum_steps", "training.iterations=null", lambda c: c.training.iterations is None),
    ("training.momentum", "training.optimizer=sgd", lambda c: c.training.optimizer == "sgd"),
    ("training.betas", "training.optimizer=adam or adamw", lambda c: c.training.optimizer != "sgd"),
    ("training.warmup", "training.schedule=warmup-cosine", lambda c: c.training.schedule == "warmup-cosine"),
    ("training.final_factor", "training.schedule=cosine", lambda c: c.training.schedule == "cosine"),
    ("reject_quantile", "reject_threshold=null", lambda c: getattr(c, "reject_threshold", None) is None),
    ("grid_points", "text_weight=grid", lambda c: c.text_weight == "grid"),
    ("easiness_alpha", "heads=adaptive", lambda c: c.heads == "adaptive"),
    ("truncate_heads", "heads=adaptive", lambda c: c.heads == "adaptive"),
    ("head_multiple", "heads=fixed", lambda c: c.heads == "fixed"),
    ("repa_init", "own_slice=false", lambda c: not c.own_slice),
    ("fixed_cutoff", "activation=conditional", lambda c: c.activation == "conditional"),
    *((key, "router=gaussian", lambda c: c.router == "gaussian") for key in GAUSSIAN),
    ("synthetic_classes", "diffusion=PIPELINE", lambda c: c.diffusion is not None),
    ("diffusion_steps", "diffusion=PIPELINE", lambda c: c.diffusion is not None),
)


def refuse_overridden(config: Settings, given: Mapping[str, Any]) -> None:
    """Refuse a given setting that another one leaves without effect, saying which."""
    dotted = _dotted(given)
    for key, needed, works in _EFFECT:
        if dotted.get(key) and not works(config):
            raise InputError(
                f"{key}={dotted[key]} has no effect with these settings: leave it out, or also give {needed}"
            )


def _dotted(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted name, whichever way they were written."""
    section = given.get("training")
    nested = section if isinstance(section, Mapping) else {}
    return {**{f"training.{key}": value for key, value in nested.items()}, **given}


def keys_of(kind: type[BaseModel], prefix: str = "") -> list[str]:
    """All settings of a kind by dotted name."""
    names: list[str] = []
    for name in kind.model_fields:
        inner = _section(kind, name)
        names += keys_of(inner, f"{prefix}{name}.") if inner is not None else [prefix + name]
    return names


def _section(kind: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The kind of settings that a field holds, or None if it holds a value."""
    field = kind.model_fields.get(name)
    for annotation in () if field is None else (field.annotation, *get_args(field.annotation)):
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
    return None


def unknown_setting(key: str, names: Sequence[str]) -> str:
    """What to say of a setting that does not exist: the nearest one that does, or all of them."""
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"valid are {', '.join(names)}"
    return f"unknown setting {key!r}, {hint}"


def _sentence(kind: type[BaseModel], detail: Any) -> str:
    """One mistake in words: the key, what was given, what would be right."""
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return unknown_setting(key, keys_of(kind))
    return f"{key} = {detail['input']!r}: {detail['msg'][0].lower()}{detail['msg'][1:]}"
