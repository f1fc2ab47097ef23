"""Training settings that fit the embedded model and a few hundred images a task, by method.

The published settings belong to CLIP ViT-B/16 and thousands of images: a model a hundred times smaller needs
larger steps and far fewer of them. The same settings hold for all tasks. They were chosen on validation
images (`tools/tune_mini.py`): two to five learning rates a method, and for a few one more setting.
"""

from collections.abc import Mapping
from typing import Any

BATCH = 32
STEPS = 32
EPOCHS = 6
REFERENCE = 16  # pictures from outside in every step

_FULL_FINETUNING: dict[str, Any] = {
    "training.learning_rate": 2e-4,
    "training.batch_size": BATCH,
    "training.iterations": STEPS,
    "training.warmup": STEPS // 10,
}
_DISTILLING = _FULL_FINETUNING | {"reference_batch": REFERENCE}
# At the published rates of plain SGD the prefixes hardly move: this model's logits are a quarter of CLIP's.
_ADAM: dict[str, Any] = {
    "training.optimizer": "adam",
    "training.learning_rate": 0.1,
    "training.batch_size": BATCH,
    "training.epochs": EPOCHS,
}
# 0.825 belongs to features of 512 numbers; in 128, images of a learned task already lie below it.
_GATE: dict[str, Any] = {"gate": 0.8}
_PROMPTS: dict[str, Any] = {"training.batch_size": BATCH, "training.epochs": EPOCHS}

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "finetune": _FULL_FINETUNING,
    "wise-ft": _FULL_FINETUNING,
    "lwf": _DISTILLING,
    "lwf-vr": _DISTILLING | {"training.learning_rate": 4e-4, "random_sentences": 200},
    "icarl": _DISTILLING | {"training.learning_rate": 1e-4, "memory": 200},
    "zscl": _DISTILLING | {"average_every": STEPS // 10},
    "gift": _FULL_FINETUNING | {"training.learning_rate": 4e-4, "synthetic_batch": REFERENCE},
    "c-clip": {
        "training.learning_rate": 1e-2,
        "text_rate_factor": 1.0,
        "training.batch_size": BATCH,
        "training.epochs": 3,
        "training.warmup": STEPS // 10,
        "rank": 8,
        "alpha": 16.0,
    },
    "moe-adapters": {
        "training.learning_rate": 3e-2,
        "training.batch_size": BATCH,
        "training.iterations": 48,
        "training.warmup": 4,
        "experts": 16,
        "expert_rank": 16,
        "router_iterations": 150,
        "reference_iterations": 300,
    },
    "diki": _ADAM | {"training.learning_rate": 0.3},
    "dpw": _ADAM | _GATE | {"adapter_rank": 16},
    "dpw-reduced": _ADAM | _GATE,
    "coleclip": _PROMPTS | {"training.learning_rate": 0.01},
    "dpeclip": _PROMPTS | {"training.learning_rate": 3e-3},
    # Sixteen random words before a class name are half of what this text tower reads.
    "s-prompts": _PROMPTS | {"training.learning_rate": 0.01, "context_length": 4},
    "l2p": _PROMPTS,
    "dualprompt": _PROMPTS | {"training.learning_rate": 3e-3},
    "coda-prompt": _PROMPTS,
}
