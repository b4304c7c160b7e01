"""Records that are reconstructed from the models that a peer receives, against what the peer can know."""

import naive
import numpy as np
import pytest
from helpers import (
    HERE,
    GivenPeers,
    assert_same_state,
    at_cycle,
    finished,
    make_layer,
    make_raw,
    make_world,
    needs_jit,
    simulation,
    tree,
)

from golfsim.core.errors import UserError
from golfsim.learning.exposure import NOBODY, Exposure
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint, inversion
from golfsim.testing import rows
from protocols.golf import Golf

PEERS = {"name": "peers", "use": "uniform"}
WALK = {"name": "learning", "use": "random_walk", "peers": "peers", "records": "raw", "learner": "mean"}
GOLF = WALK | {"use": "golf"}
NOISY = WALK | {"use": "gradient_perturbation"}
SMALL = {"set": "segmentation", "train": 12, "test": 40, "scale": ["minmax", "l1"]}
SPAM = {"set": "spambase", "scale": ["minmax", "l1"]}
CHURN = [{"kind": "rate", "leave": 0.1, "rejoin": 0.5, "return": "afresh"}]
ALL = {"attacks": ["inversion"], "attackers": "all"}


def attacked(*layers, data=SMALL, cycles=60, observe=ALL, **tables):
    how = {"data": data, "nodes": {"records": 1}, "cycles": cycles, "observe": {"every": cycles, "nodes": 5} | observe}
    return tree(PEERS, *layers, **(how | tables))


def measured(*layers, **how):
    return finished(attacked(*layers, **how)).latest[layers[0]["name"]]


WAYS = [
    *({"variant": v, "average": a} for v in ("rw", "mu", "um", "own", "algorithm1") for a in ("plain", "age")),
    {"variant": "own", "initial_update": True},
    {"variant": "rw", "initial_update": True},
    {"variant": "own", "limit": 1},
    {"flow": {"kind": "simple", "capacity": 3}},
    {"times": 2},
]


@needs_jit
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_without_noise_golf_reveals_every_exposed_record_in_spite_of_loss_and_churn(way):
    found = measured(GOLF | way, churn=CHURN, transport={"loss": 0.1})
    assert found["inversion.exposed"] > 0.02
    assert found["inversion.cosine"] > 0.9999
    assert found["inversion.label"] == found["inversion.close"] == 1


@needs_jit
@pytest.mark.parametrize(
    ("way", "delay"),
    [
        ({}, 0),
        ({"hops": 5}, 0),
        ({"restart": "afresh"}, 0),
        ({"restart": "afresh"}, [1, 3]),
        ({"restart": "resend"}, 2),
    ],
)
def test_without_noise_a_walk_reveals_every_exposed_record(way, delay):
    found = measured(WALK | {"walkers": 3} | way, churn=CHURN, transport={"loss": 0.1, "delay": delay})
    assert found["inversion.exposed"] > 0.02
    assert found["inversion.cosine"] > 0.9999
    assert found["inversion.label"] == 1


def test_a_tour_exposes_the_nodes_between_two_colluding_ones_and_nobody_to_a_single_one():
    tour = WALK | {"path": "tour", "hops": "all"}
    assert (
        measured(tour, cycles=5)["inversion.exposed"] <= 1 / 12
    )  # the first node of the walk has a public model before
    together = measured(tour, cycles=20, observe=ALL | {"attackers": 6, "collude": True})
    assert together["inversion.exposed"] == 1
    assert together["inversion.cosine"] > 0.9999


def test_a_walk_exposes_what_its_path_says():
    run = simulation(attacked(WALK))
    layer, path = run.layer("learning"), []
    for _ in run:
        path.append(int(layer.at[0]))
    pairs = {(c, b) for a, b, c in zip(path, path[1:], path[2:], strict=False) if a == c}
    pairs |= {(path[1], path[0])}  # the first model is public
    assert set(run.observer.exposures["learning"].found) == {(v, int(run.raw.first[u])) for v, u in pairs}


# Golf, message by message: node 0 attacks


