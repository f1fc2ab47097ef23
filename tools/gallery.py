"""Draw docs/gallery.md from runs on `mini`: every figure with one sentence on how to read it.

`python tools/gallery.py` learns what is not yet learned in runs/gallery (some minutes on two cores), draws
all pictures into docs/gallery/ and writes the page. Runs that are there are not repeated.
"""

import argparse
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from dpw.analysis import FIGURES, draw_explanation, explain, make_figures
from dpw.benchmarks.mini import tasks
from dpw.learner import ContinualCLIP
from dpw.report import write_report
from dpw.report.style import save_picture
from dpw.runs.run import run_benchmark
from dpw.storage.run_folder import RunFolder

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gallery.md"
EXAMPLES = ("portraits", "signs")
LENGTHS = (2, 4, 16)
LARGEST = 180_000  # bytes of one picture

INTRODUCTION = """# Gallery

What `dpw report`, `dpw figures` and `dpw explain` draw, with one sentence on how to read each picture. They
come from runs on the embedded benchmark `mini` (`make gallery` draws them again); their numbers say nothing
about other data. [Reports, figures and explanations](reports.md) tells how to make your own.
"""


class Shown(NamedTuple):
    """A picture of the gallery."""

    name: str
    title: str
    sentence: str


REPORT = (
    Shown(
        "accuracy-dpw",
        "Accuracy matrix",
        "Read a column downwards: above the line the task is not learned yet, below it a fall is forgetting.",
    ),
    Shown(
        "over-time",
        "Accuracy over time",
        "Each small plot is one test set; the grey bar marks the step at which its own task was learned.",
    ),
    Shown(
        "losses",
        "Forgetting and zero-shot loss",
        "Lower is better; a bar below zero means that learning other tasks helped.",
    ),
    Shown(
        "tasks-dpw",
        "Task identification",
        "A bright diagonal means that images were taken for the task they come from.",
    ),
    Shown(
        "parameters",
        "Parameters against accuracy",
        "Up and to the left is better: more accuracy from fewer learned parameters.",
    ),
    Shown("times", "Time", "The whole bar is the time of a run, its first part the learning."),
)
PAPER = tuple(
    Shown(name, one.title, one.caption) for name, one in FIGURES.items() if name != "token-plane-umap"
)
EXPLAINED = (
    Shown(
        "explained",
        "Why an image got its answer: a right one",
        "Bright patches took most of the prefixes or the adapter; the bars say how likely each task is.",
    ),
    Shown(
        "explained-wrong",
        "Why an image got its answer: a wrong one",
        "Here the class is wrong; the probability above the image and the bars say how sure the answer was.",
    ),
)
# Two pictures of different commands share a name.
FILES = {("figures", "times"): "component-times"}


def page(pictures: bool) -> str:
    """The text of the page, with or without links to pictures."""
    parts = [INTRODUCTION]
    chapters = (("report", REPORT), ("figures", PAPER), ("explain", EXPLAINED))
    for command, shown in chapters:
        parts.append(f"\n## `dpw {command}`\n")
        for one in shown:
            link = (
                f"![{one.title}](gallery/{FILES.get((command, one.name), one.name)}.png)\n\n"
                if pictures
                else ""
            )
            parts.append(f"\n### {one.title}\n\n{link}{one.sentence}\n")
    if not pictures:
        parts.append("\nThe pictures are not drawn yet: run `make gallery`.\n")
    return "".join(parts)


def learn(model: str, folder: Path) -> Path:
    """All runs the gallery needs; finished ones are only read."""
    wanted = [(name, name, {}) for name in ("zero-shot", "finetune", "diki", "dpw", "dpw-reduced")]
    wanted += [(f"dpw-reduced-{n}", "dpw-reduced", {"prefix_length": n}) for n in LENGTHS]
    for name, method, settings in wanted:
        print(f"run {name}", flush=True)
        run_benchmark("mini", model=model, method=method, settings=settings, output=folder / name)
    return folder


def draw(runs: Path, target: Path) -> None:
    """Draw everything and keep small copies of what the page shows."""
    methods = [runs / name for name in ("zero-shot", "finetune", "diki", "dpw", "dpw-reduced")]
    page_path = write_report(methods, runs / "report.html")
    beside = [run.path for run in RunFolder(runs).finished_below() if run.path.name != "dpw"]
    make_figures(runs / "dpw", runs / "figures", beside=beside, tasks=EXAMPLES)
    explained(runs)
    target.mkdir(parents=True, exist_ok=True)
    keep(REPORT, "report", page_path.with_name("report_files"), target)
    keep(PAPER, "figures", runs / "figures", target)
    keep(EXPLAINED, "explain", runs, target)


def explained(runs: Path) -> None:
    """Explain the first test image that is answered right, and the first that is answered wrong."""
    task = next(task for task in tasks(0) if task.name == EXAMPLES[0])
    assert task.test is not None
    learner = ContinualCLIP.from_pretrained(RunFolder(runs / "dpw").model)
    answers = learner.predict([one.image for one in task.test])
    right = [answer.label == task.classes[one.label] for answer, one in zip(answers, task.test, strict=True)]
    for name, index in (("explained", right.index(True)), ("explained-wrong", right.index(False))):
        image = runs / f"{name}-example.png"
        task.test[index].image.save(image)
        figure = draw_explanation(explain(learner, image))
        figure.axes[0].set_xlabel(f"it is: {task.classes[task.test[index].label]}")
        save_picture(figure, runs, name, "", "")


def keep(shown: Sequence[Shown], command: str, source: Path, target: Path) -> None:
    """Copy pictures, smaller where they are too large."""
    for one in shown:
        small = shrink((source / f"{one.name}.png").read_bytes())
        (target / f"{FILES.get((command, one.name), one.name)}.png").write_bytes(small)


def shrink(png: bytes) -> bytes:
    """A PNG of at most `LARGEST` bytes; all colours are kept, because fewer show as bands in a colour bar."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    while True:
        out = io.BytesIO()
        image.save(out, "PNG", optimize=True)
        if out.tell() <= LARGEST:
            return out.getvalue()
        image = image.resize((image.width * 3 // 4, image.height * 3 // 4), Image.Resampling.LANCZOS)


def main() -> None:
    """Learn, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "gallery")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--text-only", action="store_true", help="write the page without pictures")
    chosen = parser.parse_args()
    if not chosen.text_only:
        draw(learn(chosen.model, chosen.runs), chosen.docs / "gallery")
    (chosen.docs / "gallery.md").write_text(page(not chosen.text_only), encoding="utf-8")
    print(chosen.docs / "gallery.md")


if __name__ == "__main__":
    main()
