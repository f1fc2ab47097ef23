"""The rows of the paper's analysis tables as presets of `dpw`: `dpw run mini --preset ablation/no-rwm`.

A row that is the method itself has a preset too, so that each table can be made from its names alone. By the
parameter counts that the paper prints, rows scored by attention have no adapter; the row of softmax repeats
the numbers of RePA alone, so it has none either.
"""

from typing import Any

Preset = dict[str, Any]

_NO_ADAPTER: Preset = {"adapter_weight": "none"}
_PREFIX_TUNING: Preset = {"scores": "attention", "activation": "softmax", **_NO_ADAPTER}
_REPA_ONLY: Preset = {"activation": "softmax", **_NO_ADAPTER}

# Which of the three modules are there (Tab. ablation).
MODULES: dict[str, Preset] = {
    "none": _PREFIX_TUNING,
    "repa": _REPA_ONLY,
    "condact": {"scores": "attention", **_NO_ADAPTER},
    "no-rwm": _NO_ADAPTER,
    "all": {},
}
# What the scores are made of (Tab. RePA_analysis).
SCORES: dict[str, Preset] = {
    "scores-attention": _PREFIX_TUNING,
    "scores-trained-attention": _PREFIX_TUNING | {"scores": "trained-attention"},
    "scores-query": {"scores": "query"},
    "scores-input": {},
}
# How scores become weights (Tab. CondAct_analysis).
ACTIVATIONS: dict[str, Preset] = {
    "softmax": _REPA_ONLY,
    "sigmoid": {"activation": "sigmoid"},
    "conditional-norm": {"activation": "norm"},
    "filtering": {},
}
# Fixed cut-offs against the dynamic one (Fig. cutoff_analysis; it does not print its values).
CUTOFFS: dict[str, Preset] = {
    **{f"cutoff-{value}": {"fixed_cutoff": value} for value in (0.1, 0.3, 0.5, 0.7, 0.9)},
    "cutoff-dynamic": {},
}
# Prefix length (Fig. num_param, and one row of Tab. RWM_analysis).
PREFIXES: dict[str, Preset] = {
    "prefix-x0.5": {"prefix_length": 4},
    "prefix-x1": {"prefix_length": 8},
    "prefix-x2": {"prefix_length": 16},
    "prefix-x4": {"prefix_length": 32},
}
# What the adapter is weighted by (Tab. RWM_analysis, Tab. weighting_analysis, Fig. orthogonality).
ADAPTER_WEIGHTS: dict[str, Preset] = {
    "no-rwm-prefix-x2": {**_NO_ADAPTER, "prefix_length": 16},
    "weight-router": {"adapter_weight": "router"},
    "weight-uniform": {"adapter_weight": "uniform"},
    "weight-sum": {"adapter_weight": "sum"},
    "weight-filtered-sum": {"adapter_weight": "filtered-sum"},
    "weight-residual": {},
}
# What the adapter's way down is (Tab. adapter_ablation).
ADAPTERS: dict[str, Preset] = {
    "adapter-lora": {"adapter_down": "own"},
    "adapter-trained": {"adapter_down": "trained"},
    "adapter-random": {"adapter_down": "random"},
    "adapter-svd": {"adapter_down": "svd"},
}
# Heads of the prefix branch (Tab. head_ablation).
HEADS: dict[str, Preset] = {
    **{f"heads-x{factor:g}": {"heads": "fixed", "head_multiple": factor} for factor in (0.5, 1.0, 2.0)},
    "heads-adaptive": {"heads": "adaptive"},
}

TABLES: dict[str, dict[str, Preset]] = {
    "modules": MODULES,
    "scores": SCORES,
    "activations": ACTIVATIONS,
    "cut-offs": CUTOFFS,
    "prefix length": PREFIXES,
    "adapter weights": ADAPTER_WEIGHTS,
    "adapters": ADAPTERS,
    "heads": HEADS,
}


def presets(*tables: str) -> dict[str, Preset]:
    """All presets of some tables by their full names; of every table if none is named."""
    chosen = tables or tuple(TABLES)
    return {f"ablation/{name}": preset for table in chosen for name, preset in TABLES[table].items()}
