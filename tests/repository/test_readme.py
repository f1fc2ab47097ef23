"""Every command of the README is executed."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.helpers.command_line import dpw
from tests.helpers.dataset_layouts import build_all
from tests.helpers.tiny_clip import save_tiny

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = [
    line.split("  #")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A user's folder: photographs, the public datasets in miniature, and a CLIP under the hub's name."""
    folder = tmp_path_factory.mktemp("desk")
    draw = np.random.default_rng(0)
    for task, classes in {"birds": ["crow", "swan"], "defects": ["scratch", "dent"]}.items():
        for name in classes:
            (folder / "photos" / task / name).mkdir(parents=True)
            for number in range(10):
                pixels = draw.integers(0, 256, (40, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / "photos" / task / name / f"{number}.jpg")
    for name in ("a.jpg", "b.jpg"):
        shutil.copy(folder / "photos" / "birds" / "crow" / "0.jpg", folder / name)
    build_all(folder / "data")
    save_tiny(folder / "openai" / "clip-vit-base-patch16")
    return folder


def test_all_commands_in_their_order(capsys, monkeypatch, desk, few_of_mini):
    monkeypatch.chdir(desk)
    assert len(LINES) > 10
    for line in LINES:
        check_command(capsys, line)


def check_command(capsys, line):
    """Carry one line of the README out, or as much of it as can be done here."""
    words = shlex.split(line)
    if words[0] == "make":
        subprocess.run(["make", "-n", "-C", str(ROOT), *words[1:]], check=True, capture_output=True)
    elif words[0] == "pip":
        assert words == ["pip", "install", "dpw[mini,report]"]
    elif words[:3] == ["dpw", "data", "get"]:  # the one command that needs the network
        code, out, _ = dpw(capsys, *words[1:3], "--help")
        assert code == 0
        assert "--root" in out
    elif words[:3] == ["dpw", "data", "check"]:
        code, out, _ = dpw(capsys, *words[1:], "--subset")
        assert code == 0, out
    else:
        quick = {"run": ["--set", "training.epochs=1"], "learn": ["--learning-rate", "0.03", "--steps", "2"]}
        if words[1:3] == ["run", "mini"]:
            quick["run"] = ["--order", "signs"]
        code, out, err = dpw(capsys, *words[1:], *quick.get(words[1], []))
        assert code == 0, f"{line}: {out}{err}"


def test_python_example(monkeypatch, desk, short_learning):
    monkeypatch.chdir(desk)
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    scope: dict = {}
    exec(code, scope)
    assert scope["answer"].label in {"crow", "swan", "scratch", "dent"}
    assert (desk / "my-model" / "model.json").exists()
