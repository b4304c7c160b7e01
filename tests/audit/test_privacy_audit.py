"""The guarantees, tried: what an observer who knows all but one record can tell at least, against the stated ε.

Two neighbouring data sets are published (or learned from) many times over: many equal records in one run, each with
noise of its own. The most telling events are sets of outputs with a large likelihood ratio; a threshold is chosen on
one half of the outputs, and the two probabilities are bounded on the other half by Clopper & Pearson's limits (1934),
each with error rate ERROR. ln(lower limit / upper limit) is then above the true ε once in 1/(2·ERROR) seeds.
"""

import math

import numpy as np
import pytest
from helpers import ERROR, HERE, GivenPeers, at_cycle, make_layer, make_raw, make_world, needs_jit, rule_of

from golfsim.audit import bounds
from golfsim.privacy import gaussian
from golfsim.privacy.mechanisms import GammaNorm, Laplace, RandomResponse
from golfsim.protocol.records import RawRecords
from protocols.data_perturbation import DataPerturbation
from protocols.data_perturbation import protocol as data_perturbation
from protocols.gradient_perturbation import GradientPerturbation
from protocols.group_aggregation import protocol as group_aggregation
from protocols.group_aggregation.protocol import FORMED, GroupAggregation
from protocols.random_walk import Tail, visit
from protocols.regularised_erm import RegularisedErm

pytestmark = needs_jit


DRAWS = 100_000
E1, E2 = np.eye(2, dtype=np.float32)


def lower_bound(scores, neighbour, delta=0.0):
    """A lower bound on ε from a score of each output, large where the first data set is the likelier one."""
    return bounds.lower_bound(scores, neighbour, ERROR, delta)


def lower_bound_at(delta, scores, neighbour):
    """The same at a δ, which is taken off the probability of the event."""
    return bounds.lower_bound(scores, neighbour, ERROR, delta)


def log_ratio(z, here, there, norm):
    """How much nearer outputs [n, blocks, d] are to what was published here than to what was published there."""
    if norm == "gaussian":
        return ((z - there) ** 2 - (z - here) ** 2).sum(axis=(1, 2))
    order = 1 if norm == "l1" else 2
    return sum(
        np.linalg.norm(z[:, b] - there[b], order, axis=1) - np.linalg.norm(z[:, b] - here[b], order, axis=1)
        for b in range(z.shape[1])
    )


def test_the_audit_finds_the_epsilon_of_a_plain_laplace_number(rng):
    one, other = rng.laplace(1, 1, DRAWS), rng.laplace(-1, 1, DRAWS)
    assert 1.8 < lower_bound(one, other) <= 2.0


def test_the_limits_hold_as_often_as_they_say(rng):
    hits = rng.binomial(1000, 0.05, 20_000)
    low, high = bounds.limits(hits, 1000, ERROR)
    # At most 10 of 20000 are expected beyond each limit; more than 22 come once in 2000 seeds.
    assert (low > 0.05).sum() <= 22
    assert (high < 0.05).sum() <= 22


# Published records


def published(x, label, classes, copies=1, **keys):
    """Outputs [n, blocks, d] for many records equal to x (or nodes with so many of them), and published labels."""
    nodes = DRAWS if copies > 1 else 1
    counts = np.full(nodes, copies if copies > 1 else DRAWS)
    raw = make_raw([(np.tile(x, (counts[0], 1)), np.full(counts[0], label))], classes)
    if nodes > 1:
        raw = type(raw)(np.tile(x, (nodes * copies, 1)), np.full(nodes * copies, label, np.int32), counts, classes)
    world = make_world(raw.capacity().size, layers=["layer"])
    layer = make_layer(DataPerturbation, world, seed=keys.pop("seed", 1), records=raw, **keys)
    world.cycle, world.order = 1, np.arange(nodes, dtype=np.int32)
    layer.step(world)
    return layer.rows.x.reshape(DRAWS, -1, 2).astype(np.float64), layer.rows.label


