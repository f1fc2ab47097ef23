"""Answers of an accelerator that nobody has to wait for: all learned tasks there at once, as one graph.

On a processor a batch is routed and then goes through the tower task by task. An accelerator would have to be
waited for at every route, and do a little for each task of a mixed batch; it answers by the method's graph
instead, in which every image takes the parameters of its own task, and nothing is read before the answer.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from dpw.errors import InputError
from dpw.methods.base import Method
from dpw.methods.candidates import Candidates
from dpw.methods.graphs.whole import graph_of

ROOM = 2**31  # bytes of learned tasks; more of them answer task by task, read when they are needed
GATHERED = 2**27  # numbers of text features that a part of a batch gathers at once, half a gigabyte


@dataclass(frozen=True)
class Resident:
    """A graph on a device, None where there can be none, and the modules it was made of.

    Those are known weakly: a task that waits in its file knows its method, which would never be freed.
    """

    graph: Any
    modules: Sequence[ReferenceType[nn.Module]]
    device: torch.device

    def holds(self, modules: Sequence[nn.Module], device: torch.device) -> bool:
        """Whether the graph is that of these very modules on this device."""
        found = [module() for module in self.modules]
        return self.device == device and len(found) == len(modules) and all(map(operator.is_, found, modules))


_known: WeakKeyDictionary[Method, Resident] = WeakKeyDictionary()


def ask_resident(method: Method, pixels: Tensor, candidates: Candidates) -> dict[str, Tensor] | None:
    """What the graph says about a batch among all learned classes, by name, on the device.

    None where the method must answer itself: on a processor, about other classes, with features that are
    remembered, while something is learned, where a device knows no double precision, or the tasks are too
    large to lie there all at once.
    """
    if pixels.is_cpu or method.feature_cache is not None or not knows_double(pixels.device):
        return None
    groups = tuple(task.group() for task in method.tasks)
    if not groups or not candidates.by_task or candidates.groups != groups:
        return None
    graph = _graph_of(method, pixels.device)
    if graph is None:
        return None
    together = max(1, GATHERED // (len(candidates.classes) * method.backbone.feature_width))
    parts = [graph(part) for part in torch.split(pixels, together)]
    return dict(zip(graph.names, (torch.cat(one) for one in zip(*parts, strict=True)), strict=True))


def _graph_of(method: Method, device: torch.device) -> Any:
    """The graph of what a method has learned, made anew when that has changed."""
    if method.trainable():
        return None
    modules = [method.bank.slot(index) for index in range(len(method.bank))]
    known = _known.get(method)
    if known is None or not known.holds(modules, device):
        known = _known[method] = Resident(_made(method, device), [*map(ref, modules)], device)
    return known.graph


def _made(method: Method, device: torch.device) -> nn.Module | None:
    """A new graph on a device, or None for methods and settings without one."""
    states = [method.bank.state(index) for index in range(len(method.bank))]
    if sum(tensor.nbytes for state in states for tensor in state.values()) > ROOM:
        return None
    try:
        return graph_of(method, by_task=False).to(device)
    except InputError:  # every image has an answer of its own only under some settings
        return None


@cache
def knows_double(device: torch.device) -> bool:
    """Whether a device computes in double precision, in which likelihoods are compared."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return False
    return True
