"""iCaRL on CLIP, as ZSCL compares it: LwF whose reference images are exemplars of earlier tasks."""

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor

from dpw.clip.backbone import Backbone
from dpw.errors import InputError
from dpw.methods.bank import HostTensors
from dpw.methods.finetune import FineTune
from dpw.methods.parts.distillation import CIL_DISTILLING, MINI_DISTILLING, Distillation, DistillingConfig
from dpw.methods.parts.exemplars import STORED, Exemplars
from dpw.methods.registry import register


class ICaRLConfig(DistillingConfig):
    """How many exemplars there are over all tasks, and how many images of a task herding looks at."""

    memory: int = Field(10_000, ge=1)
    """Images kept over all tasks."""
    herding_limit: int = Field(30_000, ge=1)
    """Images of a task that are looked at to choose those kept."""


@register(mini=MINI_DISTILLING | {"training.learning_rate": 1e-4, "memory": 200}, cil=CIL_DISTILLING)
class ICaRL(FineTune):
    """`lwf` whose reference images are a memory of earlier tasks.

    It holds 10 000 images in all (`memory`), shared evenly by the tasks, chosen by herding over the mean
    feature of each task and kept without labels as prepared pixels. At ViT-B/16 a full memory takes 1.5 GB.
    The first task has no memory, hence no distillation. Answers are normal CLIP classification. The settings
    behind the published row are not known (the public script is a smoke test), and its herding stores wrong
    images; this is the textbook version. `teacher=init` distils from plain CLIP, as the public code does for
    tasks with different domains.
    """

    name = "icarl"
    summary = "iCaRL: fine-tuning held to the previous model's answers on remembered images"
    status = "textbook version: the published script does not give the settings of the table"
    config_class = ICaRLConfig
    config: ICaRLConfig

    def __init__(self, backbone: Backbone, config: ICaRLConfig) -> None:
        """Distil on exemplars; there are none yet."""
        super().__init__(backbone, config)
        self.exemplars = Exemplars(self, config.memory, config.reference_batch, config.herding_limit)
        self.restraints = (Distillation(self, config, self.exemplars),)

    def stored_module(self, tensors: Mapping[str, Tensor]) -> HostTensors:
        """The exemplars of a task."""
        if tensors.keys() != {STORED}:
            raise InputError(
                f"each task of {self.name!r} needs the tensor {STORED!r} but has {sorted(tensors)}"
            )
        return HostTensors(tensors)