def audit_published(classes, epsilon, norm="l1", to=(E2, 0), **keys):
    """The lower bound for a record (e_1, class 1) against its neighbour; that has another seed's noise."""
    here, _ = published(E1, 1, classes, epsilon=epsilon, norm=norm, **keys)
    there, _ = published(to[0], to[1], classes, epsilon=epsilon, norm=norm, seed=2, **keys)
    clean_here, clean_there = (
        published(x, label, classes, epsilon=math.inf, norm=norm, **keys)[0][0] for x, label in ((E1, 1), to)
    )
    return lower_bound(*(log_ratio(z, clean_here, clean_there, norm) for z in (here, there)))


class Half(Laplace):
    """Broken on purpose: a sensitivity of 1 where it is 2."""

    @property
    def scale(self):
        return super().scale / 2


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_records_of_two_classes_are_published_with_their_epsilon(epsilon):
    assert 0.8 * epsilon < audit_published(2, epsilon) <= epsilon


def test_noise_for_a_sensitivity_of_1_is_found_out(monkeypatch):
    monkeypatch.setattr(data_perturbation, "Laplace", Half)
    assert audit_published(2, 1.0) > 1.5


def test_l2_noise_gives_its_epsilon_and_noise_for_a_sensitivity_of_1_is_found_out(monkeypatch):
    assert 1.0 < audit_published(2, 2.0, norm="l2", to=(E1, 0)) <= 2.0
    half = property(lambda self: Laplace(epsilon=self.epsilon, sensitivity=self.sensitivity).scale / 2)
    monkeypatch.setattr(GammaNorm, "scale", half)
    assert audit_published(2, 2.0, norm="l2", to=(E1, 0)) > 2.0


# A large δ: at a small one the events that tell something are too rare to be counted.
NORMAL = {"noise": "gaussian", "delta": 0.05, "norm": "l2"}


def along(z, here, there):
    """The place of outputs [n, blocks, d] along the line between what is published of two records without noise."""
    return np.einsum("nbd,bd->n", z, np.float64(here) - np.float64(there))


def audit_gaussian(classes, epsilon, broken=1.0, **keys):
    """The lower bound at δ for a record (e_1, class 1) against (e_1, class 0); a broken factor divides the noise."""
    plain = [published(E1, label, classes, epsilon=math.inf, **NORMAL, **keys)[0][0] for label in (1, 0)]
    outputs = [published(E1, label, classes, epsilon=epsilon, seed=label + 1, **NORMAL, **keys)[0] for label in (1, 0)]
    noisy = [p + (z - p) / broken for z, p in zip(outputs, plain, strict=True)]
    return lower_bound_at(NORMAL["delta"], *(along(z, *plain) for z in noisy))


def test_gaussian_noise_gives_its_epsilon_at_delta_and_half_of_it_is_found_out():
    assert 0.8 * 2 < audit_gaussian(2, 2.0) <= 2
    assert audit_gaussian(2, 2.0, broken=2) > 4


@pytest.mark.parametrize("mode", ["per-class", "joint"])
def test_gaussian_noise_of_three_classes_gives_at_most_epsilon(mode):
    assert 0.5 < audit_gaussian(3, 2.0, mode=mode) <= 2


def test_gaussian_noise_for_one_of_three_classes_on_each_is_found_out():
    assert audit_gaussian(3, 2.0, broken=math.sqrt(3)) > 2


def test_three_classes_with_a_third_of_epsilon_each_give_epsilon():
    assert 0.6 * 1.5 < audit_published(3, 1.5) <= 1.5


def test_three_classes_with_the_whole_epsilon_each_are_found_out(monkeypatch):
    class Undivided(Laplace):
        @property
        def scale(self):
            return super().scale / 3

    monkeypatch.setattr(data_perturbation, "Laplace", Undivided)
    assert audit_published(3, 1.5) > 2.5


