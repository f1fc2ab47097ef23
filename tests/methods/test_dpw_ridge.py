"""DPW with a closed-form head: what a task keeps, who speaks, and what validation images decide."""

import pytest
import torch

from dpw.errors import Interrupted
from dpw.methods import Candidates, ClassGroup
from dpw.methods.parts.ridge_head import NO_VALIDATION
from tests.helpers.checks import nonempty
from tests.helpers.toy_methods import (
    ToyImages,
    answers,
    copied,
    learn,
    reload,
    some_pixels,
    toy_method,
    toy_task,
)
from tests.helpers.toy_runs import StopAfter, make_toy, outcome, run


def learned(*names: str, validation: bool = False, **settings):
    method = toy_method("dpw-ridge", **settings)
    for name in names:
        task = toy_task(name)
        method.validation = ToyImages(task.val, method.backbone) if validation else None
        learn(method, task)
    method.validation = None
    return method


def test_inside_it_is_dpw():
    ours, plain = learned("dtd").task_state(0), learn(toy_method("dpw"), toy_task("dtd")).task_state(0)
    plain.pop("router.texts")  # of the grid, which heads do not ask for
    assert plain.keys() <= ours.keys()
    assert all(torch.equal(ours[name], plain[name]) for name in plain)


def test_a_task_keeps_its_head_in_its_own_file():
    method = learned("dtd", validation=True)
    state = method.task_state(0)
    width, patches = method.backbone.feature_width, method.backbone.image_shape.width
    assert state["head.landmarks"].shape == (24, width + 2 * patches)
    assert state["head.weights"].shape == (24, 3)
    assert state["head.adapted_texts"].shape == state["head.frozen_texts"].shape == (3, width)
    assert method.parameter_count() > learn(toy_method("dpw"), toy_task("dtd")).parameter_count()


def test_lists_without_a_learned_name_are_plain_clips_to_the_last_bit():
    method, pixels = learned("dtd"), some_pixels()
    question = Candidates.among(ClassGroup("unseen", ("oak", "fir")))
    assert torch.equal(answers(method, pixels, question), answers(toy_method("zero-shot"), pixels, question))


def test_validation_images_decide_the_shares_and_are_kept_after_a_reload():
    without, with_them = learned("dtd"), learned("dtd", validation=True)
    assert float(without.bank[0]["head"]["shares"][0]) == NO_VALIDATION[0]
    assert float(with_them.bank[0]["head"]["shares"][0]) != NO_VALIDATION[0]
    question, pixels = Candidates.among(with_them.tasks[0].group()), some_pixels()
    assert torch.equal(answers(reload(with_them), pixels, question), answers(with_them, pixels, question))


def test_views_can_be_left_out():
    method = learned("dtd", views=("frozen",))
    assert method.task_state(0)["head.landmarks"].shape == (24, method.backbone.feature_width)


def test_validation_images_join_regression_and_gaussian_only_on_request():
    for asked, images in ((False, 24), (True, 24 + 6)):
        method = learned("dtd", validation=True, use_validation=asked)
        assert len(method.bank[0]["head"]["landmarks"]) == images
        assert method.tasks[0].details["router"]["images"] == images


def test_forgetting_is_as_if_the_task_had_never_been():
    method = learned("aircraft", "dtd")
    second = copied(method.task_state(1))
    method.forget(0)
    assert all(torch.equal(method.task_state(0)[name], second[name]) for name in second)
    question = Candidates.across([ClassGroup("aircraft", ("jet", "kite")), method.tasks[0].group()])
    assert answers(method, some_pixels(), question).isfinite().all()


def test_an_interrupted_run_ends_in_the_same_bytes_and_validation_images_chose(tmp_path):
    toy = make_toy(tmp_path / "toy")
    run(toy, tmp_path / "straight", method="dpw-ridge")
    with pytest.raises(Interrupted):
        run(toy, tmp_path / "stopped", StopAfter(3).options(), method="dpw-ridge")
    run(toy, tmp_path / "stopped", method="dpw-ridge")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "straight")


def test_any_order_gives_the_same_bytes_for_every_task(tmp_path):
    toy = make_toy(tmp_path / "toy")
    files = []
    for order in (("birds", "metals"), ("metals", "birds")):
        folder = tmp_path / order[0]
        run(toy, folder, method="dpw-ridge", order=order)
        files.append({path.name: path.read_bytes() for path in nonempty(folder.glob("model/*.safetensors"))})
    assert files[0] == files[1]
