"""C-CLIP: low-rank updates that start at nothing and are merged by half."""

import torch

from tests.helpers.toy_methods import Trainer, copied, learn, some_pixels, toy_method, toy_task


def test_starts_every_task_as_the_merged_model_to_the_bit():
    method, pixels = learn(toy_method("c-clip"), toy_task("aircraft")), some_pixels()
    with torch.no_grad():
        merged = method.model.encode_images(pixels)
        assert not torch.equal(merged, method.backbone.encode_images(pixels))
        Trainer(method, toy_task("dtd"))
        method.eval()
        assert torch.equal(method.model.encode_images(pixels, method.adaptation("image")), merged)


def test_only_updates_projector_and_temperature_are_trained():
    method = toy_method("c-clip")
    names = Trainer(method, toy_task("aircraft")).parameters
    assert {name.split(".")[0] for name in names} == {"updates", "projector", "student"}
    assert [name for name in names if name.startswith("student")] == ["student.clip.logit_scale"]


def test_half_of_the_update_is_merged():
    method = toy_method("c-clip")
    trainer = Trainer(method, toy_task("aircraft")).run(3)
    updates = copied(dict(method.updates["text"].items()))
    before = copied(method.weights())
    trainer.end()
    name = "text_model.encoder.layers.1.mlp.fc1.weight"
    delta = updates["fc1_up"][1] @ updates["fc1_down"][1] * 2  # alpha / rank
    torch.testing.assert_close(method.weights()[name], before[name] + 0.5 * delta)
    assert delta.abs().max() > 0
    untouched = "text_model.encoder.layers.1.self_attn.k_proj.weight"
    assert torch.equal(method.weights()[untouched], before[untouched])


def test_merging_everything_keeps_the_answers_of_training():
    method, pixels = toy_method("c-clip", merge=1.0), some_pixels()
    trainer = Trainer(method, toy_task("aircraft")).run(3)
    method.eval()
    with torch.no_grad():
        images = method.model.encode_images(pixels, method.adaptation("image"))
        trainer.end()
        torch.testing.assert_close(method.model.encode_images(pixels), images, rtol=1e-4, atol=1e-4)


def test_counts_the_updates_of_all_tasks():
    method = toy_method("c-clip", rank=2)
    learn(method, toy_task("aircraft"))
    image = 3 * (48 + 48) + 2 * (48 + 96)
    text = 3 * (32 + 32) + 2 * (32 + 64)
    assert method.parameter_count() == 2 * 2 * (image + text)  # rank and blocks
    learn(method, toy_task("dtd"))
    assert method.parameter_count() == 2 * 2 * 2 * (image + text)


def test_the_text_tower_learns_ten_times_faster():
    method = toy_method("c-clip")
    names = Trainer(method, toy_task("aircraft")).parameters
    factors = {name: method.learning_rate_factor(name) for name in names}
    assert {factor for name, factor in factors.items() if "updates.text" in name} == {10}
    assert {factor for name, factor in factors.items() if "updates.text" not in name} == {1}
