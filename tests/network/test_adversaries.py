"""Bad peers, what they send, and the defences against them."""

import naive
import numpy as np
import pytest
from helpers import (
    ALPHA,
    GivenPeers,
    assert_same_state,
    at_cycle,
    finished,
    learning_tree,
    make_layer,
    make_raw,
    make_world,
    simulation,
    tree,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from golfsim.core import threads
from golfsim.core.errors import UserError
from golfsim.core.rng import key
from golfsim.network.adversaries import HONEST, NEGATIVE, NOISE, OLD, Forgery, Tampering, forge, forge_rows
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint
from protocols.golf import Golf
from protocols.golf.receiving import MEDIAN, TRIMMED, clip_model, robust_mean

PEERS = {"name": "peers", "use": "uniform"}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
KINDS = ["negative", "noise", "old"]


def configs(*tables):
    """`[[adversary]]` tables as a scenario has them."""
    return Scenario.of(tree(PEERS, adversary=tables)).adversary


def gaussian(seed, cycle, sender, models, features, scale):
    """The noise that a sender sends, by the plain generator: Box & Muller 1958."""
    k = naive.key(seed, "adversary", "noise")
    u = np.array([[[naive.uniform(naive.draw(k, cycle, sender, 2 * (m * features + f) + part)) for part in (0, 1)]
                   for f in range(features)] for m in range(models)])  # fmt: skip
    return scale * np.sqrt(-2 * np.log(u[..., 0])) * np.cos(2 * np.pi * u[..., 1])


# ------------------------------------------------------------------------------------------------ who


def test_members_are_disjoint_and_of_the_size_asked_for():
    tables = [{"kind": kind, "share": 0.2} for kind in KINDS] + [{"kind": "flip-labels", "number": 7}]
    members = Tampering(configs(*tables), 1, 50).members
    nodes = np.concatenate([nodes for _, nodes in members])
    assert [nodes.size for _, nodes in members] == [10, 10, 10, 7]
    assert np.unique(nodes).size == nodes.size


def test_the_choice_of_adversarial_nodes_depends_on_the_seed_only():
    who = [Tampering(configs({"kind": "noise", "share": 0.3}), seed, 100).members[0][1] for seed in (1, 1, 2)]
    assert np.array_equal(who[0], who[1])
    assert not np.array_equal(who[0], who[2])


def test_who_is_not_a_member_is_honest():
    tables = {"kind": "noise", "share": 0.2}, {"kind": "flip-labels", "share": 0.1, "from": 9}
    tampering = Tampering(configs(*tables), 1, 40)
    assert tampering.honest().sum() == 28
    assert not tampering.honest()[np.concatenate([nodes for _, nodes in tampering.members])].any()


@pytest.mark.parametrize(
    "table", [{"kind": "noise"}, {"kind": "noise", "share": 0.1, "number": 3}, {"kind": "lie", "share": 0.1},
              {"kind": "noise", "share": 0.1, "scale": 0.0}, {"kind": "noise", "share": 1.1}]
)  # fmt: skip
def test_an_impossible_adversary_is_refused(table):
    with pytest.raises(UserError, match="adversary"):
        configs(table)


def test_no_node_is_adversarial_before_its_first_cycle():
    tampering = Tampering(configs({"kind": "negative", "share": 0.5, "from": 5}), 1, 10)
    assert tampering.forgery(4).kind.size == 0
    assert (tampering.forgery(5).kind == NEGATIVE).sum() == 5
    assert (tampering.forgery(99).kind == NEGATIVE).sum() == 5


# ------------------------------------------------------------------------------------------------ what they send


def forged(kind, w, old, scale=1.0, cycle=3, sender=1):
    """What `forge` writes for the second of three senders, whose model begins at row 2 of w."""
    models, features = old.shape
    forgery = Forgery(
        np.array([HONEST, kind, HONEST], np.int8),
        np.array([0, scale, 0], np.float32),
        np.array([0, 1, 0], np.int32),
        key(7, "adversary", "noise"),
    )
    kept = np.concatenate([np.full_like(old, 99), old])  # the second row of kept models is its own
    out = np.full((models, features), np.nan, np.float32)
    forge(forgery, sender, cycle, w, 2, kept, out)
    return out


def test_each_kind_of_forgery_is_what_the_plain_reference_computes(rng):
    w = rng.normal(size=(6, 4)).astype(np.float32)
    old = rng.normal(size=(2, 4)).astype(np.float32)
    assert np.array_equal(forged(NEGATIVE, w, old), -w[2:4])
    assert np.array_equal(forged(OLD, w, old), old)
    assert np.array_equal(forged(HONEST, w, old), w[2:4])
    assert np.allclose(forged(NOISE, w, old, 2.5), gaussian(7, 3, 1, 2, 4, 2.5), rtol=1e-5, atol=1e-6)


def test_noise_is_gaussian_and_new_in_each_cycle():
    old = np.zeros((1, 50), np.float32)
    drawn = np.array([forged(NOISE, old, old, 3.0, cycle)[0] for cycle in range(60)])
    assert stats.kstest(drawn.ravel(), stats.norm(scale=3).cdf).pvalue > ALPHA
    assert np.unique(drawn).size > 2990
    assert abs(np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]) < 4 / np.sqrt(2950)


