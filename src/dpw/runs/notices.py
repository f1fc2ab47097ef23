"""What somebody should know before a run begins: whether published figures compare with it."""

import json
import shlex
from typing import Any

import yaml

from dpw.runs.config import RunConfig, default_model
from dpw.runs.published import FIGURES, OTHER_RULE

# What decides numbers and is an option of `dpw run` with a value.
OPTIONS = (
    *("preset", "seed", "data_root", "protocol", "shots", "shot_lists"),
    *("mixed_precision", "gradient_accumulation"),
)


def comparable_notice(config: RunConfig, benchmark: str, protocol: str) -> str | None:
    """Say that a method's published row was made otherwise, with the command for a comparable run."""
    known = (benchmark, OTHER_RULE.get(benchmark))
    rows = [row for row in FIGURES if row.method == config.method and row.benchmark in known]
    if not rows or any((row.benchmark, row.protocol) == (benchmark, protocol) for row in rows):
        return None
    row = rows[0]
    again = command(config, benchmark=row.benchmark, protocol=row.protocol)
    return (
        f"the published figures of {config.method} are of {row.benchmark} under protocol {row.protocol}, "
        f"this run is {benchmark} under protocol {protocol}; for a comparable one: {again}"
    )


def command(config: RunConfig, **changes: Any) -> str:
    """The command line of a run with these settings, only what differs from the defaults being named."""
    chosen = config.model_copy(update=changes)
    words = ["dpw", "run", chosen.benchmark, "--method", chosen.method]
    if chosen.model != default_model(chosen.benchmark):
        words += ["--model", chosen.model]
    for name in OPTIONS:
        value, usual = getattr(chosen, name), RunConfig.model_fields[name].default
        if value != usual:
            words += [f"--{name.replace('_', '-')}", str(value)]
    if chosen.order is not None:
        words += ["--order", ",".join(chosen.order)]
    if chosen.rebuild_splits:
        words.append("--rebuild-splits")
    for key, value in chosen.settings.items():
        words += ["--set", f"{key}={_written(value)}"]
    return shlex.join(words)


def _written(value: Any) -> str:
    """A value as `--set` reads it back: a word as it is, everything else as JSON."""
    plain = isinstance(value, str) and yaml.safe_load(value) == value
    return str(value) if plain else json.dumps(value)
