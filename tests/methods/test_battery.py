"""What every registered method must do, whoever wrote it; a new method is picked up without a change here."""

import math

import pytest
import torch

from dpw.benchmarks import list_benchmarks
from dpw.data.images import Images
from dpw.errors import InputError
from dpw.methods import METHODS, PRESETS, Candidates, ClassGroup, Method, configure
from tests.helpers.checks import assert_alike, nonempty
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import (
    Trainer,
    answers,
    copied,
    learn,
    questions,
    reload,
    some_pixels,
    toy_method,
    toy_task,
)

EVERY = sorted(METHODS)
UNSEEN = Candidates.among(ClassGroup("unseen", ("oak", "fir", "elm")))

# Methods that keep a task's parameters apart can forget it; in the others all tasks share their weights.
ISOLATED = [name for name in EVERY if METHODS[name].isolated]
MIXED = [name for name in EVERY if not METHODS[name].isolated]
# Methods without a text tower know only the classes they learned.
ZERO_SHOT = [name for name in EVERY if METHODS[name].zero_shot]

every_method = pytest.mark.parametrize("name", EVERY)
isolated_methods = pytest.mark.parametrize("name", ISOLATED)
mixed_methods = pytest.mark.parametrize("name", MIXED)
zero_shot_methods = pytest.mark.parametrize("name", ZERO_SHOT)


def learns(name: str) -> bool:
    """Whether a method has anything to train."""
    return METHODS[name].trains


def answers_about_the_unseen(name: str) -> bool:
    """Methods without a text tower know only the classes they learned."""
    return METHODS[name].zero_shot


class LearnedMethods(dict):
    """Methods that have learned two toy tasks, each made when it is first asked for."""

    def __missing__(self, name: str) -> Method:
        self[name] = toy_method(name)
        for task in ("aircraft", "dtd"):
            learn(self[name], toy_task(task))
        return self[name]


@pytest.fixture(scope="module")
def learned() -> LearnedMethods:
    """Learned methods, shared by all tests, which must not change them."""
    return LearnedMethods()


@every_method
def test_says_in_one_line_what_it_is(name):
    kind = METHODS[name]
    assert kind.summary
    assert "\n" not in kind.summary
    assert kind.status
    for preset in nonempty(PRESETS[name]):
        assert isinstance(configure(name, preset), kind.config_class)


@every_method
def test_settings_for_single_tasks_name_tasks_that_exist(name):
    known = {task.name for benchmark in list_benchmarks() for task in benchmark.tasks}
    for preset in nonempty(PRESETS[name]):
        training = configure(name, preset).training
        assert {*training.task_learning_rates, *training.task_epochs} <= known


@every_method
def test_a_question_before_training_does_not_disturb_it(name):
    method, task, pixels = toy_method(name), toy_task("aircraft"), some_pixels()
    if answers_about_the_unseen(name):
        question = Candidates.among(ClassGroup(task.name, task.classes, task.templates[:1]))
        with torch.inference_mode():
            method.logits(Images.of(pixels), question)
    learn(method, task)
    never_asked = learn(toy_method(name), task)
    for question in nonempty(questions(method)):
        assert torch.equal(answers(method, pixels, question), answers(never_asked, pixels, question))


@every_method
def test_an_abandoned_task_leaves_no_trace(name):
    method, pixels = learn(toy_method(name), toy_task("aircraft")), some_pixels()
    before, question = method.remember(), questions(method)
    expected = [answers(method, pixels, one) for one in question]
    Trainer(method, toy_task("dtd")).run(2)
    method.abandon(before)
    method.eval()
    for one, logits in zip(question, expected, strict=True):
        assert torch.equal(answers(method, pixels, one), logits)
    assert not method.trainable()


@every_method
def test_after_an_abandoned_first_task_it_learns_as_if_there_had_been_none(name):
    method, pixels = toy_method(name), some_pixels()
    before = method.remember()
    Trainer(method, toy_task("dtd")).run(1)
    method.abandon(before)
    method.eval()
    if answers_about_the_unseen(name):
        assert torch.equal(answers(method, pixels, UNSEEN), answers(toy_method("zero-shot"), pixels, UNSEEN))
    straight = learn(toy_method(name), toy_task("aircraft"))
    learn(method, toy_task("aircraft"))
    for question in questions(straight):
        assert torch.equal(answers(method, pixels, question), answers(straight, pixels, question))


