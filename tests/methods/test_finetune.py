"""Full fine-tuning: what it trains, what it counts, and how WiSE-FT goes back."""

import pytest
import torch

from dpw.errors import InputError
from dpw.methods import configure
from tests.helpers.checks import nonempty
from tests.helpers.toy_methods import Trainer, copied, learn, questions, some_pixels, toy_method, toy_task
from tests.helpers.toy_methods import answers as logits_of


def weights(method) -> dict[str, torch.Tensor]:
    """The learned weights, copied."""
    return copied(method.weights())


def test_trains_every_weight_except_the_temperature():
    method = toy_method("finetune")
    trainer = Trainer(method, toy_task("dtd")).run(2)
    every = dict(method.backbone.clip.named_parameters())
    trained = {name.removeprefix("student.clip.") for name in trainer.parameters}
    assert trained == every.keys() - {"logit_scale"}
    still = [name for name, tensor in method.weights().items() if torch.equal(tensor, every[name])]
    assert still == []
    assert torch.equal(method.student.clip.logit_scale, method.backbone.clip.logit_scale)
    assert method.parameter_count() == sum(t.numel() for t in every.values()) - 1


def test_each_task_starts_where_the_last_one_ended():
    method = learn(toy_method("finetune"), toy_task("aircraft"))
    ended = weights(method)
    Trainer(method, toy_task("dtd"))
    assert all(torch.equal(tensor, ended[name]) for name, tensor in nonempty(method.weights().items()))


def test_text_features_are_kept_only_between_trainings():
    method = learn(toy_method("finetune"), toy_task("aircraft"))
    question, pixels = questions(method)[0], some_pixels()
    first = logits_of(method, pixels, question)
    assert method.answers._texts
    trainer = Trainer(method, toy_task("dtd"))
    assert not method.answers._texts
    trainer.run(3)
    assert not torch.equal(logits_of(method, pixels, question), first)
    assert not method.answers._texts


def test_the_published_settings():
    training = configure("finetune").training
    assert (training.optimizer, training.batch_size, training.iterations) == ("adamw", 64, 1000)
    assert (training.schedule, training.warmup, training.label_smoothing) == ("warmup-cosine", 100, 0.2)
    assert (training.learning_rate, training.task_learning_rates["mnist"]) == (1e-5, 5e-5)


def test_refuses_weights_of_another_clip():
    method = toy_method("finetune")
    with pytest.raises(InputError, match=r"differ in .*: use the CLIP it was made from"):
        method.load_shared_state({"student.logit_scale": torch.zeros(())})


FAMILY = ("finetune", "lwf", "lwf-vr", "icarl", "wise-ft", "zscl", "gift", "moe-adapters")


@pytest.mark.parametrize("name", FAMILY)
def test_the_loaders_of_the_family_drop_nothing(name):
    assert not configure(name).training.drop_last


@pytest.mark.parametrize("name", ["finetune", "lwf", "lwf-vr", "icarl", "zscl"])
def test_the_class_incremental_preset_is_one_pass_at_one_rate(name):
    config = configure(name, "cil")
    training = config.training
    assert (training.epochs, training.iterations, training.warmup) == (1, None, 30)
    assert (training.learning_rate, training.task_learning_rates) == (7.1e-6, {})
    if name != "finetune":
        assert (config.image_weight, config.text_weight) == (5.0, 5.0)