def exposed_by(variant, *messages):
    """How often record 1 is exposed to node 0 by messages (sender, receiver), one per cycle."""
    world = make_world(3, layers=("layer", "peers"))
    peers = make_layer(GivenPeers, world, "peers")
    records = make_raw([([[0.5, 0.5]], [1]), ([[0.2, 0.8]], [0]), ([[0.9, 0.1]], [1])], 2)
    golf = make_layer(Golf, world, peers=peers, records=records, learner="mean", variant=variant)
    exposure = Exposure(np.array([0, NOBODY, NOBODY], np.int32))
    assert golf.expose(exposure, world)
    golf.start(world, np.arange(3, dtype=np.int32))
    for cycle, (sender, receiver) in enumerate(messages, 1):
        peers._peer = np.where(np.arange(3) == sender, receiver, -1).astype(np.int32)
        golf.step(at_cycle(world, cycle))
    assert set(exposure.found) <= {(0, 1), (0, 2)}
    note = exposure.found.get((0, 1))
    if note is not None:  # −x, since the label is 0
        assert inversion.cosines(note.w, np.array([[-0.2, -0.8]])) == pytest.approx([1.0], abs=1e-5)
    return 0 if note is None else int(note.numbers[0])


@pytest.mark.parametrize("variant", ["rw", "mu", "um", "own", "algorithm1"])
def test_an_answer_exposes_the_record_once_unless_another_message_came_between(variant):
    assert exposed_by(variant, (0, 1), (1, 0)) == 1
    assert exposed_by(variant, (0, 1), (1, 2)) == 0
    assert exposed_by(variant, (0, 1), (1, 0), (1, 0)) == 1  # the second one tells nothing new
    assert exposed_by(variant, (0, 1), (2, 1), (1, 0)) == 0
    assert exposed_by(variant, (0, 1), (0, 2), (2, 0), (1, 0)) == 1


@pytest.mark.parametrize(("variant", "again"), [("rw", 2), ("own", 2), ("algorithm1", 2), ("mu", 2), ("um", 2)])
def test_a_second_exchange_exposes_the_record_again(variant, again):
    assert exposed_by(variant, (0, 1), (1, 0), (0, 1), (1, 0)) == again


@pytest.mark.parametrize(("variant", "times"), [("rw", 1), ("own", 0), ("algorithm1", 0), ("mu", 0), ("um", 0)])
def test_after_a_message_of_another_node_only_a_walk_is_exposed_by_one_answer(variant, times):
    assert exposed_by(variant, (2, 1), (0, 1), (1, 0)) == times


@pytest.mark.parametrize(("variant", "times"), [("own", 1), ("algorithm1", 1), ("mu", 0), ("um", 0)])
def test_the_model_before_is_known_if_the_node_has_sent_it(variant, times):
    assert exposed_by(variant, (2, 1), (1, 0), (0, 1), (1, 0)) == times


@pytest.mark.parametrize(("variant", "times"), [("own", 0), ("algorithm1", 0), ("mu", 1), ("um", 1)])
def test_the_last_received_model_is_known_if_the_attacker_has_sent_it(variant, times):
    assert exposed_by(variant, (2, 1), (0, 1), (0, 1), (1, 0)) == times


def test_a_node_with_two_records_exposes_neither():
    found = measured(GOLF | {"variant": "rw"}, nodes={"records": 2})
    assert set(found) & {"inversion.exposed", "inversion.cosine"} == {"inversion.exposed"}
    assert found["inversion.exposed"] == 0


# With noise


@needs_jit
@pytest.mark.parametrize("layer", [NOISY | {"walkers": 6}, GOLF | {"variant": "rw"}], ids=lambda layer: layer["use"])
def test_less_epsilon_hides_more(layer):
    how = {"data": SPAM | {"train": 60, "test": 60}, "cycles": 300, "observe": ALL | {"attackers": 30, "collude": True}}
    noisy = layer | {"schedule": {"kind": "uniform", "visits": 10}}
    found = [measured(noisy | {"epsilon": epsilon}, **how) for epsilon in (10.0, 1000.0, 30_000.0)]
    cosine = [one["inversion.cosine"] for one in found]
    assert cosine[0] < 0.5
    assert cosine[0] < cosine[1] < cosine[2]
    assert cosine[2] > 0.9