def test_noise_shared_between_classes_gives_the_record_away(monkeypatch):
    original = data_perturbation.publish_per_class

    def shared(records, lo, hi, rows, models, norm, scale, key, z):
        original(records, lo, hi, rows, models, norm, scale, key, z)
        z = z.reshape(-1, models, z.shape[1])
        signs = np.where(rows.label[:, None] == np.arange(models), 1, -1)[:, :, None]
        noise = z[:, :1] - signs[:, :1] * rows.x[:, None]
        z[:] = signs * rows.x[:, None] + noise

    monkeypatch.setattr(data_perturbation, "publish_per_class", shared)
    here, _ = published(E1, 1, 3, epsilon=1.5)
    there, _ = published(E2, 0, 3, epsilon=1.5, seed=2)
    # z_1 − z_0 = 2x or −2x, whatever the noise.
    assert lower_bound(*((z[:, 1] - z[:, 0]).sum(axis=1) for z in (here, there))) > 5


def blocks_of(z):
    """What joint publishing published, from its decoded form z_m = 2 b_m − Σ b."""
    total = z.sum(axis=1, keepdims=True) / (2 - z.shape[1])
    return (z + total) / 2


def audit_joint(epsilon, to, **keys):
    here, there = (
        blocks_of(published(x, label, 3, mode="joint", epsilon=epsilon, seed=seed, **keys)[0])
        for seed, (x, label) in enumerate([(E1, 1), to])
    )
    clean = [
        blocks_of(published(x, label, 3, mode="joint", epsilon=math.inf, **keys)[0])[0] for x, label in ((E1, 1), to)
    ]
    return lower_bound(*(log_ratio(z, *clean, keys.get("norm", "l1")) for z in (here, there)))


@pytest.mark.parametrize("to", [(E2, 0), (E2, 1)], ids=["another class", "another record"])
def test_joint_publishing_gives_its_epsilon(to, monkeypatch):
    assert 0.7 * 1.5 < audit_joint(1.5, to) <= 1.5
    monkeypatch.setattr(data_perturbation, "Laplace", Half)
    assert audit_joint(1.5, to) > 2


def test_joint_publishing_with_l2_noise_gives_its_epsilon():
    # Each block has Gamma-norm noise of its own; two blocks of length 1 differ, which adds up to 2 as well.
    assert 0.4 * 2 < audit_joint(2.0, (E2, 0), norm="l2") <= 2


def audit_label_and_features(classes, epsilon, label_epsilon):
    keys = {"mode": "label+features", "epsilon": epsilon, "label_epsilon": label_epsilon}
    scale = 2 / (epsilon - label_epsilon)
    scores = []
    for seed, (x, label) in enumerate([(E1, 1), (E2, 0)]):
        z, given = published(x, label, classes, seed=seed, **keys)
        side = (given == 1).astype(float) - (given == 0)
        scores.append(log_ratio(z, E1[None], E2[None], "l1") / scale + side * label_epsilon)
    return lower_bound(*scores)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_label_and_features_give_the_sum_of_their_epsilons(classes):
    assert 0.8 * 2 < audit_label_and_features(classes, 2.0, 0.7) <= 2


def test_a_label_in_the_clear_is_found_out(monkeypatch):
    monkeypatch.setattr(RandomResponse, "p", 1.0)
    assert audit_label_and_features(3, 2.0, 0.7) > 5


def test_the_full_epsilon_for_features_in_addition_to_the_label_is_found_out(monkeypatch):
    plain = data_perturbation.Laplace
    monkeypatch.setattr(
        data_perturbation, "Laplace", lambda epsilon, sensitivity: plain(epsilon=2.0, sensitivity=sensitivity)
    )
    assert audit_label_and_features(2, 2.0, 1.0) > 2.2


def test_as_coded_the_features_have_epsilon_and_the_label_is_given_away():
    keys = {"mode": "as-coded", "epsilon": 1.5}
    (here, label), (there, other) = (published(x, y, 3, seed=s, **keys) for s, (x, y) in enumerate([(E1, 1), (E2, 0)]))
    same_label = lower_bound(*(log_ratio(z, E1[None], E2[None], "l1") for z in (here, there)))
    assert 0.8 * 1.5 < same_label <= 1.5  # the features do not depend on the label
    assert lower_bound(label.astype(float), other.astype(float)) > 5


