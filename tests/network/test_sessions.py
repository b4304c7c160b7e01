"""Churn: who is online when, by each model and from traces."""

from itertools import pairwise

import numpy as np
import pytest
from helpers import ALPHA, HERE, at_cycle, finished, learning_tree, make_layer, make_world, needs_jit, simulation, tree
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from golfsim.core.errors import UserError
from golfsim.network import churn
from golfsim.runs.single import run as run_scenario
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation
from protocols.newscast import PEER, Newscast

NODES = 3000
UNIFORM = {"name": "peers", "use": "uniform"}
VIEWS = {"name": "peers", "use": "newscast", "view": 5}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}


def config(**table):
    """A churn table as a scenario has it."""
    return Scenario.of(tree(UNIFORM, churn=table)).churn[0]


def make_model(nodes=NODES, seed=1, folder=HERE, **table):
    """A model of its own; the user's numbers are the nodes' own."""
    label = np.arange(nodes, dtype=np.int32)
    return churn.build((config(**table),), seed, label, folder)[0]


def history(model, cycles):
    """Who is up in each cycle 1 … cycles: [cycles, nodes]."""
    seen = []
    for cycle in range(1, cycles + 1):
        model.step(cycle)
        seen.append(model.up.copy())
    return np.array(seen)


# ------------------------------------------------------------------------------------------------ sessions

LOGNORMAL = {"kind": "lognormal", "mu": 3.0, "sigma": 0.6}
WEIBULL = {"kind": "weibull", "shape": 4.0, "scale": 30.0}
SESSIONS = [
    pytest.param(LOGNORMAL, stats.lognorm(s=0.6, scale=np.exp(3.0)), id="lognormal"),
    pytest.param(WEIBULL, stats.weibull_min(c=4.0, scale=30.0), id="weibull"),
]


def residual(length):
    """The distribution function of what is left of a session met at a random moment: ∫₀ˣ (1 − F) / mean."""
    edge = np.linspace(0, length.ppf(1 - 1e-9), 20_001)
    area = np.concatenate([[0], np.cumsum((length.sf(edge[1:]) + length.sf(edge[:-1])) / 2 * np.diff(edge))])
    return lambda x: np.interp(x, edge, area / area[-1])


def drawn_lengths(model, cycles):
    """The lengths of the second session of each node (the first was under way), by whether it was an online one."""
    lengths, online = np.full(model.up.size, np.nan), np.zeros(model.up.size, bool)
    model.step(1)
    for cycle in range(2, cycles + 1):
        end, session = model.end.copy(), model.session.copy()
        model.step(cycle)
        assert (model.session - session).max() <= 1, "a session within a cycle goes unseen: choose longer ones"
        second = (model.session == 1) & (session == 0)
        lengths[second], online[second] = (model.end - end)[second], model.up[second]
    return lengths, online


@pytest.mark.parametrize(("table", "length"), SESSIONS)
@pytest.mark.parametrize("online", [0.9, 0.5, 0.25])
def test_the_share_online_is_as_asked_from_the_first_cycle_on(table, length, online):
    up = history(make_model(**table, online=online), 60)
    for cycle in (0, 1, 7, 59):
        assert stats.binomtest(int(up[cycle].sum()), NODES, online).pvalue > ALPHA, cycle
    # One node's cycles are correlated and nodes are not, so the mean over nodes of a node's share has this error:
    share = up.mean(axis=0)
    assert abs(share.mean() - online) < 4 * share.std() / np.sqrt(NODES)


@pytest.mark.parametrize(("table", "length"), SESSIONS)
def test_sessions_under_way_at_first_have_the_residual_length_of_a_renewal_process(table, length):
    model = make_model(**table, online=0.8)
    model.step(1)
    left = model.end - 1
    assert stats.kstest(left[model.up], residual(length)).pvalue > ALPHA
    assert stats.kstest(left[~model.up] * 0.8 / 0.2, residual(length)).pvalue > ALPHA
    assert stats.kstest(left[model.up], length.cdf).pvalue < ALPHA  # and not that of a whole session