@needs_jit
def test_labels_are_reconstructed_from_one_noisy_gradient_as_often_as_theory_says():
    walk = NOISY | {"walkers": 50, "epsilon": 20.0}
    how = {"data": SPAM | {"train": 4000, "test": 60}, "cycles": 700}
    found = measured(walk, observe=ALL | {"attackers": 2000, "collude": True}, **how)
    # The normalised difference is yx + Laplace(2/ε), as a published record. About 400 records: 4 sd are .08.
    assert found["inversion.exposed"] > 0.15
    assert found["inversion.label"] == pytest.approx(naive.label_recovery(20.0, 57), abs=0.08)


@needs_jit
def test_a_visit_after_the_budget_is_spent_exposes_nothing():
    walk = NOISY | {"walkers": 3, "epsilon": 1000.0}
    found = [measured(walk, cycles=cycles)["inversion.exposed"] for cycles in (200, 400)]
    assert found[0] == found[1]
    golf = GOLF | {"epsilon": 1000.0, "schedule": {"kind": "uniform", "visits": 3}}
    run = simulation(attacked(golf))
    layer, seen = run.layer("learning"), []
    for _ in run:
        seen.append(
            (
                int(layer.ledger.visits.min()),
                sum(n.numbers[0] for n in run.observer.exposures["learning"].found.values()),
            )
        )
    after = [count for visits, count in seen if visits == 3]
    assert len(after) > 20
    # An update before may be heard of a little later.
    assert after[-1] == after[10]


def published(epsilon, **keys):
    layer = {"name": "published", "use": "data_perturbation", "epsilon": epsilon} | keys
    observe = {"attacks": ["inversion", "label"]}
    return measured(layer, data=SPAM | {"train": 800, "test": 60}, cycles=1, observe=observe)


@needs_jit
def test_published_records_are_their_own_reconstruction():
    found = published(float("inf"))
    assert found["inversion.cosine"] == pytest.approx(1, abs=1e-6)
    assert found["inversion.exposed"] == found["inversion.label"] == 1
    noisy = published(20.0)
    assert noisy["inversion.label"] == noisy["label.sum"]
    assert published(5.0)["inversion.cosine"] < noisy["inversion.cosine"] < 0.9


# Reconstruction


def test_classes_and_features_follow_from_the_sums():
    x = np.array([0.1, 0.6, 0.3])
    seen = np.stack([np.array([-2.0, 1.0, 0.0])[:, None] * x, np.array([1.0, -3.0, -1.0])[:, None] * x])
    found, label = inversion.reconstructed(seen, True)
    assert label.tolist() == [1, 0]
    assert inversion.cosines(found, np.stack([x, x])) == pytest.approx([1, 1])
    found, label = inversion.reconstructed(seen, False)
    assert label is None
    assert inversion.cosines(found, np.stack([x, x])) == pytest.approx([-1, -1])


def test_the_cosine_of_a_row_of_zeros_is_zero():
    assert inversion.cosines(np.zeros((1, 2)), np.ones((1, 2))).tolist() == [0]


def test_an_update_without_a_step_reveals_nothing():
    raw = make_raw([([[0.5, 0.5]], [1])], 2)
    exposure = Exposure(np.array([NOBODY, 0], np.int32))
    exposure.add(0, 0, np.array([[1e-4, 1e-4]]), 1.0, 1e4, raw.rows)
    assert exposure.found[0, 0].w.tolist() == [[0, 0]]
    exposure.add(0, 0, np.array([[1.0, 3.0]]), 2.0, 1e4, raw.rows)
    exposure.add(0, 0, np.array([[1.0, 3.0]]), float("inf"), 1e4, raw.rows)
    assert exposure.found[0, 0].w.tolist() == [[1.5, 4.5]]