@every_method
def test_explains_a_refused_setting(name):
    with pytest.raises(InputError, match="unknown setting 'sed'"):
        configure(name, settings={"sed": 1})


@every_method
def test_learning_moves_its_parameters_with_a_finite_loss(name):
    method = toy_method(name)
    trainer = Trainer(method, toy_task("aircraft"))
    before = {key: tensor.detach().clone() for key, tensor in trainer.parameters.items()}
    trainer.run(2)
    assert all(math.isfinite(loss) for loss in nonempty(trainer.losses))
    moved = [key for key, tensor in trainer.parameters.items() if not torch.equal(tensor, before[key])]
    assert bool(moved) == learns(name)
    assert all(tensor.isfinite().all() for tensor in trainer.parameters.values())
    trainer.end()
    assert not method.trainable()


@every_method
def test_predicts_task_incrementally_and_class_incrementally(name, learned):
    method, pixels = learned[name], some_pixels()
    for question in questions(method):
        logits = answers(method, pixels, question)
        assert logits.shape == (len(pixels), len(question.classes))
        assert not logits.isnan().any()
        assert logits.dtype == torch.float32
        assert logits.isfinite().any(dim=1).all()
    if answers_about_the_unseen(name):
        assert answers(method, pixels, UNSEEN).shape == (len(pixels), 3)


@zero_shot_methods
def test_answers_across_domains_of_which_some_are_learned(name, learned):
    method, pixels = learned[name], some_pixels()
    groups = [*(task.group() for task in method.tasks), *UNSEEN.groups]
    logits = answers(method, pixels, Candidates.across(groups))
    assert logits.shape == (len(pixels), 2 + 3 + 3)
    assert logits.isfinite().all()


@zero_shot_methods
def test_without_a_task_it_is_plain_clip(name):
    method, pixels = toy_method(name), some_pixels()
    expected = answers(toy_method("zero-shot"), pixels, UNSEEN)
    assert torch.equal(answers(method, pixels, UNSEEN), expected)


@every_method
def test_an_answer_does_not_depend_on_the_rest_of_the_batch(name, learned):
    method, pixels = learned[name], some_pixels()
    for question in questions(method):
        together = answers(method, pixels, question)
        alone = torch.cat([answers(method, image[None], question) for image in pixels])
        assert_alike(method, alone, together)


@every_method
def test_its_state_gives_the_same_logits_in_a_fresh_instance(name, learned):
    method, pixels = learned[name], some_pixels()
    fresh = reload(method)
    assert fresh.task_names == method.task_names
    assert fresh.parameter_count() == method.parameter_count()
    assert not fresh.trainable()
    for question in questions(method):
        assert torch.equal(answers(fresh, pixels, question), answers(method, pixels, question))


@every_method
def test_goes_on_learning_after_a_reload_as_if_nothing_had_happened(name, learned):
    going_on = learn(reload(learned[name]), toy_task("mnist"))
    straight = toy_method(name)
    for task in ("aircraft", "dtd", "mnist"):
        learn(straight, toy_task(task))
    for question in questions(straight):
        pixels = some_pixels()
        assert torch.equal(answers(going_on, pixels, question), answers(straight, pixels, question))


@every_method
def test_an_interrupted_training_resumes_exactly(name, learned):
    straight = Trainer(reload(learned[name]), toy_task("mnist")).run(4).end()
    interrupted = Trainer(reload(learned[name]), toy_task("mnist")).run(2).store()
    resumed = Trainer(reload(learned[name]), toy_task("mnist")).resume(interrupted).run(2).end()
    for question in questions(straight):
        pixels = some_pixels()
        assert torch.equal(answers(resumed, pixels, question), answers(straight, pixels, question))


