"""Noisy gradients and walks: against the references, and what loss, churn and empty budgets do to them."""

import math

import naive
import numpy as np
import pytest
from helpers import (
    ALPHA,
    HERE,
    GivenPeers,
    at_cycle,
    finished,
    make_layer,
    make_raw,
    make_world,
    p_of_chi_square,
    rule_of,
    simulation,
    tree,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from golfsim.core.errors import UserError
from golfsim.learning.updates import Noise, learn, learn_in_place, update
from golfsim.privacy.ledger import HALVING, HALVING_SQUARES, UNIFORM, UNIFORM_SQUARES, Budget
from golfsim.privacy.noise import GAMMA_NORM, GAUSSIAN, LAPLACE
from golfsim.protocol.records import Rows
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.testing import rows
from protocols.golf import Golf
from protocols.gradient_perturbation import GradientPerturbation
from protocols.random_walk import RandomWalk

PEERS = {"name": "peers", "use": "uniform"}
RING = {"name": "peers", "use": "static_overlay", "neighbours": 4}
WALK = {"name": "walk", "use": "random_walk", "peers": "peers", "records": "raw"}
NOISY = {"name": "walk", "use": "gradient_perturbation", "peers": "peers", "records": "raw", "epsilon": 4.0}
DATA = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
TOUR = {"path": "tour", "hops": "all"}
KINDS = {"l1": LAPLACE, "l2": GAMMA_NORM, "gaussian": GAUSSIAN}
FEATURES, LAM = 3, 0.1


def walk_tree(layer, peers=PEERS, **tables):
    return tree(peers, layer, **({"data": DATA, "nodes": {"records": 2}} | tables))


# The kernel


class Case:
    """A model, three nodes' records of length 1, and a budget. Node 1 is the one that learns."""

    def __init__(self, seed, models, records, norm, per_record, schedule, visits, epsilon):
        rng = np.random.default_rng(seed)
        counts = np.array([2, records, 1])
        stop = np.cumsum(counts)
        x = rng.random((stop[-1], FEATURES))
        x /= x.sum(axis=1, keepdims=True) if norm == "l1" else np.linalg.norm(x, axis=1, keepdims=True)
        label = rng.integers(0, max(models, 2), stop[-1]).astype(np.int32)
        self.rows = Rows(x.astype(np.float32), label, stop - counts, stop, False)
        self.w = rng.normal(size=(models, FEATURES)).astype(np.float32)
        self.mine = range(stop[0], stop[1])
        self.norm, self.per_record, self.schedule, self.epsilon = norm, per_record, schedule, epsilon
        self.noise = Noise(True, KINDS[norm], per_record, np.uint64(99))
        halving = schedule[0] == "halving"
        kind = (
            (HALVING_SQUARES if halving else UNIFORM_SQUARES) if norm == "gaussian" else HALVING if halving else UNIFORM
        )
        allowed = 1000 if halving else schedule[1]
        self.budget = Budget(kind, allowed, epsilon, np.array(visits, np.int32)[: stop[-1]].copy())

    def run(self, rule, age):
        out = np.full_like(self.w, np.nan)
        return out, learn(self.w, 0, np.int32(age), self.rows, 1, rule, self.noise, self.budget, out)

    def run_in_place(self, rule, age):
        """The same for the second of three models in one array; the others stay as they are."""
        w, models = np.concatenate([self.w + 1, self.w, self.w + 2]), len(self.w)
        room = np.full_like(self.w, np.nan)
        new_age = learn_in_place(w, models, np.int32(age), self.rows, 1, rule, self.noise, self.budget, room)
        assert (w[:models] == self.w + 1).all()
        assert (w[2 * models :] == self.w + 2).all()
        return w[models : 2 * models], new_age

    def reference(self, learner, age):
        """(models, age, visits) afterwards, by the naive update with noise of the same draws."""
        gaussian = self.norm == "gaussian"  # visits and problems share the square of μ
        ledger = (naive.SquaredLedger if gaussian else naive.Ledger)(
            self.schedule, 1 if math.isinf(self.epsilon) else self.epsilon, 0
        )
        ledger.visits = self.budget.visits.tolist()
        model, models, k = (self.w.astype(np.float64), age), len(self.w), len(self.mine)
        charged = self.mine if self.per_record or not self.mine else [1]  # the unit: each record, or node 1
        epsilon = ledger.visit(charged)
        if epsilon is None:
            return *model, ledger.visits
        unit = "record" if self.per_record else "node"
        scale = (
            0
            if math.isinf(self.epsilon)
            else naive.noise_scale(epsilon, math.sqrt(models) if gaussian else models, k, unit)
        )
        first = charged[0]
        noise = [
            naive.NOISE[self.norm](99, ledger.visits[first], first, m * 3 * FEATURES, FEATURES, scale)
            for m in range(models)
        ]
        x, label = self.rows.x[self.mine].astype(np.float64), self.rows.label[self.mine]
        return *naive.noisy_update(model, x, label, LAM, learner, noise), ledger.visits

    def margins(self):
        signs = np.array([naive.signs(label, len(self.w)) for label in self.rows.label])
        return (self.rows.x @ self.w.T) * signs


@pytest.mark.parametrize("norm", ["l1", "l2", "gaussian"])
@pytest.mark.parametrize("learner", naive.OF_THE_PAPERS)
@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    models=st.sampled_from([1, 3]),
    records=st.integers(0, 5),
    per_record=st.booleans(),
    schedule=st.sampled_from([("uniform", 1), ("uniform", 3), ("halving",)]),
    visits=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    epsilon=st.sampled_from([math.inf, 5.0]),
    age=st.sampled_from([0, 1, 30]),
    in_place=st.booleans(),
)
def test_a_noisy_update_is_that_of_the_reference(
    norm, learner, seed, models, records, per_record, schedule, visits, epsilon, age, in_place
):
    case = Case(seed, models, records, norm, per_record, schedule, visits, epsilon)
    assume(learner != "pegasos" or np.abs(case.margins() - 1).min() > 1e-4)
    ref, ref_age, ref_visits = case.reference(learner, age)
    run = case.run_in_place if in_place else case.run
    comp, comp_age = run(rule_of(learner, LAM, False), age)
    assert comp_age == ref_age
    assert case.budget.visits.tolist() == ref_visits
    assert np.allclose(comp, ref, rtol=1e-4, atol=1e-4 * (1 + np.abs(ref).max()))


