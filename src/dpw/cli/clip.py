"""`dpw clip`: what a checkpoint is, and whether its towers equal transformers' own."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from dpw.cli.learn import Json
from dpw.cli.output import say, say_text

if TYPE_CHECKING:
    from dpw.clip import TowerShape
    from dpw.clip.overview import Overview, SelfCheck


def clip(
    name_or_folder: Annotated[str, typer.Argument(help="mini, a folder with a checkpoint, or a hub name.")],
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not compare its features with transformers' own.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a CLIP checkpoint is, and check its features against transformers' own."""
    from dpw.clip import Backbone
    from dpw.clip.overview import overview, self_check
    from dpw.methods import METHODS

    backbone = Backbone.from_pretrained(name_or_folder)
    found, checked = overview(backbone), None if no_check else self_check(backbone)
    if as_json:
        result = None if checked is None else {**checked.__dict__, "passed": checked.passed}
        say_text(json.dumps({**found.as_json(), "self_check": result}, indent=2))
    else:
        say_text("\n".join(_lines(found, len(METHODS))))
        if checked is not None:
            say(f"{'self-check':<12}{_outcome(checked)}")
    if checked is not None and not checked.passed:
        raise typer.Exit(1)


def _lines(found: "Overview", methods: int) -> list[str]:
    """The overview, a line for each part."""
    image, text, count = found.image, found.text, found.parameters
    tokens = f"{found.patches} patches" + (" and [CLS]" if found.has_cls else ", pooled by attention")
    reading = "causal" if found.causal else "bidirectional"
    special = ", ".join(f"{role} {token}" for role, token in found.special.items())
    rule = f"softmax of {found.scale:.4g} · cosine"
    if found.sigmoid:
        rule = f"sigmoid of {found.scale:.4g} · cosine {found.bias:+.4g} for each class"
    stands = "[CLS]" if found.has_cls else "the mean patch, there being no [CLS]"
    packed = "packed into one sequence" if found.causal else "side by side, because each is read both ways"
    parts = {
        "family": f"{found.title} ({found.model}), {found.reference}",
        "images": f"{found.side}x{found.side} pixels, {tokens}; {_size(image)}",
        "texts": f"at most {text.tokens} tokens, {reading}; {_size(text)}",
        "tokens": f"{found.vocabulary}; {special}",
        "features": f"{found.features} numbers",
        "parameters": f"{_millions(count['all'])} (images {_millions(count['image'])}, "
        f"texts {_millions(count['text'])})",
        "memory": f"{found.megabytes:.1f} MB in float32",
        "zero-shot": rule,
        "learns": f"all {methods} methods; dpw's cut-off asks {stands}; class lists run {packed}",
    }
    return [f"{name:<12}{value}" for name, value in parts.items()]


def _size(tower: "TowerShape") -> str:
    """The size of a tower."""
    return f"{tower.blocks} blocks of width {tower.width} with {tower.heads} heads"


def _millions(count: int) -> str:
    """A count of parameters."""
    return f"{count / 1e6:.1f} million" if count >= 1e5 else str(count)


def _outcome(checked: "SelfCheck") -> str:
    """How the self-check went."""
    verdict = "passed" if checked.passed else "FAILED: do not use it, and tell us which model it is"
    return (
        f"images differ from transformers' own by {checked.image:.1e} of their length, texts by "
        f"{checked.text:.1e}: {verdict} ({checked.seconds:.1f} s)"
    )