def test_forging_in_the_mailbox_changes_the_liars_slots_alone(rng):
    w = rng.normal(size=(8, 3)).astype(np.float32)  # slots of two models each
    before = w.copy()
    kind, old = np.array([HONEST, NEGATIVE], np.int8), np.zeros((0, 3), np.float32)
    forgery = Forgery(kind, np.zeros(2, np.float32), np.zeros(2, np.int32), np.uint64(1))
    senders, slots = np.array([1, 0, 1], np.int32), np.array([3, 0, 1], np.int32)
    forge_rows(forgery, senders, 1, slots, w, old, 2)
    assert np.array_equal(w[[6, 7, 2, 3]], -before[[6, 7, 2, 3]])
    assert np.array_equal(w[[0, 1, 4, 5]], before[[0, 1, 4, 5]])


def one_to_one(kind, delay, models=1, cycles=6, start=1, **golf):
    """Node 0 is bad and sends to node 1, which sends to nobody and has no records: what node 1 gets is what it holds.

    Yields (cycle, what node 0 held when it sent in that cycle, what node 1 holds afterwards).
    """
    table = {"kind": kind, "number": 1, "from": start, "scale": 2.0}
    seed = next(seed for seed in range(99) if Tampering(configs(table), seed, 2).members[0][1][0] == 0)
    world = make_world(2, seed=seed, delay=delay, adversary=configs(table))
    labels = [0] if models == 1 else [2]
    none = (np.zeros((0, 3)), [])
    records = make_raw([(np.zeros((1, 3)), labels), none], 2 if models == 1 else models)
    peers = make_layer(GivenPeers, world)
    peers._peer = np.array([1, -1], np.int32)
    layer = make_layer(Golf, world, peers=peers, records=records, variant="rw", **golf)
    draws = np.random.default_rng(5)
    for cycle in range(1, cycles + 1):
        at_cycle(world, cycle)
        layer.w[0] = draws.normal(size=layer.w[0].shape)
        layer.age[0] = cycle
        sent = layer.w[0].copy()
        layer.step(world)
        yield cycle, sent, layer.w[1].copy(), int(layer.age[1]), seed


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_an_adversarial_message_is_forged_when_it_is_sent(kind, delay, models):
    start, sent = 3, {}
    for cycle, held, got, age, seed in one_to_one(kind, delay, models, cycles=8, start=start):
        sent[cycle] = held
        when = cycle - delay
        if when < 1:
            assert (got == 0).all()
        elif when < start:
            assert np.array_equal(got, sent[when]), "honest until then"
        elif kind == "negative":
            assert np.array_equal(got, -sent[when])
        elif kind == "old":
            assert np.array_equal(got, sent[start])
        else:
            assert np.allclose(got, gaussian(seed, when, 0, models, 3, 2.0), rtol=1e-5, atol=1e-6)
        assert age == max(when, 0), "the age is the sender's own"