@pytest.mark.parametrize("learner", naive.OF_THE_PAPERS)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_an_infinite_epsilon_is_the_update_without_noise_bit_for_bit(learner, norm):
    case = Case(3, 3, 4, norm, True, ("uniform", 2), [0] * 8, math.inf)
    rule, plain = rule_of(learner, LAM, False), np.empty_like(case.w)
    comp, age = case.run(rule, 5)
    assert update(case.w, 0, np.int32(5), case.rows, 1, rule, plain) == age
    assert comp.tobytes() == plain.tobytes()


def test_a_node_with_nothing_left_passes_the_model_on_unchanged_and_is_charged_nothing():
    case = Case(4, 1, 3, "l1", True, ("uniform", 2), [0, 0, 1, 2, 0, 0, 0, 0], 1.0)
    out, age = case.run(rule_of("logistic", LAM, False), 7)
    assert age == 7
    assert out.tobytes() == case.w.tobytes()
    assert case.budget.visits.tolist() == [0, 0, 1, 2, 0, 0]


def test_the_noise_of_another_visit_is_other_noise():
    first, second = (Case(5, 1, 2, "l1", True, ("uniform", 9), [v] * 8, 1.0) for v in (0, 1))
    rule = rule_of("logistic", LAM, False)
    a, b = first.run(rule, 1)[0], second.run(rule, 1)[0]
    assert (np.abs(a - b) > 1e-3).all()