def audit_node(unit, epsilon):
    """Both records of a node are replaced."""
    outputs = [
        published(x, label, 2, copies=2, unit=unit, epsilon=epsilon, seed=seed)[0]
        for seed, (x, label) in enumerate([(E1, 1), (E2, 0)])
    ]
    return lower_bound(*(log_ratio(z, [E1, E1], [-E2, -E2], "l1") for z in outputs))


def test_a_whole_node_has_epsilon_when_it_is_the_unit_and_twice_that_when_its_records_are():
    assert 0.7 * 1.5 < audit_node("node", 1.5) <= 1.5
    assert 1.5 < audit_node("record", 1.5) <= 3


# Noisy gradients


def visited(records, classes, epsilon, **keys):
    """Zero models after one visit each to nodes of equal records: what was learned, [n, models, d], in gradients."""
    k, seed = len(records), keys.pop("seed", 1)
    x, label = np.array([x for x, _ in records]), np.array([label for _, label in records], np.int32)
    raw = make_raw([(x, label)], classes)
    raw = type(raw)(np.tile(x, (DRAWS, 1)), np.tile(label, DRAWS), np.full(DRAWS, k), classes)
    world = make_world(DRAWS, layers=["layer"])
    peers = make_layer(GivenPeers, world, "peers")
    layer = GradientPerturbation(
        "layer",
        GradientPerturbation.Config(name="layer", use="test", peers=peers, records=raw, epsilon=epsilon, **keys),
        seed,
        HERE,
    )
    layer.setup(world)
    noise, budget = layer._privacy()
    models = raw.models
    w, age, path = np.zeros((DRAWS * models, 2), np.float32), np.zeros(DRAWS, np.int32), np.arange(DRAWS)[:, None]
    rule = rule_of("pegasos", 1.0, False)
    tail = Tail(np.zeros(0, np.int64), np.zeros((0, w.shape[1])), np.zeros((0, w.shape[1])))
    visit(path.astype(np.int32), w, age, models, raw.rows, rule, noise, budget, np.zeros(2, np.int64), tail)
    assert (age == 1).all()
    return w.reshape(DRAWS, models, 2).astype(np.float64)


def audit_visit(here, there, classes, epsilon, broken=1.0, norm="l1", **keys):
    """The lower bound for two nodes' records; a broken factor divides the noise."""
    plain = [visited(r, classes, math.inf, norm=norm, **keys)[0] for r in (here, there)]
    outputs = [
        visited(r, classes, epsilon * broken, norm=norm, seed=seed, **keys) for seed, r in enumerate((here, there))
    ]
    return lower_bound(*(log_ratio(w, *plain, norm) for w in outputs))


ONE, OTHER = [(E1, 1)], [(E2, 0)]


def test_one_visit_to_one_record_costs_its_epsilon_and_half_the_noise_is_found_out():
    assert 0.8 * 1.5 < audit_visit(ONE, OTHER, 2, 1.5) <= 1.5
    assert audit_visit(ONE, OTHER, 2, 1.5, broken=2) > 2


def test_a_visit_with_l2_noise_costs_its_epsilon_and_half_the_noise_is_found_out():
    flipped = [(E1, 0)]
    assert 0.5 * 2 < audit_visit(ONE, flipped, 2, 2.0, norm="l2") <= 2
    assert audit_visit(ONE, flipped, 2, 2.0, norm="l2", broken=2) > 2


def audit_gaussian_visit(classes, epsilon, broken=1.0, **keys):
    """The lower bound at δ for a visit with Gaussian noise."""
    settings = NORMAL | keys
    plain = [visited(r, classes, math.inf, **settings)[0] for r in (ONE, [(E1, 0)])]
    outputs = [visited(r, classes, epsilon, seed=seed, **settings) for seed, r in enumerate((ONE, [(E1, 0)]))]
    noisy = [p + (w - p) / broken for w, p in zip(outputs, plain, strict=True)]
    return lower_bound_at(NORMAL["delta"], *(along(w, *plain) for w in noisy))


