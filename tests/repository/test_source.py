"""What must not stand anywhere in the package, and how big a file or a function may be."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import dpw

SOURCE = Path(dpw.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
FORBIDDEN = {
    r"\.cuda\(": "no device is named",
    r"[\"'](cuda|mps)(:\d+)?[\"']": "no device is named",
    r"strict\s*=\s*False(?!\))": "state is loaded whole",
    r"torch\.load\(|pickle\.loads?\(": "no pickle is opened",
    r"(?<![.\w])print\(": "only the command line speaks",
    r"import (torchvision|timm|open_clip)|from (torchvision|timm|open_clip)": "not a dependency",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_source_file(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400, "a file fits in a head"
    for pattern, why in FORBIDDEN.items():
        code = re.sub(r"strict: bool = False", "", text)
        found = re.search(pattern, code)
        assert found is None, f"{path.name}: {found.group() if found else ''}: {why}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{path.name}: {node.name} is too long"
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{path.name}:{node.lineno}: bare except"


def loaded_after(code: str) -> set[str]:
    """The modules a fresh interpreter has loaded after running some code."""
    script = f"{code}\nimport sys; sys.stdout.write('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_dpw_loads_neither_torch_nor_transformers():
    assert not {"torch", "transformers", "numpy"} & loaded_after("import dpw")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_neither_torch_nor_transformers(option):
    call = "from dpw.cli import main\ntry: main()\nexcept SystemExit: pass"
    code = f"import sys; sys.argv = ['dpw', {option!r}]\n{call}"
    assert not {"torch", "transformers", "numpy"} & loaded_after(code)


WITHOUT_TENSORS = [
    ["methods"],
    ["benchmarks"],
    ["tasks", "nothing"],
    ["forget", "nothing", "birds"],
    ["compare", "nothing"],
    ["run", "nothing"],
    ["run", "mini", "--method", "nothing"],
    ["run", "mini", "--set", "nothing=1"],
    ["run", "mini", "--set", "training.epochs=many"],
    ["run", "mini", "--model", "nothing"],
    ["resume", "nothing"],
    ["predict", "nothing", "a.jpg"],
    ["predict", "mini", "a.jpg"],
    ["predict", "mini", "a.jpg", "--classes", "cat", "--unknown", "2"],
    ["evaluate", "mini", "nothing"],
    ["learn", "nothing", "--into", "new"],
    ["learn", "nothing", "--into", "new", "--steps", "0"],
    ["reproduce", "nothing"],
    ["report", "nothing"],
    ["status", "nothing"],
    ["figures", "nothing"],
    ["explain", "nothing", "a.jpg"],
]


def test_lists_and_refusals_load_neither_torch_nor_transformers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = f"""
import sys
from dpw.cli import main
for words in {WITHOUT_TENSORS!r}:
    sys.argv = ["dpw", *words]
    try: main()
    except SystemExit as stop: assert stop.code == (0 if words[0] in ("methods", "benchmarks") else 2), words
    assert "torch" not in sys.modules, words
"""
    assert not {"torch", "transformers", "accelerate"} & loaded_after(code)


def test_a_prediction_on_mini_loads_no_transformers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (8, 8)).save("a.png")
    code = """
import sys
from dpw.cli import main
sys.argv = ["dpw", "predict", "mini", "a.png", "--classes", "cat,dog"]
try: main()
except SystemExit as stop: assert stop.code == 0
"""
    assert not {"transformers", "accelerate", "torch._dynamo", "sympy"} & loaded_after(code)
