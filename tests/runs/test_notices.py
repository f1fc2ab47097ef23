"""Before a run: is there a published row, and does it compare?"""

import shlex

import pytest

from dpw.cli.learn import parse_settings
from dpw.runs.config import RunConfig
from dpw.runs.notices import command, comparable_notice

CLIP = "openai/clip-vit-base-patch16"


def notice(method, benchmark, protocol):
    config = RunConfig(benchmark=benchmark, model=CLIP, method=method, data_root="DATA")
    return comparable_notice(config, benchmark, protocol)


@pytest.mark.parametrize(
    ("method", "benchmark", "protocol"),
    [("dpw", "mtil", "coop"), ("zscl", "mtil", "zscl"), ("coleclip", "odcl-cil-merged", "zscl")],
)
def test_nothing_is_said_where_the_row_compares(method, benchmark, protocol):
    assert notice(method, benchmark, protocol) is None


def test_nothing_is_said_where_nothing_is_published():
    assert notice("s-prompts", "mtil", "coop") is None


def test_the_other_protocol_is_named_with_the_whole_command():
    said = notice("zscl", "mtil", "coop")
    assert "under protocol zscl, this run is mtil under protocol coop" in said
    assert said.endswith(f"dpw run mtil --method zscl --model {CLIP} --data-root DATA --protocol zscl")


def test_the_other_rule_for_equal_names_is_named_as_well():
    assert "dpw run odcl-cil-merged --method moe-adapters" in notice("moe-adapters", "odcl-cil", "coop")
    assert "dpw run odcl-cil --method dpw" in notice("dpw", "odcl-cil-merged", "coop")


def test_a_command_names_what_differs_from_the_defaults():
    settings = {"training.epochs": 3}
    config = RunConfig(benchmark="mini", model="mini", seed=2, order=("signs", "flags"), settings=settings)
    expected = "dpw run mini --method dpw --seed 2 --order signs,flags --set training.epochs=3"
    assert command(config) == expected


VALUES = [None, True, 3, 0.5, {}, {"dtd": 0.1}, "cosine", "3", "null", "a folder: with spaces", ""]


@pytest.mark.parametrize("value", VALUES)
def test_settings_of_a_command_are_read_back_as_they_were(value):
    words = shlex.split(command(RunConfig(benchmark="mini", model="mini", settings={"some.key": value})))
    assert parse_settings([words[words.index("--set") + 1]]) == {"some.key": value}