# A whole run against the reference


def some_graph(rng, nodes):
    """Directed links: a ring, and some more."""
    there = (rng.random((nodes, nodes)) < 0.2) & ~np.eye(nodes, dtype=bool)
    there |= np.roll(np.eye(nodes, dtype=bool), 1, axis=1)
    return csr_array(there)


class GivenLinks(GivenPeers):
    """An overlay whose links the test names; None: everybody knows everybody."""

    def links(self, world):
        return self._links


def build(protocol, raw, links, loss=0.0, partition=(), **keys):
    world = make_world(raw.capacity().size, layers=["walk"], loss=loss, partition=tuple(partition))
    peers = make_layer(GivenLinks, world, "peers")
    peers._links = links
    return world, make_layer(protocol, world, "walk", peers=peers, records=raw, **{"lambda": LAM} | keys)


def unit_records(rng, counts, classes):
    parts = [(rng.random((n, FEATURES)) + 0.01, rng.integers(0, classes, n)) for n in counts]
    return [(x / x.sum(axis=1, keepdims=True), label) for x, label in parts]


@pytest.mark.parametrize("everybody", [True, False], ids=["everybody", "a graph"])
@pytest.mark.parametrize("restart", ["never", "afresh"])
@pytest.mark.parametrize(("walkers", "hops"), [(1, 1), (3, 1), (3, 4)])
@pytest.mark.parametrize("schedule", [("uniform", 2), ("halving",)])
def test_noisy_walks_are_those_of_the_reference(rng, everybody, restart, walkers, hops, schedule):
    nodes, cycles, loss = 9, 18, 0.1 if restart == "afresh" else 0.01
    records = unit_records(rng, [1, 2, 0, 1, 3, 1, 1, 2, 1], 3)
    raw, first = make_raw(records, 3), np.cumsum([0, 1, 2, 0, 1, 3, 1, 1, 2, 1])
    graph = some_graph(rng, nodes)
    neighbours = [
        [j for j in range(nodes) if j != i] if everybody else graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        for i in range(nodes)
    ]
    keys = {"kind": "halving"} if schedule[0] == "halving" else {"kind": "uniform", "visits": schedule[1]}
    world, layer = build(
        GradientPerturbation, raw, None if everybody else graph, loss, epsilon=9.0, learner="logistic",
        schedule=keys, walkers=walkers, hops=hops, restart=restart,
    )  # fmt: skip
    key = {purpose: naive.key(1, "walk", purpose) for purpose in ("hop", "start", "noise")}
    at, begun = [None] * walkers, [False] * walkers
    models = [(np.zeros((3, FEATURES)), 0)] * walkers
    ledger, passed, sent, lost = naive.Ledger(schedule, 9.0, first[-1]), [0, 0], 0, 0
    for cycle in range(1, cycles + 1):
        online = rng.random(nodes) < 0.9
        with np.errstate(over="ignore"):  # exp of a huge margin: infinite, as it should be
            layer.step(at_cycle(world, cycle, online))
        pool, paths = np.flatnonzero(online), []
        for walker in range(walkers):
            if not begun[walker] or (restart == "afresh" and at[walker] is None):
                u = naive.uniform(naive.draw(key["start"], cycle, walker, 0))
                at[walker], begun[walker] = int(pool[int(u * len(pool))]), True
                models[walker] = (np.zeros((3, FEATURES)), 0)
            alive, before = at[walker] is not None, at[walker]
            path, at[walker] = naive.walk(before, neighbours, online, key["hop"], cycle, walker, hops, loss)
            paths.append(path)
            lost += alive and at[walker] is None
            sent += len(path) + (alive and at[walker] is None)
        for hop in range(hops):
            for walker, path in enumerate(paths):
                if hop < len(path):
                    node = path[hop]
                    mine = range(first[node], first[node + 1])
                    epsilon = ledger.visit(mine)
                    passed[epsilon is None] += 1
                    if epsilon is not None:
                        scale = naive.noise_scale(epsilon, 3, len(mine), "record")
                        noise = [
                            naive.laplace_noise(
                                key["noise"], ledger.visits[mine[0]], mine[0], m * 3 * FEATURES, FEATURES, scale
                            )
                            for m in range(3)
                        ]
                        models[walker] = naive.noisy_update(models[walker], *records[node], LAM, "logistic", noise)
        assert layer.at.tolist() == [-1 if place is None else place for place in at]
        assert layer.ledger.visits.tolist() == ledger.visits
        assert layer.age.tolist() == [age for _, age in models]
        for walker, (weights, _) in enumerate(models):
            assert layer.w[walker] == pytest.approx(weights, rel=1e-3, abs=1e-3 * (1 + np.abs(weights).max()))
    assert layer.visits.tolist() == passed
    totals = world.transport.totals("walk")
    assert (totals["messages.sent"], totals["messages.lost"]) == (sent, lost)
    assert passed[0] > 3


