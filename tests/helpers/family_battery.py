"""Whether a method works on a family of CLIP: it learns, answers, is stored, and goes on where it stopped."""

import torch

from dpw.errors import InputError
from dpw.methods import METHODS, Candidates, ClassGroup, Method
from tests.helpers.checks import assert_alike
from tests.helpers.families import family_backbone
from tests.helpers.toy_methods import (
    Trainer,
    answers,
    learn,
    questions,
    reload,
    some_pixels,
    toy_method,
    toy_task,
)

UNSEEN = Candidates.among(ClassGroup("unseen", ("oak", "fir", "elm")))
WORKS = "yes"


def outcome(family: str, name: str) -> str:
    """`yes`, or the sentence with which the method refuses the family."""
    try:
        method = toy_method(name, backbone=family_backbone(family))
    except InputError as error:
        return str(error)
    check(method)
    return WORKS


def check(method: Method) -> None:
    """Learn two tasks and stop within the second; nothing may depend on the stop, a reload or a batch."""
    before, pixels = method.backbone.fingerprint(), some_pixels()
    learn(method, toy_task("aircraft"), steps=1)
    reloaded, again = (reload(method, method.backbone) for _ in range(2))
    straight = Trainer(method, toy_task("dtd")).run(2).end()
    stored = Trainer(again, toy_task("dtd")).run(1).store()
    resumed = Trainer(reloaded, toy_task("dtd")).resume(stored).run(1).end()
    asked = [*questions(straight), *([UNSEEN] if METHODS[method.name].zero_shot else [])]
    for question in asked:
        logits = answers(straight, pixels, question)
        assert logits.shape == (len(pixels), len(question.classes))
        assert logits.isfinite().any(dim=1).all()
        assert not logits.isnan().any()
        assert torch.equal(answers(resumed, pixels, question), logits)
        alone = torch.cat([answers(straight, image[None], question) for image in pixels[:2]])
        assert_alike(straight, alone, logits[:2])
    method.backbone._fingerprint = None
    assert method.backbone.fingerprint() == before
