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


class _Position(_Part):
    """How far a training has come."""

    task: Name
    epoch: Count
    batch: Count
    step: Count
    best_epoch: Count | None
    best_accuracy: Annotated[float, Field(allow_inf_nan=False)] | None
    validation: list[Annotated[float, Field(allow_inf_nan=False)]]


class _States(_Part):
    """The tensors of a training that is not finished."""

    now: _Entry
    best: _Entry | None = None


class ProgressContent(_Part):
    """`progress.json`: a training that is not finished."""

    identity: dict[str, Any]
    position: _Position
    log_bytes: Count
    log_sha256: str | None = None
    tensors: _States


class _Recipe(_Part):
    """Rate and length of a training, and the rates that were tried."""

    learning_rate: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    steps: Annotated[int, Field(ge=1)]
    batch_size: Annotated[int, Field(ge=1)]
    tried: list[Annotated[list[float], Field(min_length=2, max_length=2)]]


class PlanContent(_Part):
    """`plan.json`: how a training is to go."""

    identity: dict[str, Any]
    plan: _Recipe


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


class KeptContent(ModelContent):
    """A learned task in a store of tasks."""

    identity: dict[str, Any]
    tasks: Annotated[list[_Task], Field(min_length=1, max_length=1)]
    log: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Measured(_Test):
    """One test set after some tasks, and how long it took."""

    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class MeasuredContent(_Part):
    """How one test set went for plain CLIP and after every task."""

    identity: dict[str, Any]
    tests: list[_Measured]


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


class _ClusterRun(_Part):
    """One of the runs that a cluster works on."""

    folder: Name
    stage: Name
    parts: dict[str, Annotated[list[int], Field(min_length=2, max_length=2)]]
    why: str | None = None


class _ClusterJob(_Part):
    """A part of a run; who has begun it says where."""

    kind: Name
    part: str = ""
    run: str = ""
    node: str | None = None
    pid: int = 0
    step: int = 0
    steps: int | None = None


class ClusterContent(_Part):
    """How far a cluster is, as it last said."""

    at: Annotated[float, Field(allow_inf_nan=False)]
    slots: Count = 0
    left: Annotated[float, Field(allow_inf_nan=False)] | None = None
    runs: list[_ClusterRun]
    jobs: list[_ClusterJob]


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
