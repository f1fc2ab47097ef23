"""What every method costs beside plain CLIP: seconds of a training step and of an answered image, and memory.

    python -m benchmarks.everyone                      # on mini, as `dpw reproduce throughput` does
    python -m benchmarks.everyone --shape vit-b-16     # random weights of that shape; long on a CPU

Every method trains a few steps on random images of ten classes and answers once, each in a process of its
own, so that memory is its own. Times are wall times: measure on a quiet machine.
"""

import argparse
import sys

from benchmarks.measure import measured_on

from benchmarks import models
from dpw.clip.backbone import Backbone
from dpw.report.comparison import piped
from dpw.runs.throughput import cost_rows, costs


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", default="mini", choices=["mini", *models.SHAPES])
    shape = parser.parse_args().shape
    load = Backbone.from_pretrained if shape == "mini" else models.backbone
    print(measured_on(), file=sys.stderr)
    found = []
    for one in costs(shape, load):
        found.append(one)
        print(" | ".join(cost_rows([found[0], one])[-1]), file=sys.stderr, flush=True)
    print("\n".join(piped(cost_rows(found))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
