"""Training settings that fit the embedded model and a few hundred images a task, by method.

The published settings belong to CLIP ViT-B/16 and thousands of images: a model a hundred times smaller needs
larger steps and far fewer of them. The same settings hold for all tasks and were chosen on validation images.
"""

from collections.abc import Mapping
from typing import Any

BATCH = 32
STEPS = 40
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
    "training.learning_rate": 0.03,
    "training.batch_size": BATCH,
    "training.epochs": 8,
}
# 0.825 belongs to features of 512 numbers; in 128, images of a learned task already lie below it.
_GATE: dict[str, Any] = {"gate": 0.8}
_PROMPTS: dict[str, Any] = {"training.batch_size": BATCH, "training.epochs": 10}

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "finetune": _FULL_FINETUNING,
    "wise-ft": _FULL_FINETUNING,
    "lwf": _DISTILLING,
    "lwf-vr": _DISTILLING | {"random_sentences": 200},
    "icarl": _DISTILLING | {"memory": 200},
    "zscl": _DISTILLING | {"average_every": STEPS // 10},
    "gift": _FULL_FINETUNING | {"synthetic_batch": REFERENCE},
    "c-clip": {
        "training.learning_rate": 3e-4,
        "text_rate_factor": 1.0,
        "training.batch_size": BATCH,
        "training.epochs": 5,
        "training.warmup": STEPS // 10,
        "rank": 8,
        "alpha": 16.0,
    },
    "moe-adapters": {
        "training.learning_rate": 3e-3,
        "training.batch_size": BATCH,
        "training.iterations": STEPS,
        "training.warmup": STEPS // 10,
        "experts": 16,
        "expert_rank": 16,
        "router_iterations": 150,
        "reference_iterations": 300,
    },
    "diki": _ADAM,
    "dpw": _ADAM | _GATE | {"adapter_rank": 16},
    "dpw-reduced": _ADAM | _GATE,
    "coleclip": _PROMPTS | {"training.learning_rate": 3e-3},
    "dpeclip": _PROMPTS | {"training.learning_rate": 3e-3},
    "s-prompts": _PROMPTS | {"training.learning_rate": 0.05},
    "l2p": _PROMPTS,
    "dualprompt": _PROMPTS,
    "coda-prompt": _PROMPTS,
}
