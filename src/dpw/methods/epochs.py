"""How long CoLeCLIP's code trains on each benchmark task; its baselines and DPeCLIP use the same."""

from dpw.methods.config import TrainingConfig

# About 500 steps of 128 images each.
TASK_EPOCHS = {
    "Aircraft": 20,
    "Caltech101": 10,
    "CIFAR100": 2,
    "DTD": 35,
    "EuroSAT": 3,
    "Flowers": 63,
    "Food": 1,
    "MNIST": 2,
    "OxfordPet": 18,
    "StanfordCars": 8,
    "SUN397": 1,
}


def adam_by_epochs(rate: float) -> TrainingConfig:
    """Adam at a constant rate, batches of 128, the last weights kept."""
    return TrainingConfig(
        optimizer="adam",
        learning_rate=rate,
        batch_size=128,
        epochs=10,
        task_epochs=TASK_EPOCHS,
        schedule="constant",
        drop_last=False,
        select="last",
    )