@pytest.mark.parametrize("peers", [PEERS, RING], ids=["everybody", "a graph"])
@pytest.mark.parametrize("keys", [{}, TOUR, {"walkers": 5, "hops": 7}], ids=["one step", "tour", "five walkers"])
@pytest.mark.parametrize("classes", [2, 7])
def test_an_infinite_epsilon_walks_and_learns_as_without_noise_bit_for_bit(peers, keys, classes):
    data = DATA if classes == 2 else DATA | {"set": "segmentation", "bounds": "train"}
    tables = {"data": data, "cycles": 10, "churn": {"kind": "rate", "leave": 0.1, "rejoin": 0.5}}
    loose = {"epsilon": math.inf, "schedule": {"kind": "uniform", "visits": 10**6}}
    noisy, plain = (finished(walk_tree(layer | keys, peers, **tables)) for layer in (NOISY | loose, WALK))
    assert noisy.layer("walk").w.any()
    assert noisy.layer("walk").w.tobytes() == plain.layer("walk").w.tobytes()
    assert [row for row in rows(noisy) if not row[1][1].startswith("spent")] == rows(plain)


def test_an_infinite_epsilon_makes_golf_learn_as_without_noise_bit_for_bit():
    golf = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
    loose = {"epsilon": math.inf, "schedule": {"kind": "uniform", "visits": 10**6}}
    for variant in ("algorithm1", "rw", "mu", "um"):
        noisy, plain = (
            finished(walk_tree(golf | keys | {"variant": variant}, transport={"loss": 0.2, "delay": [1, 3]}))
            for keys in (loose, {})
        )
        assert noisy.layer("learning").w.any()
        assert noisy.layer("learning").w.tobytes() == plain.layer("learning").w.tobytes()


# Budgets of a run


@pytest.mark.parametrize("visits", [1, 3])
def test_a_tour_uses_each_record_as_often_as_its_schedule_allows_and_then_stands_still(visits):
    run = simulation(walk_tree(NOISY | TOUR | {"schedule": {"kind": "uniform", "visits": visits}}, cycles=6))
    for cycle in run:
        layer, made = run.layer("walk"), min(cycle, visits)
        assert (layer.ledger.visits == made).all()
        assert layer.visits.tolist() == [40 * made, 40 * (cycle - made)]
        assert layer.age.tolist() == [40 * made]
        if cycle == visits:
            w = layer.w.copy()
            assert run.latest["walk"]["spent.max"] == run.latest["walk"]["spent.mean"] == 4.0
            assert run.latest["walk"]["spent.exhausted"] == 1.0
    assert (layer.w == w).all()


def test_a_halving_schedule_is_never_exhausted_and_logs_what_was_spent():
    run = finished(walk_tree(NOISY | TOUR | {"schedule": {"kind": "halving"}}, cycles=5))
    assert run.latest["walk"]["spent.max"] == 4 * (1 - 2.0**-5)
    assert run.latest["walk"]["spent.exhausted"] == 0
    assert run.latest["walk"]["visits.passed_over"] == 0


