"""Zero-shot probabilities are those of the family: a softmax, or sigmoids that keep their bias."""

import pytest
import torch
from torch.nn import functional as F

from dpw.data.pixels import PixelCache
from dpw.engine.prediction import predict_images
from dpw.methods import Candidates, ClassGroup
from tests.helpers.families import EVERY, family_backbone
from tests.helpers.toy_methods import answers, learn, some_pixels, toy_method, toy_task

QUESTION = Candidates.among(ClassGroup("birds", ("crow", "wren", "swan")))


@pytest.mark.parametrize("family", EVERY)
def test_probabilities_are_transformers_own(family):
    backbone, pixels = family_backbone(family), some_pixels()
    method = toy_method("zero-shot", backbone=backbone)
    tokens = method.tokens(QUESTION.groups[0])
    seen = backbone.family.texts.mask(backbone.clip, tokens)
    mask = torch.ones_like(tokens) if seen is None else seen.long()
    with torch.no_grad():
        given = {"input_ids": tokens, "pixel_values": backbone.normalized(pixels), "attention_mask": mask}
        expected = backbone.clip(**given).logits_per_image
        rule = torch.sigmoid if family.startswith("siglip") else torch.nn.Softmax(dim=-1)
        found = method.probabilities(answers(method, pixels, QUESTION))
    assert torch.allclose(found, rule(expected), atol=1e-5)


def test_a_prediction_of_plain_siglip_keeps_the_bias_and_a_learned_one_is_a_softmax():
    backbone = family_backbone("siglip")
    image = toy_task("aircraft").test[0].image
    cache = PixelCache(backbone.preprocessing, folder=None)
    plain = toy_method("dpw", backbone=backbone)
    (told,) = predict_images(plain, cache, [image], QUESTION, top=3)
    total = told.probability + sum(share for _, share in told.alternatives)
    assert total != pytest.approx(1, abs=1e-3)
    features = F.normalize(backbone.encode_images(torch.from_numpy(cache.preprocessing.pixels(image))[None]))
    texts = F.normalize(backbone.encode_texts(plain.tokens(QUESTION.groups[0])))
    logits = backbone.logit_scale * features @ texts.T + backbone.clip.logit_bias
    assert told.probability == pytest.approx(float(torch.sigmoid(logits).max()), abs=1e-5)
    learn(plain, toy_task("aircraft"), steps=1)
    (told,) = predict_images(plain, cache, [image], QUESTION, top=3)
    assert told.probability + sum(share for _, share in told.alternatives) == pytest.approx(1, abs=1e-5)
