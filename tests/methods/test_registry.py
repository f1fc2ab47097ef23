"""Methods by name: settings, presets, and methods that come with other packages."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dpw.errors import InputError
from dpw.methods import configure, register, suited_settings
from dpw.methods.zero_shot import ZeroShot

METHOD = '''"""A method in somebody else's package."""

from dpw.methods import Method, register
from dpw.methods.parts.plain import PlainAnswers


@register(mini={"seed": 3})
class Echo(Method):
    """Answers as plain CLIP."""

    name = "echo"
    summary = "plain CLIP from another package"
    isolated = True

    def __init__(self, backbone, config):
        """Answer as plain CLIP."""
        super().__init__(backbone, config)
        self.answers = PlainAnswers(self)
'''


def wheel(folder: Path, content: str) -> Path:
    """A wheel with one module and an entry point, as a build tool would make it."""
    path = folder / "echo_method-1.0-py3-none-any.whl"
    info = "echo_method-1.0.dist-info"
    files = {
        "echo_method.py": content,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: echo-method\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[dpw.methods]\necho = echo_method\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


def install(tmp_path: Path, content: str) -> dict[str, str]:
    """Install such a package beside dpw; gives the environment that sees it."""
    target = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*command, "--no-deps", "--target", target, wheel(tmp_path, content)], check=True)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(target), *sys.path])}


def dpw(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess:
    """Call the command line in a process of its own."""
    command = [sys.executable, "-m", "dpw", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_method_of_an_installed_package_runs_from_the_command_line(tmp_path):
    environment = install(tmp_path, METHOD)
    listed = dpw(environment, "methods")
    assert "plain CLIP from another package" in listed.stdout
    output = tmp_path / "run"
    ran = dpw(environment, "run", "mini", "--method", "echo", "--order", "signs", "--output", output)
    assert ran.returncode == 0, ran.stderr
    assert (output / "results.json").is_file()


def test_a_broken_package_is_named_and_the_rest_goes_on(tmp_path):
    listed = dpw(install(tmp_path, "import nothing_like_this"), "methods")
    assert listed.returncode == 0
    assert "echo-method" in listed.stderr
    assert "zero-shot" in listed.stdout


def test_two_methods_cannot_have_one_name():
    with pytest.raises(ValueError, match="two methods are called 'zero-shot'"):
        register()(ZeroShot)


def test_unknown_methods_and_presets_are_named():
    with pytest.raises(InputError, match="no method is called 'dwp'"):
        configure("dwp")
    with pytest.raises(InputError, match="no preset 'offical'"):
        configure("dpw", "offical")


def test_what_suits_the_embedded_clip_is_found_by_its_name_and_by_its_folder():
    from dpw.clip.pretrained import EMBEDDED

    assert suited_settings("dpw", "mini") == suited_settings("dpw", str(EMBEDDED["mini"]))
    assert suited_settings("dpw", "openai/clip-vit-base-patch16") == {}


def test_an_empty_mapping_replaces_a_mapping():
    assert configure("finetune").training.task_learning_rates
    for given in ({"training.task_learning_rates": {}}, {"training": {"task_learning_rates": {}}}):
        assert configure("finetune", settings=given).training.task_learning_rates == {}
    one = configure("finetune", settings={"training.task_learning_rates": {"dtd": 0.5}})
    assert one.training.task_learning_rates == {"dtd": 0.5}
    added = configure("finetune", settings={"training.task_learning_rates.dtd": 0.5})
    assert added.training.task_learning_rates == {"aircraft": 5e-5, "mnist": 5e-5, "dtd": 0.5}


@pytest.mark.parametrize(
    ("method", "settings", "needed"),
    [
        ("finetune", {"training.epochs": 3}, "training.iterations=null"),
        ("finetune", {"training": {"epochs": 3}}, "training.iterations=null"),
        ("coleclip", {"training.task_epochs": {"dtd": 2}}, "training.iterations=null"),
        ("dpw", {"training.warmup": 3}, "training.schedule=warmup-cosine"),
        ("moe-adapters", {"reject_quantile": 0.9, "reject_threshold": 0.06}, "reject_threshold=null"),
        ("dpw", {"head_multiple": 2.0}, "heads=fixed"),
        ("gift", {"synthetic_classes": "names.txt"}, "diffusion=PIPELINE"),
        ("zscl", {"training.minimum_steps": 9}, "training.iterations=null"),
        ("dpw-reduced", {"truncate_heads": True}, "heads=adaptive"),
        ("dpw-reduced", {"repa_init": "qk_in"}, "own_slice=false"),
        ("dpw", {"activation": "norm", "fixed_cutoff": 0.3}, "activation=conditional"),
        ("diki", {"router": "text-prototypes", "covariance": "sample"}, "router=gaussian"),
    ],
)
def test_a_setting_that_another_overrides_is_refused(method, settings, needed):
    with pytest.raises(InputError, match=needed):
        configure(method, settings=settings)


def test_a_file_of_class_names_means_the_same_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "names.txt").write_text("cat\n")
    monkeypatch.chdir(tmp_path)
    config = configure("gift", settings={"synthetic_classes": "names.txt", "diffusion": "a/pipeline"})
    assert config.synthetic_classes == str(tmp_path / "names.txt")


def test_what_takes_effect_is_not_refused():
    config = configure("finetune", settings={"training.epochs": 3, "training.iterations": None})
    assert (config.training.epochs, config.training.iterations) == (3, None)
    assert configure("coleclip", settings={"training.epochs": 3}, clip="mini").training.epochs == 3


@pytest.mark.parametrize("name", ["coleclip", "dpeclip", "l2p", "dualprompt", "coda-prompt"])
def test_methods_of_coleclips_tables_train_500_steps_whatever_the_size_of_a_task(name):
    training = configure(name).training
    assert (training.iterations, training.epochs, training.task_epochs) == (500, None, {})
    assert training.batch_size == 128