def test_a_visit_with_gaussian_noise_costs_its_epsilon_at_delta_and_half_the_noise_is_found_out():
    assert 0.8 * 2 < audit_gaussian_visit(2, 2.0) <= 2
    assert audit_gaussian_visit(2, 2.0, broken=2) > 4
    assert 0.5 < audit_gaussian_visit(3, 2.0) <= 2


def test_one_of_four_gaussian_visits_has_half_of_mu():
    schedule = {"kind": "uniform", "visits": 4}
    mu = gaussian.mu_of(4.0, 0.05) / 2
    stated = gaussian.epsilon_of(mu, 0.05)
    assert 0.85 * stated < audit_gaussian_visit(2, 4.0, schedule=schedule) <= stated


def test_three_models_cost_epsilon_together_and_undivided_noise_is_found_out():
    assert 0.6 * 1.5 < audit_visit(ONE, OTHER, 3, 1.5) <= 1.5
    assert audit_visit(ONE, OTHER, 3, 1.5, broken=3) > 2.5


def test_as_coded_three_models_cost_three_times_epsilon():
    assert 0.6 * 1.5 < audit_visit(ONE, OTHER, 3, 0.5, rule="as-coded") <= 1.5


def test_one_record_of_a_batch_of_two_has_epsilon():
    rest = (E1, 0)
    assert 0.8 * 1.5 < audit_visit([*ONE, rest], [*OTHER, rest], 2, 1.5) <= 1.5


def test_a_whole_batch_has_epsilon_when_the_node_is_the_unit_and_more_when_the_record_is():
    assert 0.8 * 1.5 < audit_visit(ONE * 2, OTHER * 2, 2, 1.5, unit="node") <= 1.5
    assert audit_visit(ONE * 2, OTHER * 2, 2, 1.5, unit="record") > 2


def test_one_of_two_visits_costs_half():
    schedule = {"kind": "uniform", "visits": 2}
    assert 0.8 * 1.5 < audit_visit(ONE, OTHER, 2, 3.0, schedule=schedule) <= 1.5
    assert 0.8 * 1.5 < audit_visit(ONE, OTHER, 2, 3.0, schedule={"kind": "halving"}) <= 1.5


# Means of groups


PAIRS = 50_000


def means(trust, side, epsilon=1.5, seed=1, d=2, **keys):
    """What many groups of a small member (n = 1) and a large one (n = 4) publish, and what the small member sends.

    In groups of one it is what the small member alone publishes. The small member's model lies as far on a side as one
    record can move it.
    """
    counts = np.tile([1, 4], PAIRS)
    raw = RawRecords(np.zeros((counts.sum(), d), np.float32), np.zeros(counts.sum(), np.int32), counts, 2)
    world = make_world(counts.size, layers=["local", "layer"])
    local = make_layer(RegularisedErm, world, "local", records=raw, **{"lambda": 0.5})
    local.lam[:], local.stop[:] = 0.5, counts
    local.w[::2] = side / (1 * 0.5) / math.sqrt(d)  # of L2 length 1/(nλ) in either direction
    settings = {"group": 2, "epsilon": epsilon, "sum": "plain", "trust": trust} | keys
    layer = make_layer(GroupAggregation, world, seed=seed, local=local, **settings)
    at_cycle(world, 1)
    each = settings["group"]
    layer.group_of[:] = np.arange(counts.size) // each * each
    layer.phase[::each], layer.ready[:], layer.begun[:] = FORMED, True, 1
    layer._send(at_cycle(world, 2))
    sent = layer.upload[::2].copy()
    layer._publish(at_cycle(world, 3))
    published = layer.published[: layer.number : 3 - each].astype(np.float64)
    return layer, published, sent.reshape(PAIRS, 1, d)


def audit_means(trust, of=1, norm="l2", **keys):
    """The lower bound from published means (`of` = 1), or from what the small member sends (2), and the layer."""
    d = keys.get("d", 2)
    found = [means(trust, side, seed=seed, **keys) for seed, side in enumerate((1.0, -1.0))]
    at = np.full((1, d), 1 / 0.5 / math.sqrt(d) / (keys.get("group", 2) if of == 1 else 1))
    return lower_bound(*(log_ratio(each[of], at, -at, norm) for each in found), keys.get("delta", 0.0)), found[0][0]


