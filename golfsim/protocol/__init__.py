"""What a protocol is; everything that an author of one imports, in one place.

The base class with its settings, overlays, records and learners come from this package. Kernels, random numbers and
functions with the same bits on every machine come from `golfsim.core`, the world and messages from `golfsim.network`.
"""

from golfsim.core.kernels import inlined, kernel, leaf
from golfsim.core.maths import dot, exp, log
from golfsim.core.metrics import Metric
from golfsim.core.rng import STEP, below, draw, integers, mix, permutation, sample, stream, uniform, unit
from golfsim.core.settings import FileName
from golfsim.core.simd import prefetch
from golfsim.network.delivery import Wire, answer_arrives, arrives
from golfsim.network.flow import Flow, FlowConfig
from golfsim.network.mailbox import Mailbox
from golfsim.network.world import World
from golfsim.protocol.base import Audited, Layer, LayerConfig, Protocol
from golfsim.protocol.learner import Learner, classify, score
from golfsim.protocol.loading import find, installed
from golfsim.protocol.overlay import Overlay, random_contacts
from golfsim.protocol.records import Records, sign_for
from golfsim.protocol.views import ViewConfig, ViewOverlay

__all__ = [
    "STEP", "Audited", "FileName", "Flow", "FlowConfig", "Layer", "LayerConfig", "Learner", "Mailbox", "Metric",
    "Overlay", "Protocol", "Records", "ViewConfig", "ViewOverlay", "Wire", "World", "answer_arrives", "arrives",
    "below", "classify", "dot", "draw", "exp", "find", "inlined", "installed", "integers", "kernel", "leaf", "log",
    "mix", "permutation", "prefetch", "random_contacts", "sample", "score", "sign_for", "stream", "uniform", "unit",
]  # fmt: skip
