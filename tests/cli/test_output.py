"""Nothing that a file or a name holds acts on the terminal, and no cell of a table is a formula."""

import csv
import json
import os
from pathlib import Path

import pytest

import dpw
from dpw.cli import output
from dpw.cli.output import plain
from tests.helpers.command_line import dpw as command


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zürich, 東京 🙂", "Zürich, 東京 🙂"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb", "a\\nb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\udcffb", "a\\udcffb"),
        ("a\x9bb", "a\\x9bb"),
    ],
)
def test_what_acts_is_spelled_out(text, shown):
    assert plain(text) == shown


def test_only_one_module_of_the_command_line_prints():
    folder = Path(dpw.__file__).parent / "cli"
    speaking = [path.name for path in folder.glob("*.py") if "typer.echo(" in path.read_text()]
    assert speaking == ["output.py"]


def test_names_of_files_and_options_do_not_act(capsys, toy, tmp_path):
    odd = tmp_path / "a\x1b[2Jb.png"
    code, out, err = command(capsys, "predict", toy / "clip", odd, "--classes", "x\x1b[31m,y")
    assert code == 2
    assert "\x1b" not in out + err
    code, out, err = command(capsys, "predict", toy / "clip", "--o\x1b[31m")
    assert code == 2
    assert "\x1b" not in out + err


def test_a_line_end_in_a_name_makes_no_second_line(capsys, saved, picture, tmp_path):
    """A name must not be able to look like the answer about another image."""
    odd = tmp_path / "a\nb.png"
    odd.write_bytes(picture.read_bytes())
    code, out, err = command(capsys, "predict", saved[1], odd)
    assert code == 0, err
    assert out.startswith(f"{tmp_path}/a\\nb.png  ")
    assert out.count("\n") == 1


def test_names_that_are_no_text_are_one_sentence(capsys, toy, tmp_path):
    odd = os.fsdecode(bytes(tmp_path) + b"/\xff\xfe.png")
    code, _, err = command(capsys, "predict", toy / "clip", odd, "--classes", "x,y")
    assert code == 2
    assert "does not exist" in err


def test_a_table_holds_no_formula(toy, tmp_path):
    import shutil

    from tests.helpers.toy_runs import run

    shutil.copytree(toy, tmp_path / "world")
    yaml = (tmp_path / "world" / "toy.yaml").read_text()
    evil = "=cmd|'/c calc'!A1"
    changed = yaml.replace("data/birds", f"data/birds\n    name: {json.dumps(evil.replace('/', ''))}")
    (tmp_path / "world" / "toy.yaml").write_text(changed)
    run(tmp_path / "world", tmp_path / "run", method="zero-shot", settings={})
    cells = [
        cell
        for row in csv.reader((tmp_path / "run" / "accuracy.csv").read_text().splitlines())
        for cell in row
    ]
    assert any(evil[:4] in cell for cell in cells)
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_terminal_gets_sentences_broken_between_words_and_a_pipe_gets_them_whole(name, capsys, monkeypatch):
    sentence = "of 24 images kept apart 79.2 % are right among all learned classes, 79.2 % among its own"
    speak = output.say_sentence if name == "stdout" else output.say_error
    speak(sentence)
    assert sentence in getattr(capsys.readouterr(), name[3:])
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(f"sys.{name}.isatty", lambda: True)
    speak(sentence)
    lines = getattr(capsys.readouterr(), name[3:]).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()).endswith(sentence)
