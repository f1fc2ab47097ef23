"""A benchmark in a short YAML file works from Python and from the command line."""

import json

import pytest
from typer.testing import CliRunner

from dpw.benchmarks import load_benchmark
from dpw.cli import app
from dpw.errors import InputError
from tests.helpers.dataset_layouts import image


def folders(root, names=("birds", "fish", "trees")):
    for place, name in enumerate(names):
        for label, kind in enumerate(("big_one", "small_one")):
            for number in range(10):
                image(root / name / kind / f"{number}.png", 1000 * place + 100 * label + number)


def write(root, text):
    (root / "mine.yaml").write_text(text)
    return root / "mine.yaml"


THREE = """
description: three folders of mine
templates: ["a picture of a {}."]
tasks:
  - folder: birds
    templates: ["a photo of a {}, a type of bird.", "a {}"]
  - folder: fish
    class_names: {big_one: whale}
  - folder: trees
    name: plants
    test_fraction: 0.5
order: [plants, birds, fish]
"""


def test_three_folders_from_python(tmp_path):
    folders(tmp_path)
    loaded = load_benchmark(write(tmp_path, THREE), seed=1)
    assert [task.name for task in loaded.tasks] == ["plants", "birds", "fish"]
    assert loaded.tasks[1].prompts() == [
        "a photo of a big one, a type of bird.",
        "a photo of a small one, a type of bird.",
    ]
    assert loaded.tasks[2].prompts()[0] == "a picture of a whale."
    assert len(loaded.tasks[0].test) == 10
    assert (loaded.name, loaded.protocol, loaded.setting) == ("mine", "coop", "task-incremental")


def test_three_folders_from_the_command_line(tmp_path):
    folders(tmp_path)
    path = str(write(tmp_path, THREE))
    text = CliRunner().invoke(app, ["benchmarks", path])
    assert text.exit_code == 0
    assert "plants" in text.output
    described = json.loads(CliRunner().invoke(app, ["benchmarks", path, "--shots", "3", "--json"]).output)
    assert [task["train"] for task in described["tasks"]] == [6, 6, 6]


def test_protocol_shots_and_setting_are_taken_from_the_file(tmp_path):
    folders(tmp_path)
    text = "protocol: zscl\nshots: 2\nsetting: class-incremental\nmerge_equal_names: true\n" + THREE
    loaded = load_benchmark(write(tmp_path, text), seed=1)
    assert (loaded.protocol, loaded.shots, loaded.setting) == ("zscl", 2, "class-incremental")
    assert loaded.merge_equal_names
    assert loaded.tasks[1].templates == ("a photo of a {}, a type of bird.", "a {}")
    assert len(loaded.tasks[0].train) == 4


def test_a_file_can_ask_across_domains(tmp_path):
    folders(tmp_path)
    assert (
        load_benchmark(write(tmp_path, "setting: cross-domain\n" + THREE), seed=1).setting == "cross-domain"
    )


def test_tables_and_public_datasets_can_be_mixed(tmp_path, data_root):
    folders(tmp_path, ("birds",))
    lines = [f"birds/{kind}/{n}.png,{kind}" for kind in ("big_one", "small_one") for n in range(10)]
    (tmp_path / "t.csv").write_text("file,label\n" + "\n".join(lines) + "\n")
    text = "tasks:\n  - {public: MNIST}\n  - {table: t.csv, path_column: file, name: table}\n"
    loaded = load_benchmark(write(tmp_path, text), data_root=data_root, seed=1)
    assert [(task.name, len(task.train)) for task in loaded.tasks] == [("mnist", 40), ("table", 14)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tasks: []", "tasks: .*at least 1"),
        ("- a\n- b", "must be a mapping"),
        ("tasks: [", "is not valid YAML"),
        ("taks: []", r"mine\.yaml: (tasks|taks)"),
        ("tasks: [{folder: a, shots: 3}]", "task 1 of .*mine.yaml: shots: Extra inputs"),
        ("tasks: [{name: a}]", "task 1 of .* must have exactly one of folder, table, dataset, public"),
        ("tasks: [{folder: a}, {folder: b/a}]", "two tasks called 'a'"),
        ("tasks: [{folder: a}]\norder: [b]", "order of .* names 'b', but the tasks are a"),
        ("tasks: [{public: moon}]", "dataset 'moon' is unknown"),
        ("tasks: [{folder: a}]\nprotocol: best", "protocol 'best' is unknown"),
        ("tasks: [{folder: a}]\nshots: 0", "shots: .*greater than or equal to 1"),
        ("tasks: [{folder: a, templates: 'a {}'}]", "templates"),
    ],
)
def test_mistakes_in_the_file_get_one_sentence(tmp_path, text, words):
    with pytest.raises(InputError, match=words) as caught:
        load_benchmark(write(tmp_path, text), seed=1)
    assert "\n" not in str(caught.value)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*gone\.yaml"):
        load_benchmark(tmp_path / "gone.yaml", seed=1)


def test_an_absent_folder_is_named_when_the_task_is_used(tmp_path):
    loaded = load_benchmark(write(tmp_path, "tasks: [{folder: nowhere}]"), seed=1)
    with pytest.raises(InputError, match="nowhere is not a folder"):
        loaded.tasks[0]


@pytest.mark.parametrize("source", ["folder", "table", "dataset"])
def test_an_endless_name_is_a_sentence(tmp_path, source):
    path = tmp_path / "b.yaml"
    path.write_text(json.dumps({"name": "b", "tasks": [{source: "a" * 5000, "name": "birds"}]}))
    with pytest.raises(InputError):
        load_benchmark(path).describe()
