"""All that a worker needs, imported once by the process of which every worker is a copy.

Nothing of it is ever garbage, so the collector neither looks at it here nor in the copies.
"""

import gc

gc.disable()

import accelerate  # noqa: E402, F401
import torch._dynamo  # noqa: E402, F401 (torch's optimisers import it)

import dpw.cluster.jobs  # noqa: E402
import dpw.runs.stages  # noqa: E402, F401

gc.freeze()
gc.enable()