def test_the_old_model_is_kept_also_when_the_layer_rests_in_that_cycle():
    table = learning_tree(PEERS, GOLF | {"every": 2}, cycles=12, adversary=[{"kind": "old", "number": 5, "from": 6}])
    run = finished(table)
    assert (run.layers["learning"].old != 0).any()


# ------------------------------------------------------------------------------------------------ labels


@pytest.mark.parametrize("classes", [2, 7])
def test_flipped_labels_are_the_next_class_of_bad_nodes_from_their_cycle_on(classes):
    data = {"set": "random", "train": 80, "test": 30} if classes == 2 else {"set": "segmentation", "train": 80}
    flips = [{"kind": "flip-labels", "number": 5, "from": 6}, {"kind": "flip-labels", "number": 3, "from": 4}]
    run = simulation(learning_tree(PEERS, GOLF, data=data, cycles=9, adversary=flips))
    label = run.raw.rows.label.copy()
    late, early = (np.isin(np.repeat(np.arange(40), 2), nodes) for _, nodes in run.world.tampering.members)
    for cycle in run:
        turned = (late & (cycle >= 6)) | (early & (cycle >= 4))
        assert np.array_equal(run.raw.rows.label, (label + turned) % classes), cycle


def test_a_resumed_run_has_its_labels_flipped_once(tmp_path):
    flips = [{"kind": "flip-labels", "number": 5, "from": 3}, {"kind": "flip-labels", "number": 5, "from": 6}]
    table = learning_tree(PEERS, GOLF, cycles=9, adversary=flips)
    whole, part, again = finished(table), simulation(table), simulation(table)
    for _ in range(4):
        part.step()
    checkpoint.save(part, tmp_path / "half")
    checkpoint.load(again, tmp_path / "half")
    for _ in again:
        pass
    assert_same_state(again, whole)
    assert np.array_equal(again.raw.rows.label, whole.raw.rows.label)
    assert again.log.values == whole.log.values


def test_learning_from_flipped_labels_alone_learns_the_opposite():
    table = learning_tree(PEERS, GOLF, number=100, cycles=40, observe={"every": 40, "nodes": "all"})
    honest = finished(table).latest["learning"]["error.mean"]
    # One node is honest, and observed: all others train on the opposite.
    flipped = finished(table | {"adversary": [{"kind": "flip-labels", "number": 99}]}).latest["learning"]["error.mean"]
    assert honest < 0.05
    assert flipped > 0.95


# ------------------------------------------------------------------------------------------------ observing


def test_adversarial_nodes_are_never_observed():
    table = learning_tree(PEERS, GOLF, adversary=[{"kind": "noise", "share": 0.9}], observe={"every": 1, "nodes": 20})
    run = simulation(table)
    seen = []
    golf = run.layers["learning"]
    original = golf.scores
    golf.scores = lambda nodes, x: (seen.append(nodes), original(nodes, x))[1]
    for _ in run:
        pass
    nodes = np.unique(np.concatenate(seen))
    assert nodes.size == 4
    assert run.world.tampering.honest()[nodes].all()


def test_where_all_are_bad_nothing_is_measured_but_messages():
    run = finished(learning_tree(PEERS, GOLF, adversary=[{"kind": "negative", "share": 1}]))
    assert set(run.latest["learning"]) == {
        "messages.sent", "messages.delivered", "messages.lost", "messages.under_way", "bytes.sent",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ defences


def trimmed(values):
    """The mean of each coordinate without the smallest and largest quarter, rounded down."""
    cut = len(values) // 4
    return np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)


