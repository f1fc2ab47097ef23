"""YAML of strangers: plain values from plain files, and no more of them than are written down."""

import os

import pytest
import yaml

from dpw.data.yaml_text import parse_yaml, read_yaml
from dpw.errors import InputError

LAUGHS, MERGES = "a0: &a0 [x, x]\n", "a0: &a0 {k: v}\n"
for step in range(30):
    LAUGHS += f"a{step + 1}: &a{step + 1} [*a{step}, *a{step}, *a{step}]\n"
    MERGES += f"a{step + 1}: &a{step + 1} {{<<: [*a{step}, *a{step}, *a{step}]}}\n"


@pytest.mark.parametrize("text", [LAUGHS, MERGES, "&a [*a]", "a: &a {b: *a}"])
def test_aliases_that_multiply_or_hold_themselves_are_refused(text):
    with pytest.raises(yaml.YAMLError, match="more than"):
        parse_yaml(text)


def test_ordinary_aliases_and_merges_are_read():
    assert parse_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]") == {
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
        "c": [{"x": 1}, {"x": 1}],
    }
    assert parse_yaml("") is None


def test_a_pipe_and_a_folder_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (tmp_path / "pipe.yaml", tmp_path):
        with pytest.raises(InputError, match="a pipe or a device"):
            read_yaml(path, "a list of tasks")


def test_the_character_nul_is_refused_where_a_system_would_stumble(tmp_path):
    (tmp_path / "a.yaml").write_text('tasks: [{folder: "pe\\0ts"}]')
    with pytest.raises(InputError, match="NUL"):
        read_yaml(tmp_path / "a.yaml", "tasks")
    with pytest.raises(yaml.YAMLError, match="NUL"):
        parse_yaml('"a\\0b"')
