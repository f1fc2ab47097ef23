"""Build wheel and sdist and try them as a stranger would: `python tools/release_check.py`.

The wheel is installed in a fresh environment away from the repository, and a benchmark, learning and
predicting are run from it. Sizes are stated; whatever fails ends the check.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = {".whl": 15e6, ".gz": 25e6}  # bytes
NEEDED = ("dpw/py.typed", "dpw/clip/mini/config.json", "dpw/methods/catalog.json")
MAKE_IMAGES = """
from pathlib import Path
from dpw.benchmarks.mini import tasks
task = next(task for task in tasks(0) if task.name == "signs")
for number in range(0, len(task.train), 4):
    image, label = task.train[number]
    folder = Path("photos", task.classes[label])
    folder.mkdir(parents=True, exist_ok=True)
    image.save(folder / f"{number}.png")
task.test[0].image.save("a.png")
"""


def main() -> int:
    """Build, look, install, try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    chosen = parser.parse_args()
    shutil.rmtree(chosen.dist, ignore_errors=True)
    call(sys.executable, "-m", "build", "--outdir", chosen.dist, ROOT)
    call(sys.executable, "-m", "twine", "check", "--strict", *chosen.dist.iterdir())
    (wheel,), (sdist,) = chosen.dist.glob("*.whl"), chosen.dist.glob("*.tar.gz")
    look_inside(wheel, sdist)
    with tempfile.TemporaryDirectory() as folder:
        try_it(wheel, Path(folder))
    print(f"{wheel.name} and {sdist.name} work from an environment of their own")
    return 0


def look_inside(wheel: Path, sdist: Path) -> None:
    """Sizes, files that must be there, files that must not, and links that lead nowhere without them."""
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (metadata,) = [file.read(name).decode() for name in names if name.endswith("/METADATA")]
    with tarfile.open(sdist) as file:
        packed = file.getnames()
    for path, inside in ((wheel, names), (sdist, packed)):
        size = path.stat().st_size
        print(f"{path.name}: {size / 1e6:.1f} MB, {len(inside)} files")
        if size > LARGEST[path.suffix]:
            raise SystemExit(f"{path.name} is larger than {LARGEST[path.suffix] / 1e6:.0f} MB")
    if missing := [name for name in NEEDED if name not in names]:
        raise SystemExit(f"{wheel.name} lacks {', '.join(missing)}")
    if foreign := [name for name in names if not name.startswith(("dpw/", "dpw-"))]:
        raise SystemExit(f"{wheel.name} holds {foreign[0]}, which is no part of the package")
    if dead := re.findall(r"\]\((?!https?:|#)[^)]*\)", metadata):
        raise SystemExit(f"{wheel.name} describes itself with links that lead nowhere: {dead[0]}")
    check_stated(wheel.stat().st_size, (ROOT / "README.md").read_text(encoding="utf-8"))


def check_stated(size: int, readme: str) -> None:
    """Refuse a README that states another size of the wheel than it has, to the megabyte."""
    stated = re.search(r"dpw itself is (\d+) MB", readme)
    if stated is None or int(stated[1]) != round(size / 1e6):
        raise SystemExit(
            f"the wheel has {size / 1e6:.0f} MB; let the README say: dpw itself is {size / 1e6:.0f} MB"
        )


def try_it(wheel: Path, folder: Path) -> None:
    """Install the wheel and use it in a folder that knows nothing of the repository."""
    venv.create(folder / "env", with_pip=True)
    binaries = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    desk = folder / "desk"
    desk.mkdir()
    constraints = ["-c", ROOT / "constraints.txt"]
    call(binaries / "python", "-m", "pip", "install", "--quiet", *constraints, f"{wheel}[mini]", cwd=desk)
    where = "import dpw, sys; sys.exit(not dpw.__file__.startswith(sys.prefix))"
    call(binaries / "python", "-c", where, cwd=desk)
    call(binaries / "dpw", "--version", cwd=desk)
    call(binaries / "dpw", "run", "mini", "--method", "zero-shot", cwd=desk)
    call(binaries / "python", "-c", MAKE_IMAGES, cwd=desk)
    quick = ["--learning-rate", "0.03", "--steps", "20"]
    call(binaries / "dpw", "learn", "photos", "--into", "my-clip", "--model", "mini", *quick, cwd=desk)
    call(binaries / "dpw", "predict", "my-clip", "a.png", cwd=desk)


def call(*words: object, cwd: Path | None = None) -> None:
    """Run a command away from our own environment; a failure ends the check."""
    command = [str(word) for word in words]
    print("$", " ".join(command), flush=True)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env={**kept, "HF_HUB_OFFLINE": "1"}, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"this failed: {' '.join(command)}")


if __name__ == "__main__":
    sys.exit(main())
