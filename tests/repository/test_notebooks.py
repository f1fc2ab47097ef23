"""The notebooks run from their first cell to their last, and hold small outputs and nothing of a machine."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# A test has no minutes: fewer images and steps, the same cells. `make notebooks` runs them as they are.
SHORTER = {
    "steps=60": "steps=1",
    "len(task.train), 3)": "len(task.train), 1)",
    "(0, 40, 80)": "(0, 5, 10)",
    '"training.iterations": 20': '"training.iterations": 1',
    '"training.epochs": 2': '"training.iterations": 1',
    '["signs", "aerial", "chalk"]': '["signs", "aerial"]',
    "shots=16": "shots=2",
    "shots=8": "shots=2",
}

pytest.importorskip("IPython")
pytest.importorskip("sklearn")


def cells(path):
    """The cells of a notebook."""
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["compare-methods", "look-inside", "teach-and-ask"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch, few_of_mini, short_learning):
    monkeypatch.chdir(tmp_path)
    code = "\n".join("".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code")
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    with redirect_stdout(io.StringIO()):
        exec(compile(code, path.name, "exec"), {"__name__": "notebook"})


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_there_and_small(path):
    given = [output for cell in cells(path) for output in cell.get("outputs", [])]
    assert len(given) > 3
    assert not [
        output for output in given if output["output_type"] == "error" or output.get("name") == "stderr"
    ]
    text = path.read_text(encoding="utf-8")
    assert len(text) < 150_000
    assert not re.search(r"site-packages|/home/|/Users/|/tmp/", text)