@pytest.mark.parametrize(("table", "length"), SESSIONS)
def test_later_sessions_have_the_lengths_of_scipys_distribution(table, length):
    lengths, online = drawn_lengths(make_model(**table, online=0.6), 250)
    assert not np.isnan(lengths).any(), "every node has begun a second session"
    assert stats.kstest(lengths[online], length.cdf).pvalue > ALPHA
    # Offline sessions are as much longer as the share online asks for.
    assert stats.kstest(lengths[~online] * 0.6 / 0.4, length.cdf).pvalue > ALPHA


@pytest.mark.parametrize(("table", "length"), SESSIONS)
def test_a_session_lasts_from_the_cycle_it_begins_to_the_one_in_which_it_ends(table, length):
    model = make_model(nodes=200, **table, online=0.7)
    model.step(1)
    at_first, end = model.up.copy(), model.end.copy()
    for cycle in range(2, 100):
        before = model.up.copy()
        model.step(cycle)
        assert (model.end > cycle).all()
        assert np.array_equal(model.up[end > cycle], before[end > cycle])
        assert np.array_equal(model.up != at_first, model.session % 2 == 1)
        end = model.end.copy()


HEAVY = [
    pytest.param({"kind": "lognormal", "mu": 1.0, "sigma": 2.0}, stats.lognorm(s=2, scale=np.e), id="lognormal"),
    pytest.param({"kind": "weibull", "shape": 0.4, "scale": 3.0}, stats.weibull_min(c=0.4, scale=3), id="weibull"),
]


@pytest.mark.parametrize(("table", "length"), [*SESSIONS, *HEAVY])
def test_lengths_are_scipys_quantiles_and_met_ones_are_weighted_by_length(table, length):
    model = make_model(nodes=1, **table, online=0.5)
    u = (np.arange(2000) + 0.5) / 2000
    assert np.allclose(np.sort(model.length(u, False)), length.ppf(u), rtol=1e-9)
    met = np.sort(model.length(u, True))
    # The share of all time that is spent in sessions no longer than these is u: ∫₀ˣ t·f(t) dt / mean.
    for place in (100, 1000, 1800):
        below = length.expect(lambda t: t, lb=0, ub=met[place], conditional=False) / length.mean()
        assert below == pytest.approx(u[place], rel=1e-5)


def test_sessions_shorter_than_a_cycle_still_give_the_share_online():
    up = history(make_model(kind="lognormal", mu=-1.5, sigma=0.5, online=0.7), 20)
    assert stats.binomtest(int(up[-1].sum()), NODES, 0.7).pvalue > ALPHA
    changes = (up[1:] != up[:-1]).mean()
    assert abs(changes - 2 * 0.7 * 0.3) < 0.02  # what is seen in one cycle says next to nothing about the next


@pytest.mark.parametrize("table", [LOGNORMAL, WEIBULL])
def test_with_all_online_there_are_no_sessions(table):
    assert history(make_model(nodes=20, **table, online=1), 30).all()


@pytest.mark.parametrize("cycle", [1, 8])
def test_sessions_of_fixed_length_alternate_regularly(cycle):
    model = make_model(nodes=300, kind="lognormal", mu=float(np.log(4)), sigma=0, online=0.5, **{"from": cycle})
    up = history(model, cycle + 40)
    assert up[: cycle - 1].all()
    window = up[cycle - 1 :]
    assert np.array_equal(window[8:], window[:-8])  # 4 cycles up, 4 down
    assert (window[:8].sum(axis=0) == 4).all()


def test_sessions_that_are_far_too_short_are_refused():
    with pytest.raises(UserError):
        make_model(nodes=2, kind="lognormal", mu=-40.0, sigma=0.0, online=0.5)


