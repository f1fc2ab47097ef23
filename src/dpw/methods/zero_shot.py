"""Zero-shot CLIP: the frozen backbone, the line every other method is measured from."""

from dpw.methods.base import register
from dpw.methods.parts.single_model import SingleModel


@register()
class ZeroShot(SingleModel):
    """Learns nothing; a task only adds its class names to what can be asked."""

    name = "zero-shot"
    summary = "plain CLIP, nothing is learned"
    isolated = True

    def forget(self, index: int) -> None:
        """Drop the task's name and classes; there is nothing else."""
        del self.tasks[index]
