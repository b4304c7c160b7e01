"""What a protocol is; all that an author of one imports, in one place.

The base class with its settings, overlays, records and learners come from this package. Kernels, random numbers and
functions with the same bits on every machine come from `golfsim.core`, the world from `golfsim.network`.
"""

from golfsim.core.kernels import inlined, kernel, leaf
from golfsim.core.maths import dot, exp, log
from golfsim.core.metrics import Metric
from golfsim.core.rng import below, draw, integers, permutation, sample, uniform, unit
from golfsim.network.mailbox import Mailbox
from golfsim.network.world import World
from golfsim.protocol.base import Audited, Layer, LayerConfig, Protocol, find, installed
from golfsim.protocol.learner import Learner, classify, score
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Records, sign_for

__all__ = [
    "Audited", "Layer", "LayerConfig", "Learner", "Mailbox", "Metric", "Overlay", "Protocol", "Records", "World",
    "below", "classify", "dot", "draw", "exp", "find", "inlined", "installed", "integers", "kernel", "leaf", "log",
    "permutation", "sample", "score", "sign_for", "uniform", "unit",
]  # fmt: skip
