"""What a person fixes of a training, checked before anything is loaded; nothing here imports torch."""

from dataclasses import asdict, dataclass
from typing import Any

from dpw.errors import InputError, a_number, a_whole_number


@dataclass(frozen=True)
class Wishes:
    """What a person fixes; what is None is found."""

    learning_rate: float | None = None
    steps: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    time_limit: float = 180.0

    def given(self) -> dict[str, Any]:
        """What was fixed, the time limit apart, which everybody has."""
        return {
            key: value for key, value in asdict(self).items() if key != "time_limit" and value is not None
        }


def refuse_impossible(wishes: Wishes, seed: int, checkpoint_seconds: float) -> None:
    """Refuse numbers that no training can have."""
    a_whole_number(seed, "seed", 0)
    a_number(checkpoint_seconds, "checkpoint_seconds", 0)
    for key, value in {**wishes.given(), "time_limit": wishes.time_limit}.items():
        if a_number(value, key) <= 0:
            raise InputError(f"{key} must be above 0, not {value}")
    for key in ("steps", "epochs", "batch_size"):
        a_whole_number(wishes.given().get(key, 1), key)
    if wishes.steps is not None and wishes.epochs is not None:
        raise InputError("give steps or epochs, not both: one follows from the other")
