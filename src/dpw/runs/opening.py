"""What a run works with: its method's settings and data; of a finished one its model and benchmark."""

from pathlib import Path

from dpw.benchmarks import LoadedBenchmark
from dpw.clip.backbone import Backbone
from dpw.data.reference import Pairs, ReferenceData
from dpw.methods import Method, MethodConfig, configure
from dpw.methods.config import build
from dpw.runs.config import RunConfig, load_run_benchmark
from dpw.storage import model_folder
from dpw.storage.run_folder import RunFolder


def method_config(config: RunConfig) -> MethodConfig:
    """The settings of a run's method: its defaults, what suits the CLIP, the preset, the user's own."""
    settings = {**config.settings, "seed": config.seed}
    return configure(config.method, config.preset, settings, clip=config.model)


def reference_data(benchmark: LoadedBenchmark) -> ReferenceData:
    """The data from outside that a benchmark brings, for methods whose settings name none."""
    if benchmark.benchmark.outside is None:
        return ReferenceData()
    images, captions = benchmark.benchmark.outside(benchmark.seed)
    return ReferenceData(images, tuple(dict.fromkeys(captions)), Pairs(images, captions))


def open_method(folder: Path, backbone: Backbone | None = None) -> Method:
    """The learned method of a finished run, over its own CLIP or over a given one that must be the same."""
    run = RunFolder(folder)
    run.read_results()  # refuses a run that is not finished
    return model_folder.load_model(
        run.model,
        lambda kind, config, clip: kind(
            backbone or Backbone.from_pretrained(clip, allow_download=False), config
        ),
    )


def open_benchmark(folder: Path) -> LoadedBenchmark:
    """The benchmark of a finished run, with the run's own choices."""
    run = RunFolder(folder)
    directory = run.read_run().get("directory") if run.started else None
    return load_run_benchmark(build(RunConfig, run.read_results()["settings"]), directory)
