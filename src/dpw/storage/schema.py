"""What the JSON of model and run folders must look like: a right checksum does not make content sensible."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpw.errors import DamagedFileError

Name = Annotated[str, Field(min_length=1, max_length=1000)]
Template = Annotated[str, Field(max_length=1000, pattern=r"\{\}")]  # with a place for the class name
Accuracy = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    """A part of a file: the types are as written, and further keys are allowed."""

    model_config = ConfigDict(strict=True)


class _Entry(_Part):
    """A reference to a tensor file."""

    file: Name
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Count


class _Task(_Part):
    """A learned task."""

    name: Name
    classes: Annotated[list[Name], Field(min_length=1)]
    templates: Annotated[list[Template], Field(min_length=1)]
    protocol: Name
    details: dict[str, Any]
    tensors: _Entry


class _Backbone(_Part):
    """The CLIP below a model."""

    reference: Name
    fingerprint: Name
    activation: Name


class _Method(_Part):
    """A method and its settings."""

    name: Name
    config: dict[str, Any]


class ModelContent(_Part):
    """`model.json`, and `task.json` of an exported task."""

    backbone: _Backbone
    method: _Method
    shared: _Entry | None
    tasks: list[_Task]


class RunContent(_Part):
    """`run.json`."""

    settings: dict[str, Any]
    method_config: dict[str, Any]
    benchmark: dict[str, Any] = Field(default_factory=dict)
    data: dict[str, str] = Field(default_factory=dict)
    directory: str | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    reuse: str | None = None


class _Test(_Part):
    """One test set in a row of the accuracy matrix."""

    accuracy: Accuracy | None
    images: Count
    routed: list[Count] | None


class RowContent(_Part):
    """One row of the accuracy matrix."""

    after: Name
    tests: list[_Test]
    log_bytes: Count
    parameters: Count


class ZeroShotContent(_Part):
    """Plain CLIP on every test set."""

    accuracy: list[Accuracy | None]


class _Metrics(_Part):
    """The figures of a finished run."""

    per_task: dict[str, list[float | None]]
    transfer: float | None
    avg: float | None
    last: float | None


class _Asked(_Part):
    """What a run was asked for, as far as two runs are told apart by it."""

    settings: dict[str, Any]


class ResultsContent(_Part):
    """`results.json`, as far as tables and pages rely on it."""

    method: Name
    preset: Name
    benchmark: Name
    setting: Literal["task-incremental", "class-incremental", "cross-domain"]
    protocol: Name
    model: Name
    seed: Count
    tasks: Annotated[list[Name], Field(min_length=1)]
    accuracy: list[list[Accuracy | None]]
    zero_shot: list[Accuracy | None]
    metrics: _Metrics
    parameters: Count
    settings: _Asked
    method_config: dict[str, Any]
    decision: str | None
    versions: dict[str, str]
    seconds: dict[str, float]


def check_content(
    kind: type[BaseModel], content: Mapping[str, Any], path: Path, *, whole: bool = True
) -> None:
    """Refuse content of wrong types or values, naming the first; unless `whole`, keys may be missing."""
    try:
        kind.model_validate(dict(content))
    except ValidationError as error:
        wrong = [detail for detail in error.errors() if whole or detail["type"] != "missing"]
        if not wrong:
            return
        first = wrong[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DamagedFileError(
            f"{path} is damaged or was not written by dpw ({where}: {first['msg']}): restore it from a copy"
        ) from error
