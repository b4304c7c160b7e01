"""All faults together: whatever goes wrong, nothing is lost from the books and the log makes sense."""

import math
import tempfile
import tomllib
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from helpers import HERE, JIT, assert_same_state, finished, learning_tree, needs_jit, simulation, tree
from hypothesis import given, settings
from hypothesis import strategies as st

from golfsim.core import threads
from golfsim.runs.logs import load
from golfsim.runs.single import run as run_scenario
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint
from golfsim.sim.simulation import Simulation
from golfsim.testing import rows

PEERS = {"name": "peers", "use": "uniform"}
VIEWS = {"name": "peers", "use": "newscast", "view": 5}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}

# ------------------------------------------------------------------------------------------------ random scenarios

WINDOWS = st.sampled_from([{}, {"from": 3}, {"until": 4}, {"from": 2, "until": 5}])
BACK = st.sampled_from([{}, {"return": "keep"}, {"return": "afresh"}])
CHURN = st.one_of(
    st.sampled_from(
        [
            {"kind": "rate", "leave": 0.3, "rejoin": 0.4},
            {"kind": "rate", "leave": 1.0, "rejoin": 1.0, "online": 0.5},
            {"kind": "rate", "leave": 0.9, "rejoin": 0.05},
            {"kind": "oscillating", "low": 0.0, "high": 1.0, "period": 4},
            {"kind": "lognormal", "mu": 0.5, "sigma": 1.0, "online": 0.6},
            {"kind": "weibull", "shape": 0.5, "scale": 1.0, "online": 0.4},
        ]
    ).flatmap(lambda table: st.tuples(WINDOWS, BACK).map(lambda more: table | more[0] | more[1])),
    st.sampled_from(
        [
            {"kind": "crash", "at": 3, "share": 0.5},
            {"kind": "crash", "at": 2, "share": 1},
            {"kind": "join", "share": 0.5, "until": 6},
            {"kind": "join", "number": 3, "from": 2, "until": 4},
            {"kind": "trace", "file": "traces/three_nodes.csv", "assign": "repeat"},
            {"kind": "trace", "file": "traces/three_nodes.csv", "assign": "sample", "cycle_seconds": 1.5},
        ]
    ),
)
DELAYS = st.sampled_from([0, 0, 1, 3, [1, 4], {"kind": "exponential", "max": 5, "mean": 2.0}])
CUTS = st.sampled_from(
    [
        [],
        [{"share": 0.5, "from": 2, "until": 5, "contacts": 1}],
        [{"share": 0.3, "from": 1, "until": 8}, {"share": 0.5, "from": 4, "until": 6, "contacts": 3}],
    ]
)
SIZES = st.sampled_from(
    [
        {"records": 2, "repeat": True},
        {"records": {"kind": "zipf", "exponent": 1.5}},
        {"records": {"kind": "lognormal", "sigma": 2.0}},
        {"records": {"kind": "uniform", "min": 0, "max": 3}},
        {"records": 0, "leave_out": True},
    ]
)
SPLITS = st.sampled_from(
    [
        {"kind": "iid"},
        {"kind": "label-skew", "alpha": 0.1},
        {"kind": "feature-skew", "groups": 3, "shift": 0.5, "rotation": 30.0},
        {"kind": "groups", "groups": [{"nodes": 0.4, "records": 0.7}, {"nodes": 0.6, "records": 0.3}]},
    ]
)
ARRIVAL = st.sampled_from([None, None, {"start": 0.3, "rate": 0.5, "keep": 2}])
ADVERSARY = st.lists(
    st.tuples(
        st.sampled_from(["flip-labels", "noise", "negative", "old"]), st.sampled_from([0.2, 0.5]), st.integers(1, 6)
    ).map(lambda drawn: {"kind": drawn[0], "share": drawn[1], "from": drawn[2]}),
    max_size=2,
)
OVERLAYS = st.sampled_from(
    [
        PEERS,
        VIEWS,
        VIEWS | {"view": 2, "liveness": "none"},
        VIEWS | {"every": 2},
        {"name": "peers", "use": "static_overlay", "generator": "path_graph"},
        {"name": "peers", "use": "static_overlay", "generator": "path_graph", "liveness": "none"},
    ]
)
LEARNERS = st.sampled_from(
    [
        GOLF,
        GOLF | {"variant": "mu", "cache": 2, "average": "age"},
        GOLF | {"variant": "um", "batch": "one-by-one", "every": 3},
        GOLF | {"cache": 4, "merge": "median"},
        GOLF | {"cache": 5, "merge": "trimmed-mean", "clip": 2.0, "learner": "logistic"},
    ]
)
SCALES = st.sampled_from([["minmax"], ["minmax", "l1"]])
RECORDS, CYCLES = 24, 9