def test_a_model_stays_finite_however_long_a_halving_schedule_lasts():
    run = finished(walk_tree(NOISY | TOUR | {"schedule": {"kind": "halving"}}, cycles=150, observe={"every": 150}))
    assert np.isfinite(run.layer("walk").w).all()


def test_several_walkers_share_the_budgets():
    run = finished(walk_tree(NOISY | TOUR | {"walkers": 3}, cycles=2))
    assert (run.layer("walk").ledger.visits == 1).all()
    assert run.layer("walk").visits.tolist() == [40, 200]
    assert run.layer("walk").age.sum() == 40


def test_nodes_that_come_back_afresh_keep_what_they_spent():
    churn = {"kind": "rate", "leave": 0.3, "rejoin": 0.5, "return": "afresh"}
    golf = {"name": "walk", "use": "golf", "peers": "peers", "records": "raw", "epsilon": 4.0}
    run = simulation(walk_tree(golf, churn=churn, cycles=20))
    before = np.zeros(80, np.int32)
    for _ in run:
        visits = run.layer("walk").ledger.visits
        assert (visits >= before).all()
        before = visits.copy()
    assert before.max() == 1
    assert before.mean() > 0.9


def test_golf_over_noisy_gradients_is_golf_with_noisy_updates(rng):
    nodes, records = 5, unit_records(rng, [1, 2, 1, 3, 1], 2)
    world = make_world(nodes, layers=["learning"])
    peers = make_layer(GivenPeers, world, "peers")
    golf = make_layer(
        Golf, world, "learning", peers=peers, records=make_raw(records, 2), epsilon=6.0, learner="logistic",
        schedule={"kind": "uniform", "visits": 3}, **{"lambda": LAM},
    )  # fmt: skip
    golf.start(world, np.arange(nodes, dtype=np.int32))
    first, key = np.cumsum([0, 1, 2, 1, 3, 1]), naive.key(1, "learning", "noise")
    current, ledger = [(np.zeros((1, FEATURES)), 0)] * nodes, naive.Ledger(("uniform", 3), 6.0, 8)
    for cycle in range(1, 8):
        peers._peer = ((np.arange(nodes) + rng.integers(1, nodes, nodes)) % nodes).astype(np.int32)
        golf.step(at_cycle(world, cycle))
        for i, j in enumerate(peers._peer):
            mine, received = range(first[j], first[j + 1]), current[i]
            epsilon = ledger.visit(mine)
            if epsilon is not None:
                scale = naive.noise_scale(epsilon, 1, len(mine), "record")
                noise = naive.laplace_noise(key, ledger.visits[mine[0]], mine[0], 0, FEATURES, scale)
                received = naive.noisy_update(received, *records[j], LAM, "logistic", [noise])
            current[j] = naive.merge(received, current[j])
        assert golf.ledger.visits.tolist() == ledger.visits
        assert golf.age.tolist() == [age for _, age in current]
        for i, (weights, _) in enumerate(current):
            assert golf.w[i] == pytest.approx(weights, rel=1e-3, abs=1e-3 * (1 + np.abs(weights).max()))
    assert max(ledger.visits) == 3


def test_golf_charges_both_updates_of_the_variant_that_makes_two():
    golf = {"name": "walk", "use": "golf", "peers": "peers", "records": "raw", "epsilon": 4.0, "variant": "um"}
    run = simulation(walk_tree(golf | {"schedule": {"kind": "uniform", "visits": 10**6}}, cycles=1))
    run.step()
    assert run.layer("walk").ledger.visits[::2].sum() == 2 * 40


# Paths


