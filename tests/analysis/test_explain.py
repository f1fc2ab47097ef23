"""An explanation agrees with the prediction it explains."""

import json

import pytest
import torch

from dpw.analysis import draw_explanation, explain
from dpw.errors import InputError
from dpw.learner import ContinualCLIP
from tests.helpers.command_line import dpw
from tests.helpers.toy_runs import run


@pytest.fixture(scope="module")
def learner(dpw_run):
    return ContinualCLIP.from_pretrained(dpw_run / "model")


def test_an_explanation_is_about_the_prediction(learner, picture):
    found = explain(learner, picture, top=2)
    assert found.prediction == learner.predict(str(picture), top=2)
    likelihoods = [one.log_likelihood for one in found.tasks]
    assert likelihoods == sorted(likelihoods, reverse=True)
    assert {one.task for one in found.tasks} == set(learner.tasks)
    assert found.tokens.task == found.tasks[0].task
    assert found.tokens.weight == pytest.approx(found.tasks[0].confidence)


def test_token_weights_have_the_shape_of_the_image(learner, picture):
    tokens = explain(learner, picture).tokens
    assert tokens.prefix.shape == tokens.adapter.shape == (2, 2, 2)
    assert bool((tokens.prefix >= 0).all())
    assert bool((tokens.prefix <= 1 + 1e-6).all()), "the prefixes of a head never weigh more than one"
    assert bool((tokens.adapter >= 0).all())
    assert json.loads(json.dumps(explain(learner, picture).as_json()))["tokens"]["task"] == tokens.task


def test_methods_without_token_weights_still_explain_their_answer(toy, diki_run, picture, tmp_path):
    diki = explain(ContinualCLIP.from_pretrained(diki_run / "model"), picture)
    assert diki.tokens is None
    assert len(diki.tasks) == 3
    assert draw_explanation(diki).get_figwidth() > 0
    run(toy, tmp_path / "plain", method="zero-shot", settings={})
    plain = explain(ContinualCLIP.from_pretrained(tmp_path / "plain" / "model"), picture)
    assert plain.tasks == []
    assert draw_explanation(plain).get_figwidth() > 0


def test_more_blocks_than_fit_in_a_row_are_drawn_in_several(learner, picture):
    from dataclasses import replace

    found = explain(learner, picture)
    many = replace(found.tokens, prefix=torch.rand(12, 2, 2), adapter=torch.rand(12, 2, 2))
    assert len(draw_explanation(replace(found, tokens=many)).subfigs) == 3


def test_an_image_that_cannot_be_read_is_one_sentence(capsys, learner, dpw_run, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    with pytest.raises(InputError):
        explain(learner, broken)
    code, _, err = dpw(capsys, "explain", dpw_run, broken)
    assert code == 2
    assert "broken.png" in err
    assert err.count("\n") == 1
    code, _, err = dpw(capsys, "explain", dpw_run, tmp_path / "x.png", "--output", tmp_path / "x.gif")
    assert code == 2