# ------------------------------------------------------------------------------------------------ rates


def test_rates_are_probabilities_per_cycle():
    up = history(make_model(kind="rate", leave=0.05, rejoin=0.2), 40)
    assert stats.binomtest(int(up[0].sum()), NODES, 0.8).pvalue > ALPHA
    was, now = up[:-1], up[1:]
    assert stats.binomtest(int((was & ~now).sum()), int(was.sum()), 0.05).pvalue > ALPHA
    assert stats.binomtest(int((~was & now).sum()), int((~was).sum()), 0.2).pvalue > ALPHA


def test_stays_under_a_rate_have_geometric_lengths():
    up = history(make_model(kind="rate", leave=0.3, rejoin=0.3), 60)
    first_leave = (~up[:, up[0]]).argmax(axis=0)  # cycles after the first, which all of these are up in
    lengths = np.minimum(first_leave[first_leave > 0], 8)
    expected = np.array([stats.geom.pmf(k, 0.3) for k in range(1, 8)] + [stats.geom.sf(7, 0.3)]) * lengths.size
    assert stats.chisquare(np.bincount(lengths, minlength=9)[1:], expected).pvalue > ALPHA


def test_the_share_online_at_first_may_be_given():
    up = history(make_model(kind="rate", leave=0.05, rejoin=0.2, online=0.3), 1)
    assert stats.binomtest(int(up.sum()), NODES, 0.3).pvalue > ALPHA


def test_without_leaving_or_returning_everybody_stays():
    assert history(make_model(nodes=50, kind="rate", leave=0, rejoin=0), 10).all()


# ------------------------------------------------------------------------------------------------ size of the network


@given(
    st.integers(1, 200), st.floats(0, 1), st.floats(0, 1), st.integers(2, 30), st.integers(1, 6), st.integers(0, 1000)
)
def test_an_oscillating_network_follows_the_cosine_exactly(nodes, one, other, period, start, seed):
    low, high = sorted([one, other])
    table = {"kind": "oscillating", "low": low, "high": high, "period": period, "from": start}
    up = history(make_model(nodes=nodes, seed=seed, **table), start + 2 * period)
    assert up[: start - 1].all()
    for cycle in range(start, len(up) + 1):
        level = low + (high - low) * (1 + np.cos(2 * np.pi * (cycle - start) / period)) / 2
        assert abs(up[cycle - 1].sum() - level * nodes) <= 0.5 + 1e-9


def test_while_the_network_shrinks_nobody_comes_and_while_it_grows_nobody_leaves():
    up = history(make_model(nodes=400, kind="oscillating", low=0.2, high=0.9, period=20), 41)
    for was, now in pairwise(up):
        assert not ((was & ~now).any() and (~was & now).any())
    assert len({tuple(row) for row in up[[10, 30]].tolist()}) == 2  # other nodes are left at the next low


@pytest.mark.parametrize(
    ("size", "dead"),
    [({"share": 0.5}, 50), ({"share": 0.333}, 33), ({"number": 7}, 7), ({"number": 500}, 100), ({"share": 0}, 0)],
)
def test_a_crash_takes_its_number_of_nodes_for_ever(size, dead):
    up = history(make_model(nodes=100, kind="crash", at=4, **size), 30)
    assert up[:3].all()
    assert (~up[3:]).sum(axis=1).tolist() == [dead] * 27
    assert (up[3:] == up[3]).all()


def test_who_crashes_depends_on_the_seed():
    up = [history(make_model(nodes=100, seed=seed, kind="crash", at=1, share=0.5), 1)[0] for seed in (1, 1, 2)]
    assert np.array_equal(up[0], up[1])
    assert not np.array_equal(up[0], up[2])