def test_a_tour_visits_every_node_once_a_lap_and_each_lap_in_another_order():
    nodes, hops, key = 40, 7, naive.key(1, "walk", "tour")
    run = simulation(walk_tree(WALK | {"path": "tour", "hops": hops, "walkers": 2}, cycles=24))
    paths = [[], []]
    original = run.layer("walk")._tours

    def recording(world):
        path = original(world)
        for walker, places in enumerate(path):
            paths[walker] += places.tolist()
        return path

    run.layer("walk")._tours = recording
    for _ in run:
        pass
    for walker, path in enumerate(paths):
        assert path == naive.tour(key, walker, 0, 24 * hops, nodes)
        laps = [path[lap * nodes : (lap + 1) * nodes] for lap in range(4)]
        assert [sorted(lap) for lap in laps] == [list(range(nodes))] * 4
        assert laps[0] != laps[1]
    assert paths[0] != paths[1]


def test_a_tour_leaves_offline_nodes_out():
    run = simulation(walk_tree(NOISY | TOUR, churn={"kind": "crash", "at": 1, "share": 0.5}, cycles=1))
    run.step()
    assert (run.layer("walk").ledger.visits == np.repeat(run.world.online, 2)).all()
    assert run.layer("walk").visits.tolist() == [run.world.online.sum(), 0]


def recorded(run):
    """The paths of all cycles of a run, [cycle][walker, hop], and where walkers were before each."""
    layer, found = run.layer("walk"), []
    original = layer._walks

    def recording(world):
        before = layer.at.copy()
        path = original(world)
        found.append((before, path.copy(), world.online.copy()))
        return path

    layer._walks = recording
    for _ in run:
        pass
    return found


def test_a_walk_follows_links_to_online_neighbours():
    run = simulation(
        walk_tree(WALK | {"walkers": 4, "hops": 6}, RING, churn={"kind": "rate", "leave": 0.3, "rejoin": 0.3})
    )
    links = None
    for before, path, online in recorded(run):
        links = run.layer("peers").links(run.world) if links is None else links
        for here, places in zip(before, path, strict=True):
            for there in places[places >= 0]:
                assert there in links.indices[links.indptr[here] : links.indptr[here + 1]]
                assert online[there]
                here = there
            assert (np.diff((places >= 0).astype(int)) <= 0).all()  # once it rests it rests


def test_a_walk_over_all_nodes_goes_to_every_other_online_node_with_equal_probability():
    run = simulation(walk_tree(WALK | {"hops": 50}, data=DATA | {"train": 12}, cycles=120))
    counts = np.zeros(6)
    for before, path, _ in recorded(run):
        way = np.concatenate([before, path[0]])
        assert (way[1:] != way[:-1]).all()
        counts += np.bincount((way[1:] - way[:-1]) % 6, minlength=6)
    assert counts[0] == 0
    assert p_of_chi_square(counts[1:]) > ALPHA


def test_hops_all_is_as_many_hops_as_there_are_nodes():
    run = finished(walk_tree(WALK | {"hops": "all", "walkers": 2}, cycles=3))
    assert run.layer("walk").visits.tolist() == [2 * 3 * 40, 0]
    assert run.world.transport.totals("walk")["messages.sent"] == 2 * 3 * 40


def test_every_hop_updates_the_model_once():
    run = finished(walk_tree(WALK | {"hops": 5, "walkers": 3}, cycles=4))
    assert run.layer("walk").age.tolist() == [20, 20, 20]


def walkers_left(restart, loss=0.3, cycles=30, **tables):
    run = simulation(
        walk_tree(WALK | {"walkers": 8, "restart": restart}, transport={"loss": loss}, cycles=cycles, **tables)
    )
    return run, [run.latest["walk"]["walkers"] for _ in run]


def test_a_lost_walk_that_never_restarts_is_gone():
    run, left = walkers_left("never")
    assert left == sorted(left, reverse=True)
    assert left[0] > left[-1] == 0
    assert run.world.transport.totals("walk")["messages.lost"] == 8
    assert "error.mean" not in run.latest["walk"]


