"""How long CoLeCLIP's code trains on each benchmark task; its baselines and DPeCLIP use the same."""

from dpw.methods.config import TrainingConfig

# About 500 steps of 128 images each.
TASK_EPOCHS = {
    "aircraft": 20,
    "caltech101": 10,
    "cifar100": 2,
    "dtd": 35,
    "eurosat": 3,
    "flowers": 63,
    "food": 1,
    "mnist": 2,
    "oxfordpet": 18,
    "stanfordcars": 8,
    "sun397": 1,
}


def adam_by_epochs(rate: float) -> TrainingConfig:
    """Adam at a constant rate, batches of 128, the last weights kept."""
    return TrainingConfig(
        optimizer="adam",
        learning_rate=rate,
        batch_size=128,
        epochs=20,
        task_epochs=TASK_EPOCHS,
        schedule="constant",
        drop_last=False,
        select="last",
    )