@given(st.integers(1, 12), st.integers(1, 3), st.integers(1, 5), st.integers(0, 10**6))
def test_a_robust_mean_is_numpys(filled, models, features, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(-5, 6, (filled, models, features)).astype(np.float32)
    cache = np.concatenate([np.full((3, features), 1e6), values.reshape(-1, features), np.full((2, features), -1e6)])
    cache = cache.astype(np.float32)
    out, scratch = np.empty((models, features), np.float32), np.empty(filled, np.float32)
    robust_mean(cache, 3, filled, MEDIAN, scratch, out)
    assert np.array_equal(out, np.median(values, axis=0).astype(np.float32))
    robust_mean(cache, 3, filled, TRIMMED, scratch, out)
    assert np.allclose(out, trimmed(values), rtol=1e-6, atol=1e-6)


@given(st.integers(1, 4), st.integers(1, 6), st.floats(0.1, 20), st.integers(0, 10**6))
def test_a_clipped_model_is_no_longer_than_allowed_and_points_where_it_did(models, features, longest, seed):
    w = (np.random.default_rng(seed).normal(size=(models, features)) * 5).astype(np.float32)
    before = w.astype(np.float64)
    clip_model(w, longest)
    length = np.linalg.norm(before, axis=1, keepdims=True)
    assert np.allclose(w, before * np.minimum(1, longest / length), rtol=1e-5)
    assert (np.linalg.norm(w, axis=1) <= longest * (1 + 1e-5)).all()


def test_a_model_of_length_zero_survives_clipping():
    w = np.zeros((2, 3), np.float32)
    clip_model(w, 1.0)
    assert (w == 0).all()


@pytest.mark.parametrize("delay", [0, 2])
def test_what_is_received_is_clipped_be_it_honest_or_not(delay):
    for cycle, _, got, _, _ in one_to_one("noise", delay, cycles=9, start=4, clip=0.5):
        if cycle > delay:
            assert np.linalg.norm(got) == pytest.approx(0.5, rel=1e-5)


def robust_reference(records, order, peer, cache, lam, cycles, merge):
    """Golf with a robust merge in plain numpy: each node's model after the last cycle."""
    models = [np.zeros((1, 2)) for _ in records]
    ages = [0] * len(records)
    caches = [[np.zeros((1, 2))] for _ in records]
    for _ in range(cycles):
        for i in order:
            j = peer[i]
            xs, labels = records[j]
            fresh, age = naive.update((models[i], ages[i]), xs, labels, lam, "pegasos", True)
            caches[j] = [*caches[j], fresh][-cache:]
            models[j] = np.median(caches[j], axis=0) if merge == "median" else trimmed(np.array(caches[j]))
            ages[j] = max(age, ages[j])
    return np.array(models), ages


@pytest.mark.parametrize("merge", ["median", "trimmed-mean"])
@pytest.mark.parametrize("cache", [3, 5])
def test_a_robust_merge_keeps_the_robust_mean_of_the_last_updated_models(rng, merge, cache):
    nodes = 7
    records = [(rng.normal(size=(2, 2)), rng.integers(0, 2, 2).tolist()) for _ in range(nodes)]
    world = make_world(nodes)
    peers = make_layer(GivenPeers, world)
    peers._peer = np.roll(np.arange(nodes), 3).astype(np.int32)
    keys = {"peers": peers, "records": make_raw(records, 2), "merge": merge, "cache": cache, "lambda": 0.1}
    golf = make_layer(Golf, world, **keys)
    golf.start(world, np.arange(nodes, dtype=np.int32))
    for cycle in range(1, 10):
        golf.step(at_cycle(world, cycle))
    w, age = robust_reference(records, range(nodes), peers._peer, cache, 0.1, 9, merge)
    assert np.allclose(golf.w, w, rtol=1e-4, atol=1e-4)
    assert golf.age.tolist() == age


@pytest.mark.parametrize("table", [{"merge": "median"}, {"merge": "median", "cache": 2},
                                   {"merge": "trimmed-mean", "cache": 5, "variant": "mu"}, {"clip": 0.0}])  # fmt: skip
def test_a_defence_that_cannot_work_is_refused(table):
    with pytest.raises(UserError, match="learning"):
        Scenario.of(learning_tree(PEERS, GOLF | table))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delay", [0, [1, 3]])
def test_forging_gives_the_same_numbers_on_any_number_of_threads(kind, delay, monkeypatch):
    monkeypatch.setattr(threads, "SMALLEST_SHARE", 1)
    table = learning_tree(
        PEERS, GOLF | {"cache": 5, "merge": "median", "clip": 50.0}, cycles=8, transport={"delay": delay},
        adversary=[{"kind": kind, "share": 0.3, "from": 3}],
    )  # fmt: skip
    runs = [finished(table, threads=threads) for threads in (1, 2, 3)]
    for other in runs[1:]:
        assert_same_state(runs[0], other)
