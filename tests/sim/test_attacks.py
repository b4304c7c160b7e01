"""How well labels and membership are guessed, against what theory says."""

from types import SimpleNamespace

import naive
import numpy as np
import pytest
from helpers import finished, make_raw, make_world, needs_jit, simulation, tree

from golfsim.core import rng
from golfsim.protocol.learner import score
from golfsim.sim import attacks
from protocols.data_perturbation import DataPerturbation

PEERS = {"name": "peers", "use": "uniform"}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 2.0}
SPAMBASE = {"set": "spambase", "scale": ["minmax", "l1"], "bounds": "train"}
SMALL = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
KEY = rng.key(1, "observe", "attack")


def recovery(epsilon, data=SPAMBASE, **keys):
    layer = PUBLISHED | {"epsilon": epsilon} | keys
    run = finished(tree(PEERS, layer, data=data, nodes={}, cycles=1, observe={"every": 1, "attacks": ["label"]}))
    return run.latest["published"]


@needs_jit
@pytest.mark.parametrize(("epsilon", "stated"), [(50.0, 0.99), (10.0, 0.68), (1.0, 0.52)])
def test_the_sign_of_the_sum_tells_labels_of_spambase_as_often_as_theory_says(epsilon, stated):
    found = recovery(epsilon)
    # PRIVACY.md: Φ(ε/√(8d)). A share of 4000 records has an sd of .008 at most; four of these: one in 15,000.
    assert naive.label_recovery(epsilon, 57) == pytest.approx(stated, abs=0.006)
    assert found["label.sum"] == pytest.approx(naive.label_recovery(epsilon, 57), abs=0.032)
    assert found["label.base"] == pytest.approx(0.606, abs=0.02)  # 2788 of 4601


@needs_jit
def test_without_noise_both_attacks_know_every_label():
    found = recovery(float("inf"))
    assert found["label.sum"] > 0.999
    assert found["label.linear"] > 0.999


@needs_jit
def test_under_heavy_noise_the_linear_attack_does_no_better_than_the_largest_class():
    # A share of 2000 records has an sd of .011; under heavy noise a ridge can also guess a little worse than that.
    found = recovery(0.01)
    assert found["label.linear"] < found["label.base"] + 0.035
    assert found["label.sum"] == pytest.approx(0.5, abs=0.032)


@needs_jit
@pytest.mark.parametrize("mode", ["per-class", "joint", "label+features"])
def test_more_epsilon_gives_more_labels_away_in_every_mode(mode):
    data = {"set": "segmentation", "scale": ["minmax", "l1"], "bounds": "train"}
    low, high = (recovery(epsilon, data, mode=mode)["label.sum"] for epsilon in (1.0, 200.0))
    assert low < 0.4
    assert high > 0.9


def test_a_label_by_random_response_is_recovered_as_often_as_it_is_true():
    data = {"set": "random", "train": 1000, "test": 30, "scale": ["minmax", "l1"]}
    found = recovery(3.0, data, mode="label+features", label_epsilon=1.0)
    # The sd of a share of 1000 is .014; four of these.
    assert found["label.sum"] == pytest.approx(naive.response_probabilities(2, 1.0)[0, 0], abs=0.056)


def test_as_coded_every_label_is_recovered_whatever_epsilon_is():
    found = recovery(0.5, {"set": "random", "train": 400, "test": 30, "scale": ["minmax", "l1"]}, mode="as-coded")
    assert found["label.sum"] == found["label.linear"] == 1


def test_the_attack_sees_what_was_published_and_nothing_else():
    run = simulation(tree(PEERS, PUBLISHED, data=SMALL, nodes={"records": 2}))
    run.step()
    published, raw, world = run.layer("published"), run.raw, run.world
    before = attacks.label_recovery(published, raw, KEY, world)
    raw._x[:] = 0
    assert attacks.label_recovery(published, raw, KEY, world) == before
    published.z[:] *= -1
    flipped = attacks.label_recovery(published, raw, KEY, world)
    assert flipped["label.sum"] == pytest.approx(1 - before["label.sum"])


def test_three_records_are_too_few_for_an_attack():
    raw = make_raw([(np.eye(3), [0, 1, 1])], 2)
    world = make_world(1)
    layer = DataPerturbation("layer", DataPerturbation.Config(name="layer", use="test", records=raw, epsilon=1.0), 1)
    layer.setup(world)
    assert attacks.label_recovery(layer, raw, KEY, world) == {}


