"""S-Prompts: independent prompts for each domain."""

import torch

from dpw.data.images import Images
from dpw.methods import Candidates, ClassGroup
from dpw.methods.s_prompts import Context, ExtraTokens
from tests.helpers.checks import nonempty
from tests.helpers.tiny_clip import tiny_backbone
from tests.helpers.toy_methods import Trainer, answers, learn, some_pixels, toy_method, toy_task


def test_the_place_of_image_tokens_does_not_matter():
    """They stand behind the patches here and behind CLS in the public code."""
    backbone, pixels = tiny_backbone(), some_pixels()
    extra = torch.randn(3, backbone.image_shape.width)

    class AfterCls(ExtraTokens):
        def tokens(self, h):
            return torch.cat([h[:, :1], self.extra.expand(len(h), -1, -1), h[:, 1:]], dim=1)

    torch.testing.assert_close(
        backbone.encode_images(pixels, ExtraTokens(extra)), backbone.encode_images(pixels, AfterCls(extra))
    )


def test_a_context_replaces_the_placeholders_and_nothing_else():
    backbone = tiny_backbone()
    tokens = backbone.tokenize(["x x cat.", "y y cat."])
    h = backbone.clip.text_model.embeddings.token_embedding(tokens)
    context = torch.randn(2, h.shape[-1])
    replaced = Context(context).tokens(h)
    assert torch.equal(replaced[0], replaced[1])
    assert torch.equal(replaced[0, 1:3], context)
    assert torch.equal(replaced[:, 3:], h[:, 3:])
    assert torch.equal(replaced[:, 0], h[:, 0])


def test_a_learned_context_serves_any_class_and_ignores_templates():
    method, pixels = learn(toy_method("s-prompts"), toy_task("aircraft")), some_pixels()
    names = ("oak", "fir")
    one, other = (
        answers(method, pixels, Candidates.among(ClassGroup("trees", names, (template,))))
        for template in ("a {}.", "the tree {}.")
    )
    assert torch.equal(one, other)


def test_every_image_goes_to_the_task_of_its_nearest_centre():
    method = toy_method("s-prompts", centres=2)
    batches = {}
    for name in ("aircraft", "dtd", "mnist"):
        trainer = Trainer(method, toy_task(name)).run(1)
        trainer.end()
        batches[name] = next(trainer.images.batches())[0]
    assert [module.router["centres"].shape for module in method.bank] == [(2, 16)] * len(batches)
    for index, pixels in nonempty(enumerate(batches.values())):
        route = method.route(Images.of(pixels))
        assert route.task.tolist() == [index] * len(pixels)
        assert route.weight.tolist() == [1.0] * len(pixels)


def test_class_incrementally_only_the_chosen_domain_can_win():
    method = toy_method("s-prompts")
    for name in ("aircraft", "dtd"):
        learn(method, toy_task(name))
    pixels = some_pixels()
    chosen = method.route(Images.of(pixels)).task
    question = Candidates.learned([task.group() for task in method.tasks])
    winners = answers(method, pixels, question).argmax(dim=1)
    assert torch.equal((winners >= 2).long(), chosen)


def test_remembered_features_give_the_same_answers():
    from dpw.methods.feature_cache import FeatureCache

    method = toy_method("s-prompts")
    for name in ("aircraft", "dtd"):
        learn(method, toy_task(name))
    pixels = some_pixels()
    question = Candidates.learned([task.group() for task in method.tasks])
    expected = answers(method, pixels, question)
    method.feature_cache = FeatureCache()
    keyed = Images.of(pixels, keys=[str(row) for row in range(len(pixels))])
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(method.logits(keyed, question), expected)
    assert len(method.feature_cache) == 2 * len(pixels)
