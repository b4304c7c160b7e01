"""Broken input of all kinds, and what must come of it: a message with the place, soon, and no traceback."""

import contextlib
import copy
import os
import signal
from datetime import date

from hypothesis import Phase, settings
from hypothesis import strategies as st

from golfsim.cli import export_commands
from golfsim.core.errors import UserError
from golfsim.runs import single
from golfsim.scenario import sweep
from golfsim.sim.simulation import Simulation

EXAMPLES = int(os.environ.get("GOLFSIM_FUZZ", "0"))  # of each test; 0: a few, always the same
SECONDS = 60  # of computing that one input may take; far more than it needs, but kernels may have to be compiled
CYCLES = 2

NASTY = [
    0, 1, -1, 2, 3, 7, 2**31, 2**53, 2**63 - 1, -(2**63), 2**70, 0.0, -0.0, 0.5, 1.0, 1e-300, 1e308, -1.5,
    float("nan"), float("inf"), float("-inf"), True, False, "", " ", "raw", "peers", "world", "1", "nan", "ε = 0",
    "\u202e\u0000", "ü" * 3, "x" * 10_000, "../../../../etc/passwd", "/etc/passwd", "s.toml", "a.py:B", ":",
    "peers.view", "log", "all", date(2020, 1, 1), [], [[]], [0], [1, 2], ["l1", "l1"], [float("nan")], {},
    {"kind": "rate"}, {"kind": "uniform"}, {"": 1}, {"min": 0, "max": 2**62, "kind": "uniform"}, [{}],
    [{"name": "peers"}],
]  # fmt: skip

nasty = st.sampled_from(NASTY).map(copy.deepcopy) | st.integers(-1000, 1000) | st.floats() | st.text(max_size=20)


def thorough(few):
    """Settings of a fuzz test: a few examples, always the same; or as many as GOLFSIM_FUZZ says, always others."""
    phases = [Phase.explicit, Phase.generate]  # to shrink takes longer than to look at what was found
    return settings(max_examples=EXAMPLES or few, derandomize=not EXAMPLES, database=None, phases=phases)


def paths_of(tree, path=()):
    """All places of a nested table."""
    yield path
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, value in inner:
        yield from paths_of(value, (*path, step))


@st.composite
def broken_trees(draw, trees, keys):
    """A valid scenario with some values replaced, taken out or added."""
    tree = copy.deepcopy(draw(st.sampled_from(trees)))
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from([path for path in paths_of(tree) if path]))
        where = tree
        for step in way:
            where = where[step]
        what = draw(st.sampled_from(["replace", "replace", "remove", "add", "double"]))
        if what == "replace":
            where[last] = draw(nasty)
        elif what == "remove":
            del where[last]
        elif isinstance(where, dict):
            where[draw(st.sampled_from(keys))] = draw(nasty)
        elif what == "double":
            where.append(where[last])
    return tree


@st.composite
def damaged(draw, content):
    """Bytes with some of them changed, cut out, cut off, repeated or put in."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        some = draw(st.integers(1, 40))
        what = draw(st.sampled_from(["flip", "flip", "cut", "truncate", "repeat", "insert", "swap"]))
        if what == "flip" and data:
            data[at] = draw(st.integers(0, 255))
        elif what == "cut":
            del data[at : at + some]
        elif what == "truncate":
            del data[at:]
        elif what == "repeat":
            data[at:at] = data[at : at + some]
        elif what == "insert":
            data[at:at] = draw(st.binary(max_size=10) | st.sampled_from(WORDS))
        elif what == "swap":
            data[at : at + some] = draw(st.sampled_from(WORDS))
    return bytes(data)


WORDS = [
    b"nan", b"inf", b"-1", b"0", b"1e999", b"99999999999999999999", b"\x00", b"\xff\xfe", b"\n", b",", b",,", b'"',
    b"'", b"[", b"]", b"[[", b"{", b"}", b"=", b" = ", b"#", b"1e30", b"\r", b"\t", b"true", b'"""', b"2020-01-01",
]  # fmt: skip


@contextlib.contextmanager
def soon():
    """Fail where something takes too long."""

    def too_long(*_):
        raise AssertionError(f"more than {SECONDS} seconds")

    before = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # not by the clock: machines are shared
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome_of(action):
    """What a user is told; None where there is nothing to say. Any other exception is a bug."""
    with soon():
        try:
            action()
        except UserError as error:
            found = error
        else:
            return None
    assert str(found).strip()
    return found


def tried(scenario):
    """Set up the first points of a scenario and run some cycles, as `golfsim run` does; returns how many."""
    with single.telling(scenario):
        points = sweep.points(scenario)[:2]
        for point in points:
            export_commands.run_to(
                point.scenario.change({"cycles": min(scenario.cycles, CYCLES)}), CYCLES, lambda run: None
            )
    return len(points)


def built(scenario):
    """A run of a scenario before its first cycle."""
    return Simulation(scenario)