def test_only_published_records_are_attacked():
    churn = [{"kind": "rate", "leave": 0.3, "rejoin": 0.3}, {"kind": "join", "share": 0.7, "until": 9}]
    run = simulation(tree(PEERS, PUBLISHED, data=SMALL, nodes={"records": 2}, churn=churn, cycles=20))
    shares = []
    for _ in run:
        found = run.raw.published_by(run.layer("published"))
        assert found.tolist() == np.repeat(run.world.seen, 2).tolist()
        shares.append(found.mean())
    assert shares[0] < shares[5] < shares[-1] == 1


def test_retired_records_are_not_published_any_more():
    nodes = {"records": 8, "arrival": {"start": 0.25, "rate": 1.0, "keep": 3}}
    run = simulation(tree(PEERS, PUBLISHED, data=SMALL, nodes=nodes, cycles=10))
    for _ in run:
        found = np.flatnonzero(run.raw.published_by(run.layer("published")))
        rows = run.raw.rows
        assert found.tolist() == [r for a, b in zip(rows.first, rows.stop, strict=True) for r in range(a, b)]


# Membership


def learner(w):
    """Models w [holders, models, features] as a layer."""
    return SimpleNamespace(scores=lambda nodes, x: score(w[nodes], x))


def advantage(w, members, others, holders=None):
    holders = np.arange(len(w), dtype=np.int32) if holders is None else holders
    return attacks.membership(learner(w), holders, members, others)["membership.advantage"]


def some(generator, n, classes, d=40):
    x = generator.random((n, d)).astype(np.float32)
    return x, generator.integers(0, classes, n).astype(np.int32)


@pytest.mark.parametrize("classes", [2, 4])
def test_random_models_reveal_nothing_about_membership(rng, classes):
    n = 400
    for _ in range(5):
        w = rng.normal(size=(3, 1 if classes == 2 else classes, 40)).astype(np.float32)
        # By chance both shares differ by t or more with probability exp(−n t²) (Smirnov 1939): one in 1000 here.
        assert 0 <= advantage(w, some(rng, n, classes), some(rng, n, classes)) < np.sqrt(np.log(1000 * 5) / n)


@pytest.mark.parametrize("classes", [2, 4])
def test_an_overfitted_model_gives_its_members_away(rng, classes):
    x, y = some(rng, 30, classes)
    targets = np.where(y[:, None] == np.arange(classes), 1.0, -1.0)
    targets = targets[:, 1:] if classes == 2 else targets
    w = np.linalg.lstsq(x - 0.0, targets, rcond=None)[0].T[None].astype(np.float32)  # 40 features fit 30 records
    assert advantage(w, (x, y), some(rng, 300, classes)) > 0.6


@pytest.mark.parametrize("classes", [2, 3])
def test_confidence_is_the_margin_of_the_true_class_by_the_mean_model(rng, classes):
    w = rng.normal(size=(4, 1 if classes == 2 else 3, 5)).astype(np.float32)
    x, y = some(rng, 9, classes, 5)
    holders = np.array([0, 3], np.int32)
    found = attacks.confidence(learner(w), holders, x, y)
    for record, confidence in enumerate(found):
        scores = [float(np.mean([w[h, m] @ x[record] for h in holders])) for m in range(w.shape[1])]
        if classes == 2:
            expected = scores[0] if y[record] == 1 else -scores[0]
        else:
            expected = scores[y[record]] - max(s for m, s in enumerate(scores) if m != y[record])
        assert confidence == pytest.approx(expected, abs=1e-5)


def test_the_advantage_is_the_largest_difference_of_the_two_rates():
    w = np.ones((1, 1, 1), np.float32)
    inside, outside = np.array([1, 2, 3, 4]), np.array([0.5, 1.5, 2.5, 5])

    def with_label_one(values):
        return values[:, None].astype(np.float32), np.ones(len(values), np.int32)

    # Above 2.5 are 2 of 4 and 1 of 4; above .5 all and 3 of 4: one quarter is the most.
    assert advantage(w, with_label_one(inside), with_label_one(outside)) == 0.25
    assert advantage(w, with_label_one(inside + 10), with_label_one(outside)) == 1
    assert advantage(w, with_label_one(outside - 10), with_label_one(inside)) == 0


def test_attacks_are_logged_where_they_are_asked_for():
    layers = [PEERS, PUBLISHED, {"name": "learning", "use": "golf", "peers": "peers", "records": "published"}]
    table = tree(*layers, data=SMALL, nodes={"records": 2})
    assert not [name for name in finished(table).log.names if "label" in name[1] or "membership" in name[1]]
    found = set(finished(table | {"observe": {"every": 1, "attacks": ["label", "membership"]}}).log.names)
    assert {("published", "label.sum"), ("published", "label.linear"), ("published", "label.base")} <= found
    assert ("learning", "membership.advantage") in found
