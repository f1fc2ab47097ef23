"""The model card: what a model on the hub knows, where it comes from and how to use it."""

import json
from collections.abc import Mapping
from typing import Any

SHOWN = 12  # class names of a task that a card lists

USE = """## Use

```python
from dpw import ContinualCLIP

model = ContinualCLIP.from_pretrained("{name}", allow_download=True)
answer = model.predict("a.jpg")  # answer.label, .probability, .task, .confidence
```

`dpw pull {name} my-clip` makes a folder of it that can learn more.
"""


def model_card(
    name: str, content: Mapping[str, Any], licence: str | None, results: Mapping[str, Any] | None
) -> str:
    """The card in Markdown, with the fields that the hub reads in front.

    `content` is that of `model.json`; `results` those of the benchmark run it comes from, if any.
    """
    method, clip, tasks = content["method"]["name"], content["backbone"]["reference"], content["tasks"]
    fields: dict[str, Any] = {"library_name": "dpw", "pipeline_tag": "image-classification"}
    fields |= {"tags": ["continual-learning", "clip", method]} | ({"license": licence} if licence else {})
    if "/" in clip:
        fields["base_model"] = clip
    # JSON is YAML, and quotes whatever a name may hold.
    head = [f"{key}: {json.dumps(value)}" for key, value in fields.items()]
    count = "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
    said = f"CLIP (`{clip}`) that has learned {count} with the library dpw, method `{method}`."
    rows = [_row(task) for task in tasks]
    return "\n".join(
        [
            "---",
            *head,
            "---",
            f"# {_plain(name.split('/')[-1])}",
            "",
            said,
            "It predicts without being told which task an image belongs to.",
            "",
            "| task | classes | protocol | |",
            "|---|---|---|---|",
            *rows,
            "",
            USE.format(name=name),
            "## Figures",
            "",
            *_figures(results),
            "",
            "## Provenance",
            "",
            f"Made by dpw {content['dpw']}. Fingerprint of the CLIP: `{content['backbone']['fingerprint']}`.",
            "Every tensor file carries its SHA-256, which is checked when the model is loaded.",
            "",
            f"Licence: {licence or 'not stated by who shared it'}.",
            "",
        ]
    )


def _row(task: Mapping[str, Any]) -> str:
    """A task in the table."""
    names = ", ".join(map(_plain, task["classes"][:SHOWN]))
    more = f" and {len(task['classes']) - SHOWN} more" if len(task["classes"]) > SHOWN else ""
    return f"| {_plain(task['name'])} | {len(task['classes'])} | {_plain(task['protocol'])} | {names}{more} |"


def _figures(results: Mapping[str, Any] | None) -> list[str]:
    """What was measured, with the benchmark and the protocol it belongs to."""
    if results is None:
        return ["None were measured for this card."]
    metrics = {name: results["metrics"].get(name) for name in ("transfer", "avg", "last")}
    known = [f"{name} {value:.1f} %" for name, value in metrics.items() if value is not None]
    where = f"`{results['benchmark']}`, {results['setting']}, protocol `{results['protocol']}`"
    return [f"On {where}, seed {results['seed']}: {', '.join(known)}."]


def _plain(text: str) -> str:
    """A name that means nothing to Markdown tables or HTML."""
    return text.replace("|", "/").replace("<", "&lt;").replace("\n", " ").replace("`", "'")