@given(st.integers(1, 60), st.integers(0, 80), st.integers(1, 9), st.integers(0, 40))
def test_joining_nodes_come_evenly_over_the_window_and_stay(nodes, number, start, more):
    model = make_model(nodes=nodes, kind="join", number=number, until=start + more, **{"from": start})
    up = history(model, start + more + 3)
    late = min(nodes, number)
    coming = np.diff(up.sum(axis=1))
    assert (coming >= 0).all()
    assert up[start + more - 1 :].all(), "nobody joins after the window"
    if start > 1:
        assert (up[: start - 1].sum(axis=1) == nodes - late).all(), "nobody joins before the window"
        in_window = coming[start - 2 : start + more - 1]
        assert in_window.sum() == late
        assert in_window.max() - in_window.min() <= 1


def test_the_last_node_joins_in_the_last_cycle_of_the_window():
    up = history(make_model(nodes=5, kind="join", number=3, until=10), 12)
    assert (~up).any(axis=1).nonzero()[0].max() + 1 == 9


def test_the_world_counts_nodes_that_will_join():
    run = finished(tree(VIEWS, nodes=20, cycles=10, churn={"kind": "join", "number": 8, "from": 3, "until": 6}))
    assert run.world.nodes == 20
    assert [v for n, v in zip(run.log.names, run.log.values, strict=True) if n == ("world", "online")] == [
        12, 12, 14, 16, 18, 20, 20, 20, 20, 20,
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ windows, several

WINDOWED = [
    {"kind": "rate", "leave": 0.4, "rejoin": 0.3},
    {"kind": "oscillating", "low": 0.1, "high": 0.6, "period": 6},
    LOGNORMAL | {"online": 0.5},
    WEIBULL | {"online": 0.5},
    {"kind": "diurnal", "online": 0.5, "amplitude": 0.2, "period": 12, "session": 3.0},
    {"kind": "replacement", "online": 0.5, "mu": 0.5, "sigma": 0.8},
]


@pytest.mark.parametrize("table", WINDOWED, ids=lambda table: table["kind"])
def test_outside_its_window_a_model_has_all_nodes_up(table):
    up = history(make_model(nodes=200, **table, **{"from": 5, "until": 9}), 15)
    assert up[:4].all()
    assert not up[4:9].all(axis=1).any()
    assert up[9:].all()


def test_outside_its_window_no_node_begins_another_session_at_once():
    made, renewed = make_model(nodes=200, **WINDOWED[-1], **{"from": 5, "until": 9}), []
    for cycle in range(1, 15):
        made.step(cycle)
        renewed.append(made.renewed.size > 0)
    assert renewed == [6 <= cycle <= 9 for cycle in range(1, 15)]


@pytest.mark.parametrize("table", WINDOWED, ids=lambda table: table["kind"])
def test_a_model_that_begins_later_does_then_what_it_would_have_done_at_first(table):
    late = history(make_model(nodes=300, **table, **{"from": 4}), 10)
    assert late[:3].all()
    assert 0.2 < late[3].mean() < 0.8


def test_a_window_that_ends_before_it_begins_is_refused():
    with pytest.raises(UserError, match="“until” \\(3\\) lies before “from” \\(5\\)"):
        config(kind="rate", leave=0.1, rejoin=0.1, until=3, **{"from": 5})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "crash", "at": 3}, "either “share” or “number”"),
        ({"kind": "crash", "at": 3, "share": 0.1, "number": 1}, "either “share” or “number”"),
        ({"kind": "join", "until": 3}, "either “share” or “number”"),
        ({"kind": "oscillating", "low": 0.5, "high": 0.4, "period": 4}, "“low” \\(0.5\\) is above “high” \\(0.4\\)"),
        ({"kind": "lognormal", "mu": 1.0, "sigma": 1.0, "online": 0.0}, "online"),
        ({"kind": "weibul", "shape": 1.0, "scale": 1.0, "online": 0.5}, "weibull"),
    ],
)
def test_an_impossible_model_is_refused(table, message):
    with pytest.raises(UserError, match=message):
        config(**table)