def test_a_walk_that_restarts_afresh_begins_with_the_zero_model_in_the_next_cycle():
    run = simulation(walk_tree(WALK | {"walkers": 8, "restart": "afresh"}, transport={"loss": 0.3}, cycles=30))
    ages, lost = run.layer("walk").age.copy(), np.zeros(8, bool)
    for _ in run:
        layer = run.layer("walk")
        gone = layer.at < 0
        expected = np.where(lost, 0, ages) + ~gone
        assert layer.age.tolist() == expected.tolist()
        ages, lost = layer.age.copy(), gone
    assert run.world.transport.totals("walk")["messages.lost"] > 30
    assert run.layer("walk").age.max() < 30


def test_a_walk_that_is_sent_again_is_never_gone():
    run, left = walkers_left("resend")
    assert left == [8] * 30
    totals = run.world.transport.totals("walk")
    assert run.layer("walk").age.sum() == totals["messages.delivered"]
    assert totals["messages.lost"] > 30


def test_a_walk_that_is_sent_again_goes_on_from_its_last_holder():
    run = simulation(
        walk_tree(WALK | {"walkers": 8, "hops": 10, "restart": "resend"}, RING, transport={"loss": 0.1}, cycles=8)
    )
    layer = run.layer("walk")
    original, last = layer._walks, []

    def recording(world):
        before = layer.at.copy()
        path = original(world)
        hops = (path >= 0).sum(axis=1)
        last.append(np.where(hops > 0, path[np.arange(8), hops - 1], before))
        return path

    layer._walks = recording
    for _ in run:
        assert layer.at.tolist() == last[-1].tolist()


def test_no_walk_crosses_a_cut():
    cut = [{"share": 0.5, "from": 1, "until": 10}]
    run = simulation(walk_tree(WALK | {"walkers": 20, "restart": "afresh"}, transport={"partition": cut}, cycles=20))
    sides, crossings = None, 0
    for before, path, _ in recorded(run):
        if sides is None:
            sides = run.world.transport._sides[0]
            cycle = 0
        cycle += 1
        moved = path[:, 0] >= 0
        crossed = sides[before[moved]] != sides[path[moved, 0]]
        crossings += crossed.sum()
        assert cycle > 10 or not crossed.any()
    assert run.world.transport.totals("walk")["messages.lost"] > 50
    assert crossings > 50


@pytest.mark.parametrize("transport", [{"loss": 1.0}, {"partition": [{"share": 0.5, "from": 1, "until": 10}]}])
def test_a_tour_suffers_loss_and_cuts_or_refuses_them(transport):
    try:
        run = finished(walk_tree(WALK | TOUR, transport=transport))
    except UserError:
        return
    assert run.world.transport.totals("walk")["messages.lost"] > 0


def test_a_walker_waits_while_its_node_is_away(rng):
    raw = make_raw(unit_records(rng, [1] * 5, 2), 2)
    world, layer = build(RandomWalk, raw, None, hops=3)
    layer.step(at_cycle(world, 1))
    here, age = int(layer.at[0]), int(layer.age[0])
    online = np.arange(5) != here
    layer.step(at_cycle(world, 2, online))
    assert (layer.at[0], layer.age[0]) == (here, age)
    layer.step(at_cycle(world, 3))
    assert layer.age[0] == age + 3


# What is refused and what is said


