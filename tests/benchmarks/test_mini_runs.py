"""On `mini` every method runs without arguments: settings that suit it and data from outside come with it."""

import numpy as np
import pytest

from dpw.benchmarks.mini import DOMAINS
from dpw.benchmarks.mini.outside import captioned
from dpw.learner import ContinualCLIP
from dpw.methods import METHODS, configure, suited_settings
from dpw.runs.config import RunConfig
from dpw.runs.opening import method_config
from dpw.runs.run import start_run
from tests.helpers.checks import nonempty
from tests.helpers.tiny_clip import save_tiny

pytest.importorskip("sklearn")

QUICK = {"training.iterations": 1, "training.warmup": 0}
SMALL = {"router_iterations": 1, "reference_iterations": 1, "memory": 8, "prefix_length": 2}


def test_pictures_from_outside_are_the_same_for_a_seed():
    first, again, other = captioned(3, 4), captioned(3, 4), captioned(4, 4)
    assert first.captions == again.captions != other.captions
    for one, same in nonempty(zip(first.images, again.images, strict=True)):
        assert np.array_equal(np.asarray(one.image), np.asarray(same.image))


def test_captions_name_no_class_of_any_task():
    words = {word.strip(".") for caption in captioned(0).captions for word in caption.split()}
    classes = {name.lower() for domain in DOMAINS for name in domain.classes if len(name) > 1}
    assert not words & classes


def test_every_method_that_learns_has_settings_for_mini_and_they_are_valid():
    assert [name for name in METHODS if not suited_settings(name, "mini")] == ["zero-shot"]
    for name in METHODS:
        configure(name, clip="mini")


def test_a_preset_and_a_setting_go_over_what_suits_the_embedded_clip():
    suited = suited_settings("zscl", "mini")
    config = RunConfig(benchmark="mini", model="mini", method="zscl", settings={"temperature": 3.0})
    assert method_config(config).training.iterations == suited["training.iterations"]
    assert method_config(config).temperature == 3.0
    star = config.model_copy(update={"preset": "cil"})
    assert method_config(star).average_every == 10 != suited["average_every"]


def test_what_suits_a_clip_depends_on_the_clip_and_not_on_the_benchmark():
    other_benchmark = RunConfig(benchmark="my.yaml", model="mini", method="zscl")
    other_clip = RunConfig(benchmark="mini", model="some/clip", method="zscl")
    suited = suited_settings("zscl", "mini")
    assert method_config(other_benchmark).training.iterations == suited["training.iterations"]
    assert method_config(other_clip) == configure("zscl")


def test_a_learner_takes_the_settings_that_suit_its_clip(tmp_path):
    own = ContinualCLIP.from_pretrained("mini", "zscl")
    other = ContinualCLIP.from_pretrained("mini", "zscl", backbone=save_tiny(tmp_path / "clip"))
    assert own.method.config == configure("zscl", clip="mini")
    assert other.method.config == configure("zscl")


@pytest.mark.parametrize("name", ["gift", "moe-adapters", "zscl"])
def test_methods_that_look_outside_run_on_mini_without_being_given_data(name, tmp_path, few_of_mini):
    known = METHODS[name].config_class.model_fields
    small = {key: value for key, value in SMALL.items() if key in known}
    config = RunConfig(
        benchmark="mini",
        model=str(save_tiny(tmp_path / "clip")),
        method=name,
        order=("portraits",),
        settings=QUICK | small,
    )
    result = start_run(config, tmp_path / "run")
    assert result["tasks"] == ["portraits"]
    assert result["benchmark_settings"] == {}  # the benchmark is mini, but the CLIP is not