@st.composite
def scenarios(draw):
    """Anything that may happen at once, in a small network."""
    number, sizes, split = draw(st.integers(1, 20)), draw(SIZES), draw(SPLITS)
    if sizes["records"] == 2 and (2 * number < RECORDS or split["kind"] in ("label-skew", "groups")):
        sizes = {"records": 1, "leave_out": True}
    arrival = draw(ARRIVAL)
    nodes = {"number": number, "split": split} | sizes | ({"arrival": arrival} if arrival else {})
    return learning_tree(
        draw(OVERLAYS),
        draw(LEARNERS),
        data={"set": "random", "train": RECORDS, "test": 20, "scale": draw(SCALES)},
        nodes=nodes,
        cycles=CYCLES,
        seed=draw(st.integers(0, 10**6)),
        order=draw(st.sampled_from(["fixed", "shuffled"])),
        churn=draw(st.lists(CHURN, max_size=2)),
        transport={"loss": draw(st.sampled_from([0.0, 0.3, 1.0])), "delay": draw(DELAYS), "partition": draw(CUTS)},
        adversary=draw(ADVERSARY),
        observe={"every": 1, "nodes": 5, "overlay": 2, "metrics": ["auc", "f1"]},
    )


def few(examples):
    """Fewer examples where kernels run as plain Python."""
    return settings(max_examples=examples if JIT else examples // 6)


def logged(run, layer, metric):
    """Cycle → value of a metric."""
    named = zip(run.log.cycles, run.log.names, run.log.values, strict=True)
    return {cycle: value for cycle, name, value in named if name == (layer, metric)}


# ------------------------------------------------------------------------------------------------ conservation


def assert_books_balance(run, before):
    """Messages of each layer: none appears or vanishes, and what is under way is in the mailbox."""
    for name, layer in run.layers.items():
        counts = run.world.transport.totals(name)
        waiting = layer.mail.dst.size - layer.mail.free_count if hasattr(layer, "mail") else 0
        assert counts["messages.sent"] == counts["messages.delivered"] + counts["messages.lost"] + waiting
        assert counts["messages.under_way"] == waiting
        for metric in ("messages.sent", "messages.delivered", "messages.lost", "bytes.sent"):
            assert counts[metric] >= before.get(name, {}).get(metric, 0)
    sent = run.world.transport.totals("learning")["messages.sent"]
    assert sent - before.get("learning", {}).get("messages.sent", 0) <= run.world.order.size, "only who is online sends"


def assert_who_is_online_agrees(run):
    world = run.world
    assert np.array_equal(np.sort(world.order), np.flatnonzero(world.online))
    up = np.ones(world.nodes, bool)
    for model in world.churn:
        up &= model.up
    assert np.array_equal(world.online, up)
    assert set(world.first.tolist()) <= set(world.fresh.tolist()) <= set(world.came.tolist())
    assert world.online[world.came].all()
    assert world.seen[world.online].all()


def assert_records_are_conserved(run, counts):
    rows_now = run.raw.rows
    begin = np.cumsum(counts) - counts
    assert (begin <= rows_now.first).all()
    assert (rows_now.first <= rows_now.stop).all()
    assert (rows_now.stop <= begin + counts).all()


@few(120)
@given(scenarios())
def test_messages_records_and_nodes_are_conserved_in_every_cycle(table):
    run = simulation(table)
    counts = run.raw.class_counts().sum(axis=1)
    assert counts.sum() == len(run.raw.rows.x)
    before = {}
    for _ in run:
        assert_who_is_online_agrees(run)
        assert_books_balance(run, before)
        assert_records_are_conserved(run, counts)
        before = {name: run.world.transport.totals(name) for name in run.layers}
    assert run.raw.class_counts().sum() == counts.sum()


@few(60)
@given(scenarios())
def test_the_log_has_a_row_for_each_cycle_with_somebody_online_and_no_number_is_missing(table):
    run = simulation(table)
    online = {}
    for cycle in run:
        online[cycle] = int(run.world.online.sum())
    assert logged(run, "world", "online") == {cycle: size for cycle, size in online.items() if size}
    for (_, metric), value in zip(run.log.names, run.log.values, strict=True):
        # The mean distance is undefined where nobody reaches anybody; all else is a number.
        assert math.isfinite(value) or metric == "path_length", metric
        if metric.startswith(("error", "accuracy", "auc", "f1", "voted_error")):
            assert 0 <= value <= 1
    assert np.isfinite(run.layers["learning"].w).all()


@few(60)
@given(scenarios())
def test_whoever_is_offline_keeps_its_model_and_view(table):
    run = simulation(table)
    learning, peers = run.layers["learning"], run.layers["peers"]
    for _ in range(CYCLES):
        w, age, views = learning.w.copy(), learning.age.copy(), getattr(peers, "views", learning.age).copy()
        run.step()
        away = ~run.world.online
        assert np.array_equal(learning.w[away], w[away])
        assert np.array_equal(learning.age[away], age[away])
        if hasattr(peers, "views"):
            assert np.array_equal(peers.views[away], views[away])


# ------------------------------------------------------------------------------------------------ the same numbers


@few(40)
@given(scenarios())
def test_any_number_of_threads_gives_the_same_numbers(table):
    with mock.patch.object(threads, "SMALLEST_SHARE", 1):
        one, two, three = (finished(table, threads=threads) for threads in (1, 2, 3))
    for other in (two, three):
        assert rows(one) == rows(other)
        assert_same_state(one, other)


@few(40)
@given(scenarios(), st.integers(1, CYCLES - 1))
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(table, cycle):
    whole, part, again = finished(table), simulation(table), simulation(table)
    for _ in range(cycle):
        part.step()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(part, Path(folder) / "half")
        checkpoint.load(again, Path(folder) / "half")
    for _ in again:
        pass
    assert rows(again) == rows(whole)
    assert_same_state(again, whole)


@few(20)
@given(scenarios())
def test_the_scenario_as_written_beside_the_log_gives_the_same_run(table):
    scenario = Scenario.of(table, HERE)
    again = Scenario.of(tomllib.loads(scenario.dump()), HERE)
    assert again.dump() == scenario.dump()
    runs = Simulation(scenario), Simulation(again)
    for run in runs:
        for _ in run:
            pass
    assert rows(runs[0]) == rows(runs[1])


EVERYTHING = {
    "churn": [
        {"kind": "lognormal", "mu": 1.5, "sigma": 1.0, "online": 0.8},
        {"kind": "oscillating", "low": 0.7, "period": 6, "return": "afresh"},
        {"kind": "join", "share": 0.2, "from": 3, "until": 8},
        {"kind": "crash", "at": 9, "share": 0.1},
    ],
    "transport": {
        "loss": 0.2,
        "delay": {"kind": "lognormal", "max": 6, "mu": 0.5},
        "partition": [{"share": 0.4, "from": 4, "until": 7, "contacts": 2}],
    },
    "adversary": [{"kind": kind, "share": 0.05, "from": 3} for kind in ("flip-labels", "noise", "negative", "old")],
    "nodes": {
        "number": 1500,
        "records": {"kind": "lognormal", "sigma": 1.0},
        "split": {"kind": "label-skew", "alpha": 0.5},
        "arrival": {"start": 0.5, "rate": 0.3, "keep": 4},
    },
    "data": {"set": "random", "train": 4000, "test": 100, "scale": ["minmax", "l1"]},
    "order": "shuffled",
}


@needs_jit
@pytest.mark.parametrize("delay", [EVERYTHING["transport"]["delay"], 0], ids=["delay", "at once"])
@pytest.mark.parametrize("golf", [{"variant": "mu", "cache": 3}, {"merge": "median", "cache": 5, "clip": 20.0}])
def test_with_every_fault_switched_on_any_number_of_threads_gives_the_same_log(golf, delay):
    everything = EVERYTHING | {"transport": EVERYTHING["transport"] | {"delay": delay}}
    table = learning_tree(VIEWS | {"view": 10}, GOLF | golf, cycles=14, **everything)
    one, two, three = (finished(table, threads=threads) for threads in (1, 2, 3))
    assert one.world.order.size > 2 * threads.SMALLEST_SHARE, "large enough for threads to share the work"
    for other in (two, three):
        assert rows(one) == rows(other)
        assert_same_state(one, other)


# ------------------------------------------------------------------------------------------------ the edges

DELAYS_OR_NONE = pytest.mark.parametrize("delay", [0, [1, 3]])
STACKS = pytest.mark.parametrize(
    "layer", [PEERS, VIEWS, VIEWS | {"liveness": "none"}], ids=["uniform", "oracle", "none"]
)


@DELAYS_OR_NONE
@STACKS
def test_a_network_that_is_empty_for_a_while_goes_on_afterwards(layer, delay):
    churn = {"kind": "oscillating", "low": 0.0, "high": 1.0, "period": 8}
    observe = {"every": 1, "overlay": 1}
    table = learning_tree(layer, GOLF, cycles=20, churn=churn, transport={"delay": delay}, observe=observe)
    run = finished(table)
    online = logged(run, "world", "online")
    assert 5 not in online
    assert 13 not in online
    assert online[9] == online[17] == 40, "all are back at the peak"
    sent = logged(run, "learning", "messages.sent")
    assert sent[6] - sent[4] <= online[6] < 40, "in cycle 5 nothing was sent"
    errors = logged(run, "learning", "error.mean")
    assert errors[20] < errors[1]
    assert logged(run, "learning", "messages.delivered")[20] > sent[4]


def test_while_nobody_is_online_nothing_is_sent_and_what_is_under_way_is_lost():
    churn = {"kind": "rate", "leave": 1.0, "rejoin": 0.0, "online": 1.0, "until": 6}
    run = simulation(learning_tree(VIEWS, GOLF, cycles=8, churn=churn, transport={"delay": 2}))
    run.step()
    assert run.world.transport.totals("learning")["messages.under_way"] == 40
    for _ in range(3):
        run.step()
        assert run.world.order.size == 0
    for name in run.layers:
        counts = run.world.transport.totals(name)
        assert counts["messages.sent"] == counts["messages.lost"] == 40
    for _ in run:
        pass
    assert run.world.order.size == 40


def test_a_run_in_which_nobody_ever_comes_has_an_empty_log(tmp_path):
    table = learning_tree(VIEWS, GOLF, churn={"kind": "rate", "leave": 0, "rejoin": 0, "online": 0})
    frame = run_scenario(Scenario.of(table, HERE), tmp_path)
    assert len(frame) == 0
    assert len(load(tmp_path)) == 0
    assert list(frame.columns) == ["run", "seed", "cycle", "layer", "metric", "value"]


@DELAYS_OR_NONE
@STACKS
def test_one_node_alone_sends_nothing_and_keeps_its_model(layer, delay):
    table = learning_tree(
        layer, GOLF, nodes={"number": 1, "records": 5, "leave_out": True}, transport={"delay": delay},
        observe={"every": 1, "overlay": 1},
    )  # fmt: skip
    run = finished(table)
    for name in run.layers:
        assert set(run.world.transport.totals(name).values()) == {0}
    assert (run.layers["learning"].w == 0).all()
    assert len(logged(run, "learning", "error.mean")) == run.scenario.cycles
    for (_, metric), value in zip(run.log.names, run.log.values, strict=True):
        assert math.isfinite(value) or metric == "path_length"


@DELAYS_OR_NONE
def test_without_any_record_models_stay_zero_and_travel_all_the_same(delay):
    table = learning_tree(
        VIEWS, GOLF | {"variant": "um", "cache": 3}, nodes={"number": 12, "records": 0, "leave_out": True},
        transport={"delay": delay},
    )  # fmt: skip
    run = finished(table)
    assert (run.layers["learning"].w == 0).all()
    assert (run.layers["learning"].age == 0).all()
    assert run.world.transport.totals("learning")["messages.delivered"] > 12
    assert set(logged(run, "learning", "error.std").values()) == {0}


def test_a_node_without_records_passes_models_on_unchanged():
    nodes = {"number": 40, "records": {"kind": "zipf", "exponent": 3.0}}
    run = finished(learning_tree(PEERS, GOLF | {"variant": "rw"}, nodes=nodes, cycles=30))
    empty = run.raw.rows.stop == run.raw.rows.first
    assert empty.sum() > 10
    assert (run.layers["learning"].w[empty] != 0).any()
    assert logged(run, "learning", "error.mean")[30] < 0.1


@DELAYS_OR_NONE
@pytest.mark.parametrize("liveness", ["oracle", "none"])
def test_a_node_without_peers_is_left_alone(tmp_path, liveness, delay):
    edges = [f"{a} {(a + 1) % 19}" for a in range(19)]
    (tmp_path / "edges.txt").write_text("\n".join(edges))  # a ring of 0 … 18; node 19 knows nobody
    layer = {"name": "peers", "use": "static_overlay", "file": "edges.txt", "liveness": liveness}
    faults = {"transport": {"delay": delay}, "observe": {"every": 1, "overlay": 1}}
    run = Simulation(Scenario.of(learning_tree(layer, GOLF, number=20, cycles=8, **faults), tmp_path))
    for _ in run:
        pass
    alone = int(np.flatnonzero(run.world.label == 19)[0])
    learning = run.layers["learning"]
    assert (learning.w[alone] == 0).all()
    assert (np.delete(learning.age, alone) > 0).mean() > 0.8
    assert run.world.transport.totals("learning")["messages.sent"] == 19 * 8
    assert run.latest["peers"]["components"] == 2
    assert run.latest["peers"]["degree.min"] == 0
    assert np.isfinite(run.log.values).all()


def test_when_all_messages_are_lost_nobody_learns():
    run = finished(learning_tree(VIEWS, GOLF, transport={"loss": 1.0}))
    for name in run.layers:
        counts = run.world.transport.totals(name)
        assert counts["messages.sent"] == counts["messages.lost"] > 0
    assert (run.layers["learning"].w == 0).all()


def test_the_whole_network_may_crash():
    run = finished(learning_tree(VIEWS, GOLF, cycles=10, churn={"kind": "crash", "at": 4, "share": 1}))
    assert max(run.log.cycles) == 3
    assert run.world.cycle == 10
    assert not run.world.online.any()


def test_a_network_without_data_has_faults_too():
    faults = {
        "churn": {"kind": "rate", "leave": 0.3, "rejoin": 0.3},
        "transport": {"delay": [1, 2]},
        "adversary": [{"kind": "noise", "share": 0.2}],
    }
    run = finished(tree(VIEWS, nodes=30, cycles=8, observe={"every": 1, "overlay": 1}, **faults))
    assert np.isfinite(run.log.values).all()
