"""Threads that change nothing."""

import threading
from itertools import pairwise

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core import threads as module
from golfsim.core.kernels import kernel
from golfsim.core.threads import Beside, as_if_one_by_one, in_threads, levels, over_ranges


@kernel
def pour(events, lo, hi, reads, writes, value):
    """Neither commutative nor associative: the order of conflicting events shows in the value."""
    for place in range(lo, hi):
        e = events[place]
        source = value[reads[e]] if reads[e] >= 0 else e
        value[writes[e]] = (value[writes[e]] * 3 + source * 5 + 1) % 1000003


def some_events(rng, nodes, count, quiet=0.0):
    reads = rng.integers(0, nodes, count)
    writes = (reads + rng.integers(1, nodes, count)) % nodes
    reads[rng.random(count) < quiet] = -1
    return reads.astype(np.int32), writes.astype(np.int32)


def level_of(nodes, reads, writes):
    """The level of each event, from the sorted events and the edges of the levels."""
    events, edges = levels(nodes, reads, writes)
    found = np.empty(writes.size, int)
    for depth, (lo, hi) in enumerate(pairwise(edges)):
        assert hi > lo
        assert (np.diff(events[lo:hi]) > 0).all()  # within a level in the order of the events
        found[events[lo:hi]] = depth
    assert sorted(events.tolist()) == list(range(writes.size))
    return found.tolist()


@given(st.integers(0, 10**6), st.integers(2, 15), st.integers(0, 60))
def test_levels_are_those_of_the_conflicts(seed, nodes, count):
    reads, writes = some_events(np.random.default_rng(seed), nodes, count)
    assert level_of(nodes, reads, writes) == naive.dependency_levels(reads.tolist(), writes.tolist())


@given(st.integers(0, 10**6), st.integers(2, 15), st.integers(0, 60))
def test_an_event_that_reads_no_node_conflicts_only_over_what_it_writes(seed, nodes, count):
    reads, writes = some_events(np.random.default_rng(seed), nodes, count, quiet=0.5)
    own = [nodes + e if i < 0 else i for e, i in enumerate(reads.tolist())]  # a node that nobody else touches
    assert level_of(nodes, reads, writes) == naive.dependency_levels(own, writes.tolist())


def test_without_reads_the_events_of_one_node_come_one_after_the_other():
    assert level_of(4, None, np.array([2, 0, 2, 2, 0], np.int32)) == [0, 0, 1, 2, 1]


def one_by_one(nodes, reads, writes):
    value = np.arange(nodes)
    for e in range(writes.size):
        source = value[reads[e]] if reads[e] >= 0 else e
        value[writes[e]] = (value[writes[e]] * 3 + source * 5 + 1) % 1000003
    return value


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("share", [1, 16, module.SMALLEST_SHARE])
@pytest.mark.parametrize("quiet", [0.0, 0.3])
def test_any_number_of_threads_gives_the_result_of_one_after_the_other(rng, monkeypatch, threads, share, quiet):
    monkeypatch.setattr(module, "SMALLEST_SHARE", share)
    nodes = 1500
    reads, writes = some_events(rng, nodes, 3000, quiet)
    value = np.arange(nodes)
    ranges = []

    def run(events, lo, hi):
        ranges.append((threading.get_ident(), lo, hi))
        pour(events, lo, hi, reads, writes, value)

    as_if_one_by_one(threads, run, nodes, reads, writes)
    assert (value == one_by_one(nodes, reads, writes)).all()
    places = sorted((lo, hi) for _, lo, hi in ranges if hi > lo)
    assert [lo for lo, _ in places] == [0, *(hi for _, hi in places[:-1])]
    assert places[-1][1] == 3000
    assert (len(ranges) > 1) == (threads > 1)


def test_the_events_of_one_level_are_handed_to_several_threads():
    meeting = threading.Barrier(2, timeout=30)  # broken, hence an error, unless two threads are there at once
    writes = np.arange(1024, dtype=np.int32)
    as_if_one_by_one(2, lambda events, lo, hi: meeting.wait(), 1024, None, writes)
    assert not meeting.broken


@given(st.integers(1, 5), st.integers(0, 3000), st.integers(0, 3000))
def test_ranges_cover_all_and_touch_nothing_twice(threads, start, length):
    seen = np.zeros(start + length + 1, np.int64)

    def run(lo, hi):
        assert lo <= hi
        seen[lo:hi] += 1

    over_ranges(threads, run, start, start + length)
    assert (seen[start : start + length] == 1).all()
    assert seen.sum() == length


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_come_back_in_the_order_of_the_items(threads):
    assert in_threads(threads, lambda n: n * n, range(20)) == [n * n for n in range(20)]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_thread_reaches_the_caller(threads):
    def fail(lo, hi):
        raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        over_ranges(threads, fail, 0, 2000)


def test_heavy_events_are_shared_out_however_few_they_are():
    shares = []
    over_ranges(3, lambda lo, hi: shares.append((lo, hi)), 2, 7, smallest=1)
    assert sorted(shares) == [(2, 3), (3, 5), (5, 7)]
    shares.clear()
    over_ranges(3, lambda lo, hi: shares.append((lo, hi)), 2, 7)
    assert shares == [(2, 7)]


def test_work_in_a_second_thread_has_ended_when_it_is_awaited_and_its_error_is_raised():
    beside, gate, found = Beside(), threading.Event(), []
    beside.begin(lambda: (gate.wait(), found.append(threading.current_thread().name)))
    assert not found, "it continues in parallel"
    gate.set()
    beside.end()
    assert found == ["golfsim second thread"]
    beside.begin(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        beside.end()
    beside.end()  # raised once
