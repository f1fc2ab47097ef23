"""The rows of the paper's analysis tables: each learns, is stored, resumes, and has its printed size."""

import pytest
import torch

from dpw.methods import PRESETS, configure, create
from dpw.methods.dpw.ablations import TABLES
from dpw.methods.dpw.tower import DPWTower
from dpw.methods.dpw.variants import VariantParts
from tests.helpers.tiny_clip import vit_b16
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

ROWS = {f"ablation/{name}": preset for table in TABLES.values() for name, preset in table.items()}

# Rows that are the same settings under two names are learned once.
DIFFERENT = sorted({str(preset): name for name, preset in ROWS.items() if preset}.values())

FIXED = [name for name in DIFFERENT if "cutoff" in name]

ALTERNATIVES = [name for name in DIFFERENT if configure("dpw", name).varied and name not in FIXED[1:]]

ALTERNATIVES += ["ablation/adapter-trained"]

SMALL = {"adapter_rank": 4, "training.learning_rate": 0.1}

every_row = pytest.mark.parametrize("name", DIFFERENT)


def test_every_table_has_its_rows():
    assert {table: len(rows) for table, rows in TABLES.items()} == {
        "modules": 5,
        "scores": 4,
        "activations": 4,
        "cut-offs": 6,
        "prefix length": 4,
        "adapter weights": 6,
        "adapters": 4,
        "heads": 4,
    }
    assert set(ROWS) <= set(PRESETS["dpw"])
    assert {"ablation/prefix-x0.5", "ablation/prefix-x4"} <= set(PRESETS["dpw-reduced"])


def test_the_row_that_is_the_method_is_the_default():
    default = configure("dpw")
    for name in ("all", "scores-input", "filtering", "cutoff-dynamic", "weight-residual", "heads-adaptive"):
        assert configure("dpw", f"ablation/{name}") == default
    for name in ("prefix-x1", "adapter-svd"):
        assert configure("dpw", f"ablation/{name}") == default


@every_row
def test_learns_two_tasks_and_its_state_gives_the_same_logits(name):
    method = toy_method("dpw", name, **SMALL)
    for task in ("aircraft", "dtd"):
        trainer = Trainer(method, toy_task(task))
        before = {key: tensor.detach().clone() for key, tensor in trainer.parameters.items()}
        trainer.run(1)
        moved = [not torch.equal(tensor, before[key]) for key, tensor in trainer.parameters.items()]
        assert any(moved)
        assert all(tensor.isfinite().all() for tensor in trainer.parameters.values())
        trainer.end()
    fresh, pixels = reload(method), some_pixels()
    assert fresh.parameter_count() == method.parameter_count()
    for question in questions(method):
        logits = answers(method, pixels, question)
        assert logits.isfinite().all()
        assert torch.equal(answers(fresh, pixels, question), logits)


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_an_interrupted_training_resumes_exactly(name):
    first = learn(toy_method("dpw", name, **SMALL), toy_task("aircraft"), steps=1)
    straight = Trainer(reload(first), toy_task("mnist")).run(2).end()
    interrupted = Trainer(reload(first), toy_task("mnist")).run(1).store()
    resumed = Trainer(reload(first), toy_task("mnist")).resume(interrupted).run(1).end()
    for question in questions(straight):
        assert torch.equal(
            answers(resumed, some_pixels(), question), answers(straight, some_pixels(), question)
        )


@pytest.fixture(scope="module")
def clip():
    """ViT-B/16 with the shapes of its projections but no values worth an SVD."""
    return vit_b16()


def millions(clip, preset: str, heads: tuple[int, int] = (12, 8), **settings) -> float:
    """Learned parameters of eleven tasks, in millions, with given heads of the prefix branch."""
    config, total = configure("dpw", preset, settings), 0
    layers = {
        "image": clip.clip.vision_model.encoder.layers,
        "text": clip.clip.text_model.encoder.layers,
    }
    prefixes, rank = config.prefix_length, config.adapter_rank
    for name, shape, count in zip(layers, (clip.image_shape, clip.text_shape), heads, strict=True):
        sizes = [
            (shape.blocks, count, shape.width, prefixes),
            (shape.blocks, count, shape.tokens, prefixes),
            (shape.blocks, prefixes, shape.width),
            (shape.blocks, rank, shape.width),
            (shape.blocks, shape.width),
        ]
        tower = DPWTower(*(torch.zeros(size) for size in sizes), has_cls=False)
        if config.varied:
            tower = VariantParts(config).new_tower(tower, layers[name], name)
        total += sum(tensor.numel() for tensor in tower.parameters())
    return 11 * total / 1e6


def test_scores_by_attention_have_the_printed_sizes(clip, monkeypatch):
    # The copies of W^Q and W^K must have their shapes; the meta device gives no values to copy.
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: torch.empty(tensor.shape))
    assert millions(clip, "ablation/scores-attention") == pytest.approx(2.7, abs=0.05)
    assert millions(clip, "ablation/scores-trained-attention") == pytest.approx(228.0, abs=0.05)
    # 30.8 M with the heads that the real tasks ask for; with CLIP's own 29.6 M, as in the heads' table.
    assert millions(clip, "ablation/scores-query") == millions(clip, "ablation/scores-input")


def test_the_sizes_of_the_head_table(clip):
    for factor, heads, printed in ((0.5, (6, 4), 21.0), (1, (12, 8), 29.6), (2, (24, 16), 46.8)):
        assert millions(clip, f"ablation/heads-x{factor:g}", heads) == pytest.approx(printed, abs=0.1)


def test_the_sizes_of_the_adapter_table(clip):
    prefix = millions(clip, "ablation/no-rwm")
    assert millions(clip, "ablation/adapter-lora") - prefix == pytest.approx(21.6, abs=0.05)
    # The frozen D (1.0 M) is not counted; a trained one would be, though the paper prints the same 11.0 M.
    assert millions(clip, "ablation/adapter-svd") - prefix == pytest.approx(11.0, abs=0.05)


def test_the_sizes_of_the_adapter_weight_table(clip):
    """19.8 M, 39.6 M and 32.7 M belong to head counts of real data, of which only the ratios are formulas."""
    prefix, doubled = millions(clip, "ablation/no-rwm"), millions(clip, "ablation/no-rwm-prefix-x2")
    assert doubled == 2 * prefix
    share = 19.8 / prefix  # how many more heads the eleven tasks have than CLIP
    router = millions(clip, "ablation/weight-router") - millions(clip, "ablation/weight-residual")
    assert 30.8 + share * router == pytest.approx(32.7, abs=0.1)


def test_an_ablation_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="adapter_weight = 'half'"):
        create("dpw", vit_b16(), settings={"adapter_weight": "half"})
