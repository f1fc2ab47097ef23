"""Answers, tasks and progress as small pieces of HTML, in which nothing that a user typed is obeyed."""

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image

from dpw.analysis.explain import TaskLikelihood
from dpw.data.image_like import as_picture
from dpw.engine.prediction import UNKNOWN, Prediction
from dpw.errors import InputError
from dpw.serving.desk import Answer, Progress

SIDE = 112  # pixels of a small picture


def sentence(text: str, bad: bool = False) -> str:
    """One sentence for people."""
    return f'<p class="dpw-{"bad" if bad else "note"}" role="status">{escape(text)}</p>'


def answers_html(images: Sequence[str], answers: Sequence[Answer]) -> str:
    """A card for each image: what it is, how sure, which task, and what plain CLIP says."""
    cards = [_card(image, answer) for image, answer in zip(images, answers, strict=True)]
    return f'<div class="dpw-cards">{"".join(cards)}</div>'


def _card(image: str, answer: Answer) -> str:
    """One image with its answers."""
    own = answer.model
    name = escape(Path(image).name)
    if own.error is not None:
        why = own.error.replace(image, Path(image).name)
        return f'<div class="dpw-card"><div><b>{name}</b><p class="dpw-bad">{escape(why)}</p></div></div>'
    task = "" if own.task is None else f"<p>task <b>{escape(own.task)}</b>{_share(own.confidence)}</p>"
    strange = "" if own.typicality is None else f"<p>typicality {own.typicality:.3f}</p>"
    others = "".join(
        f"<li>{escape(label)} {100 * share:.1f}&nbsp;%</li>" for label, share in own.alternatives[:3]
    )
    return (
        f'<div class="dpw-card"><img alt="" src="{_small(image)}"><div><span class="dpw-name">{name}</span>'
        f"{_verdict(own)}{task}{strange}<ul>{others}</ul>"
        f'<p class="dpw-plain">zero-shot: {_words(answer.zero_shot)}</p></div></div>'
    )


def _verdict(answer: Prediction) -> str:
    """The class, large, with a bar for its probability."""
    share = answer.probability or 0.0
    bar = "" if answer.label == UNKNOWN else f'<meter min="0" max="1" value="{share:.4f}"></meter>'
    return f'<p class="dpw-class">{_words(answer)}</p>{bar}'


def _words(answer: Prediction) -> str:
    """Class and probability."""
    if answer.probability is None:
        return escape(answer.label or "")
    return f"{escape(answer.label or '')} {100 * answer.probability:.1f}&nbsp;%"


def _share(confidence: float | None) -> str:
    """How sure, where somebody says so."""
    return "" if confidence is None else f" ({confidence:.2f})"


def _small(path: str) -> str:
    """A file as a small picture inside the page; nothing where it cannot be drawn."""
    target = io.BytesIO()
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            picture: Image.Image = as_picture(file, path)
    except (InputError, OSError):
        return "data:,"
    picture.thumbnail((2 * SIDE, 2 * SIDE))
    picture.save(target, "PNG")
    return "data:image/png;base64," + base64.b64encode(target.getvalue()).decode()


def likelihoods_html(found: Sequence[TaskLikelihood]) -> str:
    """How likely an image is under every task."""
    if not found:
        return sentence("this model does not decide between tasks")
    rows = "".join(
        f"<tr><td>{escape(one.task)}</td><td><meter min='0' max='1' value='{one.confidence:.4f}'></meter> "
        f"{one.confidence:.3f}</td><td>{_likelihood(one)}</td></tr>"
        for one in found
    )
    return _table(("task", "confidence", "log-likelihood"), rows)


def _table(head: Sequence[str], rows: str) -> str:
    """A table that scrolls by itself where it is wider than the page."""
    titles = "".join(f"<th>{escape(one)}</th>" for one in head)
    return f'<div class="dpw-table"><table><tr>{titles}</tr>{rows}</table></div>'


def _likelihood(one: TaskLikelihood) -> str:
    """The logarithm, where the method has one."""
    return "" if one.log_likelihood is None else f"{one.log_likelihood:.1f}"


def tasks_html(tasks: Sequence[Mapping[str, Any]]) -> str:
    """What the model knows."""
    if not tasks:
        return sentence("nothing is learned yet: teach it a task, or ask among classes that you type")
    rows = "".join(
        f"<tr><td><b>{escape(task['name'])}</b></td><td>{len(task['classes'])}</td>"
        f"<td>{escape(', '.join(task['classes'][:12]))}{' …' if len(task['classes']) > 12 else ''}</td></tr>"
        for task in tasks
    )
    return _table(("task", "classes", "their names"), rows)


def gathered_html(images: Mapping[str, Sequence[str]]) -> str:
    """The classes that were added so far."""
    if not images:
        return sentence("no class yet: name one, drop its images, press Add class")
    items = "".join(f"<li><b>{escape(name)}</b>: {len(files)} images</li>" for name, files in images.items())
    return f"<ul>{items}</ul>"


def progress_html(progress: Progress) -> str:
    """A bar with what happens now."""
    bar = f'<progress max="1" value="{min(progress.share, 1):.4f}"></progress>'
    return f"{bar}{sentence(progress.sentence)}"
