"""What a training tells while it runs."""


class TrainingCallback:
    """Override what you want to hear of; a callback changes no number.

    Example:
        >>> from dpw import TrainingCallback
        >>> class Losses(TrainingCallback):
        ...     def __init__(self):
        ...         self.seen = []
        ...     def on_step(self, task, epoch, epochs, step, loss):
        ...         self.seen.append(loss)
    """

    def on_begin(self, task: str, steps: int, done: int) -> None:
        """Training of a task starts, or goes on after `done` of its `steps`."""

    def on_step(self, task: str, epoch: int, epochs: int, step: int, loss: float) -> None:
        """One step is done; steps count from 1, epochs from 0.

        On an accelerator the loss is read only for the lines of the log, and in between stays the last one.
        """

    def on_validation(self, task: str, epoch: int, accuracy: float) -> None:
        """An epoch was measured on the validation images, as a share in [0, 1]."""

    def on_end(self, task: str) -> None:
        """The task is learned."""


def never() -> bool:
    """Nobody asks to stop."""
    return False