@every_method
def test_the_backbone_stays_as_it_was(name, learned):
    answers(learned[name], some_pixels(), questions(learned[name])[0])
    backbone = learned[name].backbone
    backbone._fingerprint = None
    assert backbone.fingerprint() == tiny_backbone().fingerprint()
    assert not any(tensor.requires_grad for tensor in nonempty(backbone.parameters()))


@isolated_methods
def test_tasks_kept_apart_do_not_touch_each_other(name):
    method = learn(toy_method(name), toy_task("aircraft"))
    first = copied(method.task_state(0))
    learn(method, toy_task("dtd"))
    assert_equal_states(method.task_state(0), first)
    second = copied(method.task_state(1))
    method.forget(0)
    assert method.task_names == ["dtd"]
    assert_equal_states(method.task_state(0), second)
    assert answers(method, some_pixels(), questions(method)[0]).isfinite().any()


@mixed_methods
def test_refuses_to_forget_what_is_mixed_in_its_weights(name, learned):
    with pytest.raises(InputError, match="cannot be forgotten"):
        learned[name].forget(0)


@every_method
def test_refuses_a_task_twice(name, learned):
    method = reload(learned[name])
    with pytest.raises(InputError, match="already learned"):
        learn(method, toy_task("dtd"))


@every_method
def test_counts_its_parameters(name, learned):
    assert (learned[name].parameter_count() > 0) == (name != "zero-shot")


@every_method
def test_trains_in_float32(name):
    method = toy_method(name)
    parameters = Trainer(method, toy_task("aircraft")).parameters
    assert {tensor.dtype for tensor in parameters.values()} == ({torch.float32} if learns(name) else set())


def assert_equal_states(state: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """Bitwise equality of two sets of named tensors."""
    assert state.keys() == expected.keys()
    for key in expected:  # plain CLIP keeps no tensor
        assert torch.equal(state[key], expected[key]), key


def learned_in(name: str, *tasks: str, preset: str = "default") -> Method:
    """A method that has learned toy tasks in this order."""
    method = toy_method(name, preset)
    for task in tasks:
        learn(method, toy_task(task))
    return method


def states(method: Method) -> dict[str, dict]:
    """The tensors of every task by its name."""
    return {task.name: copied(method.task_state(index)) for index, task in enumerate(method.tasks)}


def whole_presets(name: str) -> list[str]:
    """The presets of a method, rows of analysis tables apart."""
    return [preset for preset in nonempty(PRESETS[name]) if "/" not in preset]


@isolated_methods
def test_a_task_kept_apart_is_the_same_in_any_order(name):
    for preset in whole_presets(name):
        expected = states(learned_in(name, "aircraft", "dtd", "mnist", preset=preset))
        for order in (("mnist", "aircraft", "dtd"), ("dtd", "mnist", "aircraft")):
            found = states(learned_in(name, *order, preset=preset))
            for task, state in nonempty(expected.items()):
                assert_equal_states(found[task], state)


@isolated_methods
def test_forgetting_a_task_is_the_same_as_never_having_learned_it(name):
    for preset in whole_presets(name):
        forgetful = learned_in(name, "aircraft", "dtd", "mnist", preset=preset)
        forgetful.forget(1)
        never = learned_in(name, "aircraft", "mnist", preset=preset)
        assert_equal_states(forgetful.shared_state(), never.shared_state())
        for task, state in nonempty(states(never).items()):
            assert_equal_states(states(forgetful)[task], state)
        for question in questions(never):
            pixels = some_pixels()
            assert torch.equal(answers(forgetful, pixels, question), answers(never, pixels, question))


@every_method
def test_what_a_task_draws_depends_on_its_name_and_not_on_its_place(name):
    """The first draws of a task: everything new in its module that does not come from other tasks."""
    if name == "coda-prompt":
        pytest.skip("its components start orthogonal to those of earlier tasks")
    alone = toy_method(name)
    Trainer(alone, toy_task("mnist"))
    later = learned_in(name, "aircraft")
    Trainer(later, toy_task("mnist"))
    assert_equal_states(later.task_state(1), alone.task_state(0))
