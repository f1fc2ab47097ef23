"""`dpw predict --from ... --to ...`: millions of images, by one process or by a cluster."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from dpw.cli.cluster import ray_speaks_apart
from dpw.cli.output import say, say_error, say_text


def refuse_mixture(
    images: Sequence[Path] | None,
    source: str | None,
    target: Path | None,
    csv: Path | None,
    cluster: str | None,
) -> None:
    """Refuse options of the two ways to predict in one command, and half of either."""
    from dpw import InputError

    if (source is None) != (target is None):
        raise InputError("--from and --to belong together: say where the images are and where answers go")
    if source is None and not images:
        raise InputError("give images or folders, or many images by --from and --to")
    if source is None and cluster is not None:
        raise InputError("--cluster needs --from and --to: images on the command line are soon answered here")
    if source is not None and (images or csv is not None):
        raise InputError("--from and --to stand instead of image files and --csv: leave those out")


def predict_many(asked: Sequence[Any], source: str, target: Path, cluster: str | None, as_json: bool) -> None:
    """Answer all images that have no answer yet, shard by shard, and say how many there are."""
    from dpw.cluster.batch_prediction import Question, answer, predict_on_cluster, prepare

    model, classes, template, top, unknown, backbone = asked
    held = str(Path(model).absolute()) if Path(model).is_dir() else model
    chosen = None if classes is None else tuple(classes)
    question = Question(held, chosen, template, top, unknown, backbone)
    here = str(Path(source).absolute()) if "://" not in source else source
    left = prepare(here, question, target.absolute())
    if cluster is None:
        done = _watch((answer(shard, question, target.absolute()) for shard in left), len(left))
    elif left:
        from dpw.cluster.connection import connected, slots

        with ray_speaks_apart(), connected(cluster) as ray:
            answers = predict_on_cluster(ray, left, question, target.absolute(), slots(ray, 1))
            done = _watch(answers, len(left))
    else:
        done = {"images": 0, "failed": 0}
    if as_json:
        say_text(json.dumps({"to": str(target), **done}, indent=2))
    else:
        say(f"{target}: {done['images']} images answered now, {done['failed']} of them could not be read")
    if done["failed"]:
        raise typer.Exit(2)


def _watch(answers: Iterable[Mapping[str, int]], shards: int) -> dict[str, int]:
    """Let the answers come, and sum up; Ctrl-C stops after whole shards."""
    from dpw.cli.terminal import exit_code, stopping, watched

    images = failed = 0
    with stopping() as request:
        for one in watched(answers, lambda: shards):
            images, failed = images + one["images"], failed + one["failed"]
            if request():
                say_error(f"stopped after {images} images; the same command goes on")
                raise typer.Exit(exit_code(request))
    return {"images": images, "failed": failed}
