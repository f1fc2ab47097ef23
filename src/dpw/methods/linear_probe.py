"""Linear probe: logistic regression on frozen features, one for each task."""

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor, nn

from dpw.clip.backbone import Backbone
from dpw.data.images import Images
from dpw.data.task import Task
from dpw.methods.base import Method, TaskImages
from dpw.methods.config import MethodConfig
from dpw.methods.parts.heads import HEAD, ROUTER, HeadAnswers, stored_parts, task_gaussian
from dpw.methods.parts.logistic import fit_logistic
from dpw.methods.registry import register


class LinearProbeConfig(MethodConfig):
    """Which inverse penalties are tried on the validation images, and the one without any."""

    strengths: tuple[float, ...] = Field((1.0, 10.0, 100.0, 1000.0), min_length=1)
    """Inverse penalties that are tried on validation images."""
    strength: float = Field(10.0, gt=0)
    """Inverse penalty where there are no validation images."""
    rounds: int = Field(200, ge=1)
    """Rounds of the solver, at most."""


class Probe(nn.Module):
    """Weights and bias of one task, frozen as soon as they are found."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """`weight` is `(C, E)`."""
        super().__init__()
        self.weight = nn.Parameter(weight.float(), requires_grad=False)
        self.bias = nn.Parameter(bias.float(), requires_grad=False)


def fit_probe(features: Tensor, labels: Tensor, classes: int, strength: float, rounds: int) -> Probe:
    """The probe of a task, see `fit_logistic`."""
    return Probe(*fit_logistic(features, labels, classes, strength, rounds))


@register(mini={"rounds": 100})
class LinearProbe(Method):
    """What every practitioner compares with: a logistic regression on frozen features for every task.

    L-BFGS in double precision on unit features; the penalty is the one of `strengths` that gets most
    validation images right (of equals the stronger penalty), `strength` where a task has none. Text plays no
    part within a task.

    In continual form every task has its own probe. Only tasks that know a candidate by name speak, between
    several a Gaussian over frozen features decides, and what no task knows is plain CLIP's, exactly as for
    [DPW with a ridge head](dpw-ridge.md): the difference between the two is the head.
    """

    name = "linear-probe"
    summary = "logistic regression on frozen features, one for each task"
    status = "standard practice; the continual form is ours"
    config_class = LinearProbeConfig
    config: LinearProbeConfig
    routes = True
    isolated = True
    resident = (f"{ROUTER}.",)
    trains = False

    def __init__(self, backbone: Backbone, config: LinearProbeConfig) -> None:
        """Heads answer."""
        super().__init__(backbone, config)
        self.answers = HeadAnswers(self, self.head_logits)

    def new_module(self, task: Task, images: TaskImages) -> nn.ModuleDict:
        """The probe, found at once."""
        features, labels = (part.cpu() for part in self.collect_features(images))
        held_out = None
        if self.validation is not None:
            held_out = tuple(part.cpu() for part in self.collect_features(self.validation))
        strengths = sorted(self.config.strengths) if held_out is not None else [self.config.strength]
        probes = [
            fit_probe(features, labels, len(task.classes), one, self.config.rounds) for one in strengths
        ]
        gaussian = task_gaussian(features, self.backbone)
        if held_out is None:
            return nn.ModuleDict({ROUTER: gaussian, HEAD: probes[0]})
        right = [int((probe_logits(one, held_out[0]).argmax(dim=1) == held_out[1]).sum()) for one in probes]
        best = probes[right.index(max(right))]
        return nn.ModuleDict({ROUTER: gaussian, HEAD: best})

    def stored_module(self, tensors: Mapping[str, Tensor]) -> nn.ModuleDict:
        """Room for a stored probe."""
        gaussian, own = stored_parts(tensors)
        return nn.ModuleDict({ROUTER: gaussian, HEAD: Probe(own["weight"], own["bias"])})

    def head_logits(self, index: int, images: Images) -> Tensor:
        """What a task's probe says about its own classes."""
        return probe_logits(self.bank.part(index, HEAD), self.frozen_features(images).cpu())


def probe_logits(probe: Probe, features: Tensor) -> Tensor:
    """Logits `(n, C)` in float64 on the host."""
    return features.double() @ probe.weight.cpu().double().T + probe.bias.cpu().double()