@pytest.mark.parametrize("layer", [NOISY, NOISY | {"use": "golf"}], ids=["walk", "golf"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_records_longer_than_1_are_refused_with_the_key_and_what_to_do(layer, norm):
    with pytest.raises(UserError, match=f"the longest record has {norm.upper()} length") as caught:
        simulation(walk_tree(layer | {"norm": norm}, data=DATA | {"scale": []}))
    assert caught.value.key == "walk.norm"
    assert f'"{norm}" to scale in [data]' in caught.value.hint


def test_golf_without_epsilon_takes_records_of_any_length():
    run = simulation(walk_tree(WALK | {"use": "golf"}, data=DATA | {"scale": ["minmax"]}))
    assert run.layer("walk").ledger.visits.size == 0


@pytest.mark.parametrize("use", ["gradient_perturbation", "golf"])
def test_noisy_gradients_of_single_records_one_by_one_are_refused(use):
    with pytest.raises(ScenarioError, match="mini-batch"):
        Scenario.of(walk_tree(NOISY | {"use": use, "batch": "one-by-one"}), HERE)


@pytest.mark.parametrize("use", ["gradient_perturbation", "golf"])
@pytest.mark.parametrize("unit", ["record", "node"])
def test_the_guarantee_is_epsilon_for_the_unit(use, unit):
    run = simulation(walk_tree(NOISY | {"use": use, "unit": unit}))
    assert str(run.layer("walk").guarantee()) == f"ε = 4 per {unit}, proven"
    assert str(simulation(walk_tree(WALK)).layer("walk").guarantee()) == "not private"
    assert (
        str(simulation(walk_tree(NOISY | {"use": use, "epsilon": math.inf})).layer("walk").guarantee()) == "not private"
    )


@pytest.mark.parametrize("use", ["gradient_perturbation", "golf"])
@pytest.mark.parametrize("unit", ["record", "node"])
def test_as_coded_each_problem_has_the_complete_epsilon_and_the_true_one_is_c_times_that(use, unit):
    coded = NOISY | {"use": use, "unit": unit, "rule": "as-coded", "peers": "peers"}
    shared = NOISY | {"use": use, "unit": unit, "epsilon": 28.0, "peers": "peers"}
    seven = {"set": "segmentation", "train": 70, "test": 30, "scale": ["minmax", "l1"]}
    one, other = (finished(tree(PEERS, layer, data=seven, nodes={"records": 2}, cycles=5)) for layer in (coded, shared))
    stated = f"ε = 28 per {unit}, proven: 4 for each of 7 one-versus-all problems"
    assert str(one.layer("walk").guarantee()) == stated
    assert one.latest["walk"]["spent.max"] == 28
    assert one.layer("walk").w.tobytes() == other.layer("walk").w.tobytes()
    two = simulation(walk_tree(coded))
    assert str(two.layer("walk").guarantee()) == f"ε = 4 per {unit}, proven"


@pytest.mark.parametrize("mode", ["per-class", "label+features", "as-coded"])
@pytest.mark.parametrize("use", ["gradient_perturbation", "golf"])
def test_noise_on_gradients_of_published_records_is_refused_or_claims_no_less_than_their_epsilon(use, mode):
    published = {"name": "published", "use": "data_perturbation", "epsilon": 100.0, "mode": mode}
    noisy = NOISY | {"use": use, "records": "published"}
    try:  # no cycle is run: with an empty ledger kernels would write outside it
        run = simulation(tree(PEERS, published, noisy, data=DATA, nodes={"records": 2}))
    except UserError:
        return
    assert run.layer("walk").guarantee().epsilon >= 100
    assert run.layer("walk").ledger.visits.size == 80


def test_a_node_is_used_no_more_than_its_budget_allows_when_its_records_retire():
    arrival = {"start": 0.1, "rate": 1.0, "keep": 1}
    run = finished(walk_tree(NOISY | TOUR | {"unit": "node"}, nodes={"records": 10, "arrival": arrival}, cycles=20))
    assert run.layer("walk").visits[0] <= run.world.nodes


def test_records_that_arrive_late_have_their_own_budgets():
    arrival = {"start": 0.5, "rate": 1.0, "keep": 1}
    run = finished(walk_tree(NOISY | TOUR, nodes={"records": 4, "arrival": arrival}, cycles=12))
    assert run.layer("walk").ledger.visits.max() == 1
    assert run.layer("walk").visits[0] > run.world.nodes
