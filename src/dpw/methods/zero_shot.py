"""Zero-shot CLIP: the frozen backbone, the line every other method is measured from."""

from torch import Tensor

from dpw.clip.backbone import Backbone
from dpw.methods.base import Method
from dpw.methods.config import MethodConfig
from dpw.methods.parts.plain import PlainAnswers
from dpw.methods.registry import register


@register()
class ZeroShot(Method):
    """Learns nothing; a task only adds its class names to what can be asked.

    Plain CLIP. Nothing is learned; a task only adds its class names. Texts come from the first template
    (protocol `coop`) or from the average over all templates (protocol `zscl`). It is the line every other
    method is measured from, and what the other methods with a text tower give before their first task.
    """

    name = "zero-shot"
    summary = "plain CLIP, nothing is learned"
    isolated = True
    trains = False

    def __init__(self, backbone: Backbone, config: MethodConfig) -> None:
        """Answer as plain CLIP."""
        super().__init__(backbone, config)
        self.answers = PlainAnswers(self)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Plain CLIP's own rule, however many tasks have named their classes."""
        return self.backbone.zero_shot_probabilities(logits)