def test_the_share_of_exposed_records_leaves_out_the_attackers_own():
    raw = make_raw([([[0.5, 0.5]], [1]), ([[0.5, 0.5]], [1]), ([[0.5, 0.5]] * 2, [1, 0])], 2)
    for group, pairs in (([0, NOBODY, NOBODY], 3), ([0, 0, NOBODY], 2), ([0, 1, NOBODY], 6), ([0, 1, 2], 8)):
        exposure = Exposure(np.array(group, np.int32))
        exposure.add(0, 1, np.ones((1, 2)), 1.0, 1.0, raw.rows)
        assert inversion.of_models(exposure, raw, None)["inversion.exposed"] == 1 / pairs


def test_attackers_are_drawn_once_and_form_groups():
    key = np.uint64(7)
    alone, together = (inversion.groups(key, 20, 5, collude) for collude in (False, True))
    assert sorted(alone[alone != NOBODY].tolist()) == [0, 1, 2, 3, 4]
    assert ((alone != NOBODY) == (together == 0)).all()
    assert (inversion.groups(key, 20, 50, False) != NOBODY).all()


# The run


@pytest.mark.parametrize("layer", [GOLF, WALK | {"hops": 3}], ids=lambda layer: layer["use"])
def test_the_attack_changes_nothing_else(layer):
    without, watched = finished(attacked(layer, observe={})), finished(attacked(layer), threads=2)
    kept = [row for row in rows(watched) if "inversion" not in str(row)]
    assert kept == rows(without)
    assert_same_state(without.layer("learning"), watched.layer("learning"))


@pytest.mark.parametrize("layer", [GOLF | {"initial_update": True}, WALK], ids=lambda layer: layer["use"])
@pytest.mark.parametrize("at", [1, 17, 59])
def test_what_attackers_know_survives_an_interruption(tmp_path, layer, at):
    made = attacked(layer, observe=ALL | {"every": 10})
    run = simulation(made)
    for _ in range(at):
        run.step()
    checkpoint.save(run, tmp_path / "state")
    resumed = simulation(made)
    checkpoint.load(resumed, tmp_path / "state")
    for _ in resumed:
        pass
    assert rows(resumed) == rows(finished(made))


@pytest.mark.parametrize(
    ("layer", "tables", "said"),
    [
        (GOLF, {"transport": {"delay": 1}}, "not defined with messages with a delay"),
        (GOLF | {"message": {"codec": "float16"}}, {}, "not defined with message"),
        (GOLF | {"clip": 1.0}, {}, "not defined with clip"),
        (GOLF | {"merge": "median", "cache": 3}, {}, "not defined with merge"),
        (GOLF | {"accept": "older"}, {}, "not defined with accept"),
        (GOLF | {"receive": "next-turn"}, {}, "not defined with receive"),
        (GOLF | {"learner": "softmax"}, {}, "which is not linear"),
        (WALK | {"learner": "softmax"}, {}, "are not linear"),
        (GOLF, {"adversary": [{"kind": "noise", "share": 0.1, "scale": 1.0}]}, "nodes that send false models"),
    ],
)
def test_what_the_attack_cannot_use_is_refused(layer, tables, said):
    with pytest.raises(UserError, match=said) as caught:
        simulation(attacked(layer, **tables))
    assert caught.value.key == "observe.attacks"


@pytest.mark.parametrize("key", ["attackers", "collude"])
def test_its_settings_need_the_attack(key):
    with pytest.raises(UserError, match=f"{key}: only with the attack “inversion”"):
        Scenario.of(attacked(GOLF, observe={key: 2 if key == "attackers" else True}), HERE)


def test_layers_that_learn_from_published_records_are_not_attacked():
    layers = {"name": "published", "use": "data_perturbation", "epsilon": 5.0}, GOLF | {"records": "published"}
    run = finished(attacked(*layers, cycles=3))
    assert "inversion.cosine" in run.latest["published"]
    assert not [name for name in run.latest["learning"] if "inversion" in name]