def test_a_crash_outside_its_window_is_refused():
    with pytest.raises(UserError):
        config(kind="crash", at=3, share=0.5, **{"from": 5})


def test_a_node_is_online_when_all_models_have_it_up():
    tables = [config(kind="rate", leave=0.3, rejoin=0.3), config(kind="crash", at=3, share=0.3)]
    world = make_world(100, churn=tables)
    for _ in range(8):
        world.advance()
        one, other = world.churn
        assert np.array_equal(world.online, one.up & other.up)
    alone = make_world(100, churn=tables[:1])
    for _ in range(8):
        alone.advance()
    assert np.array_equal(alone.churn[0].up, world.churn[0].up), "another model changes no number of the first"


def test_the_world_knows_who_came_and_who_came_first():
    world = make_world(200, churn=[config(kind="rate", leave=0.4, rejoin=0.3)])
    before, ever = np.zeros(200, bool), np.zeros(200, bool)
    for _ in range(12):
        world.advance()
        came = np.flatnonzero(world.online & ~before)
        assert world.came.tolist() == came.tolist()
        assert world.first.tolist() == came[~ever[came]].tolist()
        assert world.fresh.tolist() == world.first.tolist()
        before, ever = world.online.copy(), ever | world.online
        assert np.array_equal(world.seen, ever)


# ------------------------------------------------------------------------------------------------ coming back


def two_steps(back):
    """Golf over Newscast under churn: in each cycle the world, both layers, what was before, and who was started."""
    table = {"kind": "rate", "leave": 0.4, "rejoin": 0.3, "return": back}
    run = simulation(learning_tree(VIEWS, GOLF | {"variant": "mu", "cache": 3}, number=60, cycles=12, churn=table))
    golf, peers = run.layers["learning"], run.layers["peers"]
    started = []
    original = golf.start
    golf.start = lambda world, nodes: (started.append(nodes.tolist()), original(world, nodes))
    for _ in range(12):
        w, views, seen = golf.w.copy(), peers.views.copy(), run.world.seen.copy()
        started.clear()
        run.step()
        yield run.world, golf, peers, w, views, seen, [node for nodes in started for node in nodes]


def test_a_returning_node_keeps_its_model_and_its_view():
    returned = 0
    for world, _, _, _, _, seen, started in two_steps("keep"):
        back = world.came[seen[world.came]]
        assert not set(back) & set(started)
        assert sorted(started) == sorted(world.first.tolist())
        returned += back.size
    assert returned > 20


def test_a_node_that_returns_afresh_is_started_again():
    returned = 0
    for world, _, _, _, _, seen, started in two_steps("afresh"):
        assert sorted(started) == world.came.tolist()
        returned += seen[world.came].sum()
    assert returned > 20


@pytest.mark.parametrize("back", ["keep", "afresh"])
def test_nobody_touches_what_an_offline_node_holds(back):
    for world, golf, peers, w, views, seen, _ in two_steps(back):
        away = ~world.online & seen
        assert np.array_equal(golf.w[away], w[away])
        assert np.array_equal(peers.views[away], views[away])


def test_starting_afresh_resets_model_age_memory_and_view():
    run = simulation(learning_tree(VIEWS, GOLF | {"variant": "um", "cache": 2}, number=30, cycles=9))
    for _ in range(8):
        run.step()
    golf, peers = run.layers["learning"], run.layers["peers"]
    nodes, others = np.array([3, 8], np.int32), np.setdiff1d(np.arange(30), [3, 8])
    before = {name: array.copy() for name, array in golf.state().items()}
    for layer in (golf, peers):
        layer.start(run.world, nodes)
    for name, array in golf.state().items():
        if name.startswith(("old", "lam", "offset", "ledger")):  # not a node's, or never reset
            continue
        assert (array[nodes] == (1 if name == "cached" else 0)).all(), name
        assert np.array_equal(array[others], before[name][others]), name
    assert (peers.views[nodes, 1:] == -1).all()
    assert (peers.views[nodes, 0] >> 32 == run.world.cycle - 1).all()


