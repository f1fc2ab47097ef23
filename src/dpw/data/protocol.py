"""How the literature measures: protocols `coop` (DIKI, DPW) and `zscl` (ZSCL and most others), and settings.

A protocol decides splits and class names (the dataset entries do that part), the prompts used at test time
and what happens to a training image. Results of different protocols cannot be compared, so every result
carries the name.
"""

from dataclasses import dataclass
from typing import Literal

from dpw.errors import InputError, a_text

# An image of a learned task is classified among that task's classes or among all learned classes; across
# domains (X-TAIL) every image, of a learned task or not, among all classes of all tasks at every step.
Setting = Literal["task-incremental", "class-incremental", "cross-domain"]


@dataclass(frozen=True)
class Protocol:
    """The choices of one protocol that do not depend on the dataset."""

    name: str
    ensemble: bool
    random_crop: bool
    description: str


COOP = Protocol("coop", False, False, "one template, CoOp splits, training images as at test time")
ZSCL = Protocol("zscl", True, True, "template ensembles, torchvision-style splits, random crops in training")
PROTOCOLS = {protocol.name: protocol for protocol in (COOP, ZSCL)}


def get_protocol(name: str) -> Protocol:
    """Find a protocol by its name."""
    if a_text(name, "protocol") not in PROTOCOLS:
        raise InputError(f"protocol {name!r:.80} is unknown; choose one of {', '.join(sorted(PROTOCOLS))}")
    return PROTOCOLS[name]
