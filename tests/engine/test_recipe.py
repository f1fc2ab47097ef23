"""The recipe of a folder: who judges, how long it trains, and what is found."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpw import ContinualCLIP, Task
from dpw.engine import recipe
from dpw.engine.devices import make_accelerator
from dpw.engine.recipe import Plan, Wishes, find_plan, held_out_rows, split_for_trials, tempered_loss
from dpw.engine.training import Trainer
from tests.helpers.toy_learner import task


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_every_class_with_two_images_has_a_judge_and_none_is_left_empty(labels):
    rows = held_out_rows(labels)
    count, judging = Counter(labels), Counter(labels[row] for row in rows)
    for label, images in count.items():
        assert judging[label] == (0 if images == 1 else max(1, images // 5))


def test_plans_survive_being_written_down():
    plan = Plan(0.03, 200, 16, ((0.03, 1.5), (0.1, 1.7)))
    assert Plan.from_json(plan.as_json()) == plan
    training = plan.training()
    assert (training.iterations, training.epochs, training.warmup) == (200, None, 20)


def test_loss_is_that_of_the_best_temperature():
    logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
    assert tempered_loss(logits, labels) == pytest.approx(tempered_loss(50 * logits / 50, labels))
    assert tempered_loss(logits, labels) < tempered_loss(logits, 1 - labels)


@pytest.fixture
def trainer(toy):
    model = ContinualCLIP.from_pretrained(toy / "clip", "dpw")
    return Trainer(model.cache, make_accelerator(), seed=0, checkpoint_seconds=30.0), model.method


def test_too_few_judges_choose_nothing(toy, trainer):
    birds = task(toy, "birds")
    assert len(held_out_rows(birds.train.labels)) < recipe.FEWEST_JUDGES
    plan = find_plan(*trainer, birds, Wishes())
    assert (plan.learning_rate, plan.steps, plan.tried) == (0.03, recipe.LEAST_STEPS, ())


def test_the_best_rate_is_tried_and_the_length_follows_from_the_images(toy, trainer, monkeypatch):
    monkeypatch.setattr(recipe, "TRIAL_STEPS", 2)
    monkeypatch.setattr(recipe, "FEWEST_JUDGES", 1)
    plan = find_plan(*trainer, task(toy, "birds"), Wishes(time_limit=1000))
    assert sorted(rate for rate, _ in plan.tried) == [0.01, 0.03, 0.1]
    assert plan.learning_rate == min(plan.tried, key=lambda pair: pair[1])[0]
    assert plan.steps == recipe.LEAST_STEPS
    assert trainer[1].tasks == [], "trials leave no trace"


def test_a_short_time_limit_shortens_the_training_to_no_less_than_its_floor(toy, trainer, monkeypatch):
    monkeypatch.setattr(recipe, "TRIAL_STEPS", 2)
    monkeypatch.setattr(recipe, "FEWEST_JUDGES", 1)
    plan = find_plan(*trainer, task(toy, "birds"), Wishes(time_limit=1e-6))
    assert len(plan.tried) == 1
    assert plan.steps == recipe.FEWEST_STEPS


def test_the_time_limit_holds_where_nothing_is_tried(toy, trainer, monkeypatch):
    monkeypatch.setattr(recipe, "_pace", lambda *_: 1.0)
    plan = find_plan(*trainer, task(toy, "birds"), Wishes(time_limit=100))
    assert plan.tried == ()
    assert 80 <= plan.steps <= 100


def test_wishes_are_kept(toy, trainer):
    birds = task(toy, "birds")
    plan = find_plan(*trainer, birds, Wishes(learning_rate=0.5, epochs=3, batch_size=4))
    assert plan == Plan(0.5, 3 * -(-len(birds.train) // 4), 4)


def test_one_image_a_class_is_tried_on_nothing(toy, trainer):
    birds = task(toy, "birds")
    firsts = [birds.train.labels.index(label) for label in range(len(birds.classes))]
    single = Task(birds.name, birds.classes, birds.templates, birds.train.select(firsts))
    assert split_for_trials(single) == (single, None)
    assert find_plan(*trainer, single, Wishes()).tried == ()