def test_who_joins_or_starts_afresh_knows_one_live_contact():
    world = at_cycle(make_world(40), 5, online=np.arange(40) < 20)
    layer = make_layer(Newscast, world, view=6)
    layer.start(world, np.array([17, 18, 19], np.int32))
    contact = layer.views[[17, 18, 19], 0] & PEER
    assert (contact < 17).all(), "a node that was there before, and is online"
    assert (layer.views[[17, 18, 19], 1:] == -1).all()


def test_who_comes_back_to_nobody_it_knows_exchanges_views_with_a_live_node():
    world = at_cycle(make_world(30), 5, online=np.arange(30) < 20)
    layer = make_layer(Newscast, world, view=6, liveness="oracle")
    layer.start(world, world.order)
    layer.views[19] = -1
    layer.views[19, :2] = (np.int64(2) << 32) | np.array([25, 28])  # both offline
    world.since[19] = world.last_came = 5
    world.order = np.empty(0, np.int32)  # nobody acts, to see the meeting alone
    layer.step(world)
    contact = int(layer.views[19, 0] & PEER)
    assert world.online[contact]
    assert layer.views[19, 0] >> 32 == 5
    assert (layer.views[contact] & PEER)[0] == 19
    assert world.transport.totals("layer")["messages.delivered"] == 2


def test_a_node_returns_afresh_also_when_another_model_kept_it_away_longer(tmp_path):
    (tmp_path / "short.csv").write_text("node,from,until\n0,1,9\n1,1,3\n1,5,9\n")
    (tmp_path / "long.csv").write_text("node,from,until\n0,1,9\n1,1,3\n1,7,9\n")
    short = config(kind="trace", file="short.csv", **{"return": "afresh"})
    long = config(kind="trace", file="long.csv")
    world = make_world(2, churn=[short, long], folder=tmp_path)
    for _ in range(7):
        world.advance()
    assert world.label[world.came].tolist() == [1]
    assert world.label[world.fresh].tolist() == [1]


def test_who_comes_back_between_two_turns_of_newscast_also_finds_a_contact(tmp_path):
    # Node 0 knows only nodes 1 and 2, which are gone when it comes back in cycle 6; Newscast acts in odd cycles.
    lines = ["0,1,2", "0,6,99", "1,1,4", "2,1,4", *[f"{node},5,99" for node in range(3, 10)]]
    (tmp_path / "trace.csv").write_text("node,from,until\n" + "\n".join(lines))
    table = tree(VIEWS | {"every": 2}, nodes=10, cycles=20, churn={"kind": "trace", "file": "trace.csv"})
    scenario = Scenario.of(table, tmp_path)
    run = Simulation(scenario)
    for _ in run:
        pass
    zero = int(np.flatnonzero(run.world.label == 0)[0])
    known = run.layers["peers"].views[zero]
    assert run.world.online[known[known >= 0] & PEER].any()


# ------------------------------------------------------------------------------------------------ traces


def trace_file(tmp_path, *lines, name="trace.csv"):
    (tmp_path / name).write_text("\n".join(["node,from,until", *lines]) + "\n")
    return name


def test_a_node_is_online_from_its_first_cycle_to_the_one_before_the_last(tmp_path):
    file = trace_file(tmp_path, "0,2,5", "1,1,3", "1,4,6", "2,1,1", "3,2.5,4.5", "4,-3,2")
    up = history(make_model(nodes=5, folder=tmp_path, kind="trace", file=file), 6)
    online = [np.flatnonzero(column) + 1 for column in up.T]
    assert [cycles.tolist() for cycles in online] == [[2, 3, 4], [1, 2, 4, 5], [], [3, 4], [1]]


