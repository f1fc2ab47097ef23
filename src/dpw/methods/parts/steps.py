"""How long CoLeCLIP's code trains a task; its baselines and DPeCLIP use the same."""

from typing import Any

from dpw.methods.config import TrainingConfig

# CoLeCLIP's table of epochs comes to about 500 steps of 128 images for every dataset of its protocol; steps
# mean the same under every protocol and for every number of shots.
STEPS = 500

# The embedded benchmark has a few hundred images a task, for which six passes are enough.
MINI_PASSES: dict[str, Any] = {
    "training.batch_size": 32,
    "training.iterations": None,
    "training.epochs": 6,
}


def adam_by_steps(rate: float) -> TrainingConfig:
    """Adam at a constant rate, 500 batches of 128, the last weights kept."""
    return TrainingConfig(
        optimizer="adam",
        learning_rate=rate,
        batch_size=128,
        epochs=None,
        iterations=STEPS,
        schedule="constant",
        drop_last=False,
        select="last",
    )


def steps_of(training: TrainingConfig, task: str, images: int) -> int:
    """How many steps the settings plan for a task of so many images."""
    if training.iterations is not None:
        return training.iterations
    epochs = training.task_epochs.get(task, training.epochs or 1)
    whole, rest = divmod(images, training.batch_size)
    by_epochs = epochs * max(whole + (1 if rest and not training.drop_last else 0), 1)
    return max(by_epochs, training.minimum_steps)
