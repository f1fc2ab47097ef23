"""Every code block of the README and the docs is run, or at least read by what it is written for."""

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer
import yaml
from PIL import Image

from dpw.benchmarks.yaml_file import read_benchmark
from dpw.cli import app
from tests.helpers.command_line import dpw
from tests.helpers.dataset_layouts import build_all
from tests.helpers.tiny_clip import save_tiny
from tests.helpers.toy_runs import run as toy_run

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
}
BLOCK = re.compile(r"(?:<!-- not run: (.+) -->\n)?^```(\w*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
LANGUAGES = {"ini", "python", "bash", "yaml", "toml", "text", "bibtex", "json"}
# Run by test_examples.py through the battery of all methods, and by test_readme.py.
ELSEWHERE = {"README.md", "docs/adding-a-method.md", "docs/adding-a-dataset.md"}
# Commands that are carried out; of the others only the spelling is checked, because they fetch, serve, or
# need the real data, and have tests of their own.
CARRIED_OUT = {"predict", "evaluate", "tasks", "forget", "benchmarks", "methods", "compare", "explain"}
CARRIED_OUT |= {"report", "status", "clip", "learn", "run"}
OTHERS = {"accelerate", "curl", "docker", "git", "pip", "pre-commit", "pytest", "python", "ray"}
# What a page needs beyond its own lines.
BEFORE = {
    "docs/evaluate.md": "from dpw import ContinualCLIP\nmodel = ContinualCLIP.from_pretrained('my-clip')",
    "docs/reference-data.md": (
        "from types import SimpleNamespace\nfrom dpw import Task\nmethod = SimpleNamespace()\n"
        "split = Task.from_folder('birds').train\nprompts = ('a bird.',) * len(split)"
    ),
}
# The runs at hand have three tasks, and the CLIP at hand is smaller than `mini`.
SHORTER = {
    "learned=4": "learned=1",
    'from_pretrained("mini")': 'from_pretrained("openai/clip-vit-base-patch16")',
}


def blocks(language, excused=False):
    """Blocks of a language by page: those of a page together, in their order."""
    found = {}
    for page, text in PAGES.items():
        every = BLOCK.findall(text)
        chosen = [code for reason, kind, code in every if kind == language and bool(reason) == excused]
        if chosen and (page not in ELSEWHERE or language == "toml"):
            found[page] = chosen
    return found


@pytest.fixture(scope="module")
def desk(toy, saved, dpw_run, tmp_path_factory):
    """A user's folder: photographs, a learned model, finished runs, the public datasets in miniature."""
    folder = tmp_path_factory.mktemp("documented")
    draw = np.random.default_rng(0)
    for task, classes in {"birds": ["crow", "swan"], "defects": ["scratch", "dent"], "pets": ["cat"]}.items():
        for name in classes:
            (folder / "photos" / task / name).mkdir(parents=True)
            for number in range(10):
                pixels = draw.integers(0, 256, (40, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / "photos" / task / name / f"{number}.jpg")
    for name in ("a.jpg", "b.jpg", "photo.jpg"):
        shutil.copy(folder / "photos" / "birds" / "crow" / "0.jpg", folder / name)
    shutil.copytree(folder / "photos" / "birds", folder / "birds")
    build_all(folder / "data")
    (folder / "DATA").symlink_to(folder / "data")
    save_tiny(folder / "openai" / "clip-vit-base-patch16")
    shutil.copytree(dpw_run, folder / "runs" / "mini" / "dpw-seed0")
    for name in ("mini", "mtil"):
        toy_run(toy, folder / "runs" / name / "zero-shot-seed0", method="zero-shot", settings={})
    return folder


@pytest.fixture
def at_desk(desk, monkeypatch, short_learning, few_of_mini):
    """Stand in the user's folder; trainings are short."""
    monkeypatch.chdir(desk)
    return desk


def test_every_block_says_what_it_is():
    assert len(PAGES) > 50
    for page, text in PAGES.items():
        for _, language, code in BLOCK.findall(text):
            assert language in LANGUAGES, f"{page}: ```{language} before {code[:40]!r}"


def test_few_blocks_are_not_run_and_each_says_why():
    reasons = [reason for text in PAGES.values() for reason, _, _ in BLOCK.findall(text) if reason]
    assert len(reasons) <= 12


@pytest.mark.parametrize("page", blocks("python"))
def test_python(page, at_desk, capsys):
    code = "\n".join([BEFORE.get(page, ""), *blocks("python")[page]])
    if page == "docs/evaluate.md":
        learned(capsys)
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    exec(compile(code, page, "exec"), {"__name__": "example"})


@pytest.mark.parametrize("page", blocks("bash"))
def test_commands(page, at_desk, capsys):
    lines = [line for code in blocks("bash")[page] for line in commands(code)]
    assert lines
    learned(capsys)
    for line in lines:
        check_command(line, capsys)


def commands(code):
    """The commands of a block; a backslash joins lines, what follows a # is for the reader."""
    joined = re.sub(r"\\\n\s*", " ", code)
    return [line for part in joined.splitlines() if (line := part.split("  #")[0].strip())]


def learned(capsys):
    """The model that pages speak of, with the tasks they speak of."""
    if not Path("my-clip").exists():
        for name in ("birds", "defects"):
            words = [
                "learn",
                f"photos/{name}",
                "--into",
                "my-clip",
                "--model",
                "openai/clip-vit-base-patch16",
            ]
            code, _, err = dpw(capsys, *words, "--learning-rate", "0.03", "--steps", "1")
            assert code == 0, err
    shutil.copytree("my-clip", "my-model", dirs_exist_ok=True)


def check_command(line, capsys):
    """Carry a command out, or look whether it is spelled as the program expects it."""
    if line.startswith("#"):
        return
    words = [word for word in shlex.split(line) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
    if words[0] == "make":
        done = subprocess.run(["make", "-n", "-C", str(ROOT), *words[1:]], capture_output=True, check=False)
        assert done.returncode == 0, f"{line}: {done.stderr.decode()}"
    elif words[0] == "dpw":
        parse(words[1:])
        if words[1] in CARRIED_OUT and "--help" not in words and (words := in_short(words)):
            code, out, err = dpw(capsys, *words[1:])
            assert code == 0, f"{line}: {out}{err}"
    else:
        assert words[0] in OTHERS, line


def in_short(words):
    """A command as it can be carried out at the desk in a moment; nothing where that is impossible."""
    if words[1] == "clip":
        return words if words[2].startswith("openai/") else []
    if words[1] == "learn":  # into a folder of its own, where the model of the page is being made
        if "google/siglip2-base-patch16-224" in words:
            return []
        new = [word.replace("my-clip", "taught") for word in words]
        if "--model" in words:
            shutil.rmtree("taught", ignore_errors=True)
        return [*new, "--learning-rate", "0.03", "--steps", "1"]
    if words[1] == "run":
        if words[2] != "mini":
            return []
        brief = [] if any("training." in word for word in words) else ["--set", "training.iterations=1"]
        several = ["--jobs", "1"] if "," in " ".join(words) else []
        shutil.rmtree("ran", ignore_errors=True)
        return [*words, "--order", "signs", "--output", "ran", *several, *brief]
    return [one for word in words for one in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]


def parse(words):
    """Refuse a command, option or argument that does not exist."""
    command = typer.main.get_command(app)
    context = None
    while hasattr(command, "commands") and words and words[0] in command.commands:
        context = command.make_context(words[0], [], parent=context, resilient_parsing=True)
        command, words = command.commands[words[0]], words[1:]
    if hasattr(command, "commands"):  # `dpw tasks MODEL`
        assert "list" in command.commands, f"there is no command {words[0]}: no such command"
        command = command.commands["list"]
    command.make_context(command.name, list(words), parent=context)


@pytest.mark.parametrize("page", blocks("bash", excused=True))
def test_commands_that_are_not_run_are_spelled_right(page):
    lines = [line for code in blocks("bash", excused=True)[page] for line in commands(code)]
    for line in lines:
        words = [word for word in shlex.split(line) if word != "..."]
        if words[0] == "dpw":
            parse(words[1:] if words[2:3] != ["--cluster"] else [words[1], "mini", *words[2:]])


@pytest.mark.parametrize("page", blocks("python", excused=True))
def test_python_that_is_not_run_can_be_read(page):
    for code in blocks("python", excused=True)[page]:
        compile(code, page, "exec")
        for line in re.findall(r"^(?:from|import) dpw.*", code, flags=re.MULTILINE):
            exec(line, {})


def test_a_wrong_command_would_be_noticed():
    parse(["predict", "my-clip", "a.jpg", "--top", "3"])
    for wrong in (["predict", "my-clip", "a.jpg", "--tops", "3"], ["nothing"], ["forget", "my-clip"]):
        with pytest.raises(Exception, match=r"[Nn]o such|Missing|Got unexpected"):
            parse(wrong)


@pytest.mark.parametrize("page", blocks("yaml"))
def test_yaml(page, tmp_path):
    for code in blocks("yaml")[page]:
        (tmp_path / "written.yaml").write_text(code)
        assert yaml.safe_load(code)
        if re.search("^tasks:", code, flags=re.MULTILINE):
            assert read_benchmark(tmp_path / "written.yaml").tasks


@pytest.mark.parametrize("page", blocks("toml"))
def test_toml(page):
    assert all(tomllib.loads(code) for code in blocks("toml")[page])