def test_intervals_that_overlap_or_touch_count_once(tmp_path):
    file = trace_file(tmp_path, "0,1,5", "0,3,7", "0,7,9", "0,2,3")
    up = history(make_model(nodes=1, folder=tmp_path, kind="trace", file=file), 10)
    assert (np.flatnonzero(up) + 1).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_seconds_become_cycles_of_the_given_length(tmp_path):
    # Cycle c is the moment (c − 1) · 10 s.
    file = trace_file(tmp_path, "0,0,20", "1,10,11", "2,11,30", "3,0.5,9.5")
    up = history(make_model(nodes=4, folder=tmp_path, kind="trace", file=file, cycle_seconds=10.0), 5)
    assert [(np.flatnonzero(column) + 1).tolist() for column in up.T] == [[1, 2], [2], [3], []]


def test_a_trace_follows_the_users_numbers_in_the_order_of_names(tmp_path):
    names = ["9", "10", "2", "33"]  # as numbers: 2, 9, 10, 33
    file = trace_file(tmp_path, *[f"{name},{place + 1},{place + 2}" for place, name in enumerate(names)])
    world = make_world(4, churn=[config(kind="trace", file=file)], folder=tmp_path)
    online = {}
    for cycle in range(1, 5):
        world.advance()
        online[cycle] = world.label[world.online].tolist()
    assert online == {1: [1], 2: [2], 3: [0], 4: [3]}


def test_names_that_are_no_numbers_are_sorted_as_text(tmp_path):
    file = trace_file(tmp_path, "b10,1,2", "b9,2,3", "a,3,4")
    up = history(make_model(nodes=3, folder=tmp_path, kind="trace", file=file), 3)
    assert up.argmax(axis=1).tolist() == [1, 2, 0]


def test_repeat_uses_the_traces_nodes_in_turn(tmp_path):
    file = trace_file(tmp_path, "0,1,2", "1,2,3", "2,3,4")
    up = history(make_model(nodes=8, folder=tmp_path, kind="trace", file=file, assign="repeat"), 3)
    assert [np.flatnonzero(row).tolist() for row in up] == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_sample_gives_each_node_a_random_one_of_the_traces(tmp_path):
    file = trace_file(tmp_path, "0,1,2", "1,2,3", "2,3,4", "3,4,5")
    model = make_model(folder=tmp_path, kind="trace", file=file, assign="sample")
    counts = history(model, 4).sum(axis=1)
    assert counts.sum() == NODES
    assert stats.chisquare(counts).pvalue > ALPHA


def test_exact_refuses_a_trace_that_is_too_short(tmp_path):
    file = trace_file(tmp_path, "0,1,2", "1,2,3")
    with pytest.raises(UserError, match=r"trace.csv has 2 nodes, the network has 3") as error:
        make_model(nodes=3, folder=tmp_path, kind="trace", file=file)
    assert error.value.key == "churn.0.assign"
    assert "repeat" in error.value.hint


def test_exact_leaves_the_rest_of_a_longer_trace_unused(tmp_path):
    file = trace_file(tmp_path, "0,1,2", "1,2,3", "2,1,9")
    up = history(make_model(nodes=2, folder=tmp_path, kind="trace", file=file), 3)
    assert up.tolist() == [[True, False], [False, True], [False, False]]


def test_columns_may_stand_in_any_order_among_others(tmp_path):
    (tmp_path / "trace.csv").write_text("until, comment, node, from\n3, x, 0, 2\n")
    up = history(make_model(nodes=1, folder=tmp_path, kind="trace", file="trace.csv"), 3)
    assert up.ravel().tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the columns node, from, until"),
        ("node,begin,end\n0,1,2\n", "expected the columns node, from, until"),
        ("node,from,until\n", "no interval"),
        ("node,from,until\n0,1,2\n1,one,2\n", r"trace.csv:3: expected numbers in the columns from and until"),
        ("node,from,until\n0,1,2\n1,3\n", r"trace.csv:3: expected numbers in the columns from and until"),
        ("node,from,until\n0,3,2\n", r"trace.csv:2: expected from ≤ until; got 3.0 and 2.0"),
        ("node,from,until\n0,1,inf\n", r"trace.csv:2: expected from ≤ until"),
        ("node,from,until\n0,nan,2\n", r"trace.csv:2: expected from ≤ until"),
    ],
)
def test_a_bad_trace_is_refused_with_its_file_and_line(tmp_path, text, message):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(UserError, match=message) as error:
        make_model(nodes=1, folder=tmp_path, kind="trace", file="trace.csv")
    assert error.value.key == "churn.0.file"