def halved(monkeypatch):
    monkeypatch.setattr(GroupAggregation, "_scale", lambda self, moves: moves * self._shape[0] / self.config.cost / 2)


def test_a_mean_with_the_curators_noise_gives_its_epsilon_and_half_of_it_is_found_out(monkeypatch):
    assert 0.5 * 1.5 < audit_means("curator")[0] <= 1.5
    halved(monkeypatch)
    assert audit_means("curator")[0] > 1.5


GAUSSIAN = {"noise": "gaussian", "delta": 0.01, "norm": "gaussian"}
GAUSSIANS = {"curator": {}, "none": {"of": 2}, "honest": {"honest": 2}}


@pytest.mark.parametrize("trust", GAUSSIANS)
def test_gaussian_noise_gives_its_epsilon_at_its_delta_and_half_of_it_is_found_out(trust, monkeypatch):
    keys = GAUSSIAN | GAUSSIANS[trust]
    assert 0.5 * 1.5 < audit_means(trust, **keys)[0] <= 1.5
    plain = GroupAggregation._scale
    monkeypatch.setattr(GroupAggregation, "_scale", lambda self, moves: plain(self, moves) / 2)
    assert audit_means(trust, **keys)[0] > 1.5


def test_one_of_two_gaussian_shares_is_found_out():
    assert audit_means("honest", honest=2, of=2, **GAUSSIAN)[0] > 1.5


def test_a_quorum_of_one_of_two_gets_twice_the_noise():
    """Which is more than a mean of two needs: so much that a mean of one would have its ε."""
    assert 0.4 * 1.5 / 2 < audit_means("curator", quorum=1)[0] <= 1.5 / 2
    assert 0.4 * 1.5 < audit_means("curator", group=1)[0] <= 1.5


def test_noise_for_the_large_member_does_not_cover_the_small_one(monkeypatch):
    least = GroupAggregation._moves
    monkeypatch.setattr(GroupAggregation, "_moves", lambda self, nodes: np.full(nodes.size, least(self, nodes).min()))
    assert audit_means("curator")[0] > 1.5


def test_what_a_member_sends_has_its_epsilon_against_all_when_nobody_is_trusted(monkeypatch):
    assert 0.5 * 1.5 < audit_means("none", of=2)[0] <= 1.5
    assert audit_means("none")[0] <= 1.5
    halved(monkeypatch)
    assert audit_means("none", of=2)[0] > 1.5


def test_shares_of_two_members_give_epsilon_together_and_one_alone_does_not(monkeypatch):
    assert 0.5 * 1.5 < audit_means("honest", honest=2)[0] <= 1.5
    assert audit_means("honest", honest=2, of=2)[0] > 1.5
    plain = group_aggregation.perturb_models

    def too_small(nodes, cycle, kind, scale, honest, key, w):
        plain(nodes, cycle, kind, scale, 4 * honest, key, w)

    monkeypatch.setattr(group_aggregation, "perturb_models", too_small)
    assert audit_means("honest", honest=2)[0] > 1.5


def test_shares_for_each_members_own_records_would_not_cover_the_small_member(monkeypatch):
    """The large member's share would be a quarter of what it has to be."""
    monkeypatch.setattr(GroupAggregation, "_largest", staticmethod(lambda groups, moves: moves[1::2]))
    assert audit_means("honest", honest=2)[0] > 1.5


def test_noise_as_published_gives_more_than_its_epsilon_and_at_most_what_is_stated():
    found, layer = audit_means("as-published", norm="l1", d=4, epsilon=2.0, group=1)
    stated = layer.guarantee().epsilon
    assert stated == pytest.approx(2.0 * math.sqrt(4), rel=1e-3)
    assert 1.2 * 2.0 < found <= stated
    _, pairs = audit_means("as-published", norm="l1", d=4, epsilon=2.0)
    assert pairs.guarantee().epsilon == pytest.approx(2.0 * math.sqrt(4) / 2, rel=1e-3)
