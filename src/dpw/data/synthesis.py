"""Making images for prompts with a diffusion pipeline, before a task is learned (GIFT)."""

import csv
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from PIL import Image

from dpw.data.reference import PROMPTS_FILE, seeded
from dpw.errors import InputError

OWN_MARK = ".dpw-unfinished"
Painter = Callable[[str, int], Image.Image]  # a prompt and a seed to an image


def class_prompts(path: Path) -> tuple[str, ...]:
    """A prompt for each class name of a file with one name a line, as GIFT words those of ImageNet."""
    if not path.is_file():
        raise InputError(f"synthetic_classes names {path}, which is no file; give one with a name a line")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path} cannot be read ({error}); save it as text in UTF-8") from error
    names = [line.strip() for line in lines if line.strip()]
    return tuple(f"a photo of a {name}." for name in names)


def draw_prompts(pool: Sequence[str], count: int, seed: int, task: str) -> list[str]:
    """Draw prompts uniformly with replacement, by the seed and the task's name alone."""
    if not pool:
        raise InputError("there is no prompt to draw from: the file of sentences or class names is empty")
    indices = torch.randint(len(pool), (count,), generator=seeded(seed, task, "prompts"))
    return [pool[index] for index in indices.tolist()]


def synthesize(folder: Path, prompts: Sequence[str], task: int, pipeline: str, steps: int) -> None:
    """Fill a folder with generated images and their `prompts.csv`, in the first of several processes."""
    if not is_main_process():
        wait_for(folder)
        return
    paint(folder, prompts, task, diffusion_painter(pipeline, steps))


def paint(folder: Path, prompts: Sequence[str], task: int, painter: Painter) -> None:
    """Write one JPEG for each prompt; black images, which a safety filter leaves, are dropped.

    The folder appears only when it is complete.
    """
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    if unfinished.exists() and not (unfinished / OWN_MARK).is_file():
        raise InputError(f"{unfinished} is in the way and was not made by dpw; move it elsewhere")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    (unfinished / OWN_MARK).touch()
    rows = []
    for number, prompt in enumerate(prompts):
        image = painter(prompt, image_seed(number, task))
        if image.convert("L").getextrema() == (0, 0):
            continue
        rows.append({"file": f"{number:05d}.jpg", "prompt": prompt})
        image.convert("RGB").save(unfinished / f"{number:05d}.jpg", quality=95)
    with (unfinished / PROMPTS_FILE).open("w", encoding="utf-8", newline="") as lines:
        table = csv.DictWriter(lines, ["file", "prompt"])
        table.writeheader()
        table.writerows(rows)
    (unfinished / OWN_MARK).unlink()
    unfinished.rename(folder)


def is_main_process() -> bool:
    """Whether this is the only process of a training, or the first of several."""
    from accelerate import PartialState

    return bool(PartialState().is_main_process)


def wait_for(folder: Path, every: float = 1.0) -> None:
    """Wait until another process has finished a folder; it appears when it is complete."""
    while not folder.is_dir():
        time.sleep(every)


def image_seed(number: int, task: int) -> int:
    """The authors' seed of image `number` for the task with this index, counted from 0."""
    return number + 100_000 * (task - 1) + 42 * 10**7


def diffusion_painter(pipeline: str, steps: int) -> Painter:
    """A painter by a diffusers pipeline, half precision where there is an accelerator."""
    try:
        import diffusers
    except ImportError as error:
        raise InputError(
            "diffusion=... needs the diffusers library: install dpw[diffusion], or give synthetic=FOLDER "
            "with images made elsewhere"
        ) from error
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    device = accelerator or torch.device("cpu")
    dtype = torch.float32 if accelerator is None else torch.float16
    pipe = diffusers.DiffusionPipeline.from_pretrained(pipeline, torch_dtype=dtype).to(device)
    if steps < 50:
        scheduler = diffusers.DPMSolverMultistepScheduler.from_config(pipe.scheduler.config)
        pipe.scheduler = scheduler
    pipe.set_progress_bar_config(disable=True)

    def painter(prompt: str, seed: int) -> Image.Image:
        """One image; the noise comes from the seed alone."""
        generator = torch.Generator().manual_seed(seed)
        image: Image.Image = pipe(prompt, num_inference_steps=steps, generator=generator).images[0]
        return image

    return painter