def test_a_missing_or_binary_trace_file_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"none.csv: No such file"):
        make_model(nodes=1, folder=tmp_path, kind="trace", file="none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"node,from,until\n\xff\xfe,1,2\n")
    with pytest.raises(UserError, match=r"bytes.csv: not a CSV file"):
        make_model(nodes=1, folder=tmp_path, kind="trace", file="bytes.csv")


def test_an_error_in_a_trace_names_the_scenarios_line_too(tmp_path):
    trace_file(tmp_path, "0,9,2")
    (tmp_path / "scenario.toml").write_text(
        'name = "x"\nseed = 1\ncycles = 2\n[nodes]\nnumber = 1\n[[protocol]]\nname = "p"\nuse = "uniform"\n'
        '[churn]\nkind = "trace"\nfile = "trace.csv"\n'
    )
    with pytest.raises(UserError, match=r"scenario.toml:11: churn.*trace.csv:2: expected from ≤ until"):
        run_scenario(Scenario.load(tmp_path / "scenario.toml"))


CHURN = [
    {"kind": "rate", "leave": 0.3, "rejoin": 0.3},
    {"kind": "oscillating", "low": 0.1, "high": 0.9, "period": 7},
    LOGNORMAL | {"mu": 1.0, "online": 0.5},
    {"kind": "diurnal", "online": 0.5, "amplitude": 0.4, "period": 6, "session": 2.0},
]


@pytest.mark.parametrize("table", CHURN, ids=lambda table: table["kind"])
@pytest.mark.parametrize("order", ["fixed", "shuffled"])
def test_a_recorded_run_can_be_played_again(tmp_path, table, order):
    recorder, online = churn.Recorder(), []
    run = simulation(tree(VIEWS, nodes=25, cycles=30, order=order, churn=table))
    for _ in run:
        recorder.note(run.world)
        online.append(run.world.label[run.world.online])
    assert np.unique(np.concatenate(online)).size == 25, "each node was online at some time"
    recorder.write(tmp_path / "again.csv", run.world.cycle)
    world = make_world(25, seed=77, churn=[config(kind="trace", file="again.csv")], folder=tmp_path)
    for before in online:
        world.advance()
        assert sorted(world.label[world.online]) == sorted(before)
    world.advance()
    assert not world.online.any()


def test_a_recorded_run_in_which_a_node_never_came_can_be_played_again(tmp_path):
    file = trace_file(tmp_path, "0,1,3", "1,9,9", "2,2,4")
    recorder = churn.Recorder()
    world = make_world(3, churn=[config(kind="trace", file=file)], folder=tmp_path)
    for _ in range(5):
        world.advance()
        recorder.note(world)
    recorder.write(tmp_path / "again.csv", 5)
    up = history(make_model(nodes=3, folder=tmp_path, kind="trace", file="again.csv"), 5)
    assert up.T.tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 1, 0, 0]]


@needs_jit
def test_a_large_network_joins_through_its_contacts_and_becomes_one():
    churned = {"kind": "join", "share": 0.9, "from": 5, "until": 20}
    run = finished(tree(VIEWS | {"view": 20}, nodes=2000, cycles=30, churn=churned, observe={"overlay": 30}))
    assert run.latest["peers"]["components"] == 1
    assert run.latest["peers"]["degree.min"] >= 10
