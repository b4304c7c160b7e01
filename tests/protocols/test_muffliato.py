"""Muffliato: the numbers with noise, the steps of gossip, and what is stated about them."""

import itertools
import json

import numpy as np
import pytest
from entries import GOSSIPED, GRAPH, VIEWS
from helpers import finished, learning_tree, tree
from naive import mixing_matrix

from golfsim.core.errors import UserError
from golfsim.privacy import gaussian, pairwise
from golfsim.protocol.moments import Noise, moments
from golfsim.protocol.records import Rows
from golfsim.runs.single import guarantees, privacy
from protocols.muffliato import MOMENTS, SECOND_MOMENTS

L2 = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l2"]}
OF_VALUES = {"use": "muffliato", "peers": "graph", "epsilon": 2.0, "delta": 1e-5}
CHURN = {"kind": "rate", "leave": 0.1, "rejoin": 0.5}


def of_values(*, nodes=40, below=GRAPH, **settings):
    layer = {"name": "subject"} | OF_VALUES | {"peers": below["name"]} | settings
    return tree(below, layer, nodes={"number": nodes})


def sums(x, label, second):
    rows = Rows(np.atleast_2d(x).astype(np.float32), np.array([label], np.int32), np.array([0]), np.array([1]), False)
    exact = Noise(np.ones(1), np.zeros(1))
    return moments(rows, np.zeros(1, np.int32), 3, exact, second, 1)[0]


@pytest.mark.parametrize(("second", "most"), [(False, MOMENTS), (True, SECOND_MOMENTS)])
def test_one_record_changes_moments_by_at_most_the_sensitivity(second, most):
    rng, largest = np.random.default_rng(1), 0.0
    for dimension, _ in itertools.product((1, 2, 3), range(100)):
        records = rng.normal(size=(2, dimension))
        records *= rng.choice([1, 1, rng.uniform()], (2, 1)) / np.linalg.norm(records, axis=1, keepdims=True)
        for one, other in itertools.product(range(2), repeat=2):
            change = sums(records[0], one, second) - sums(records[1], other, second)
            largest = max(largest, float(np.linalg.norm(change)))
    axes = sums([1, 0], 0, second) - sums([0, 1], 1, second)
    assert largest <= most * (1 + 1e-6)
    assert np.linalg.norm(axes) == pytest.approx(most)


def test_noise_has_the_scale_of_the_local_guarantee():
    run = finished(of_values(nodes=4000, epsilon=1.0, steps=1, below=VIEWS) | {"cycles": 1})
    layer = run.layer("subject")
    sigma = 1 / gaussian.mu_of(1.0, 1e-5)
    assert layer.scale == pytest.approx(sigma, rel=1e-4)
    # The standard error of a standard deviation of 4000 numbers is 1.1 %; values add a variance of 1/12.
    assert layer.own.std() == pytest.approx(np.sqrt(sigma**2 + 1 / 12), rel=0.04)


@pytest.mark.parametrize("below", [GRAPH, VIEWS], ids=["fixed", "changing"])
def test_values_are_what_the_kept_messages_say(below):
    """The account is of the messages that were used: W_T … W_1 times the first numbers are the values."""
    run = finished(
        of_values(below=below, steps=6, account="pairwise") | {"cycles": 8, "churn": CHURN, "transport": {"loss": 0.2}}
    )
    layer = run.layer("subject")
    value, mixing = layer.own.copy(), layer.mixing()
    assert mixing.steps == 6
    for step in range(mixing.steps):
        value = mixing.matrix(step) @ value
    assert layer.value == pytest.approx(value, abs=1e-12)


def test_without_losses_the_matrix_is_that_of_metropolis_and_hastings():
    run = finished(of_values(steps=3, account="pairwise") | {"cycles": 3})
    links = run.layer("graph").links(run.world).toarray()
    neighbours = [np.flatnonzero(links[i] | links[:, i]).tolist() for i in range(len(links))]
    mixing = run.layer("subject").mixing()
    assert mixing.fixed
    assert mixing.matrix(0).toarray() == pytest.approx(mixing_matrix(neighbours, "metropolis-hastings"))
    assert run.layer("subject").value.mean() == pytest.approx(run.layer("subject").own.mean())


def test_a_node_that_starts_again_sends_the_same_numbers_and_no_pairwise_epsilon_is_stated():
    scenario = of_values(steps=5, account="pairwise") | {"cycles": 10, "churn": CHURN | {"return": "afresh"}}
    before, after = finished(scenario | {"cycles": 1}).layer("subject"), finished(scenario).layer("subject")
    assert after.own[before.drawn].tolist() == before.own[before.drawn].tolist()
    assert after.resets > 0
    assert after.pairwise() is None


def test_both_guarantees_are_stated():
    scenario = learning_tree(
        GRAPH, {"name": "subject"} | GOSSIPED | {"peers": "graph", "steps": 3, "account": "pairwise"}, data=L2, cycles=3
    )
    run = finished(scenario)
    stated = guarantees(run)["subject"]
    found = run.layer("subject").pairwise()
    assert stated.startswith("ε = 20, δ = 1e-05 per record, proven; from node to node: mean ε = ")
    assert 0 < found.mean < found.largest <= 20.001
    assert json.loads(json.dumps(privacy(run)["subject"]))["pairwise"]["observers"] == found.observers


def test_some_observers_are_some_of_all():
    scenario = of_values(steps=4) | {"cycles": 4}
    runs = [finished(of_values(steps=4, account=account) | {"cycles": 4}) for account in ("pairwise", 5)]
    everyone, some = (run.layer("subject") for run in runs)
    assert some.observers().size == 5
    assert some.losses().tolist() == everyone.losses()[some.observers()].tolist()
    assert finished(scenario).layer("subject").pairwise() is None


def test_nodes_with_more_records_get_more_noise_if_all_of_them_are_protected():
    layer = GOSSIPED | {"name": "subject", "peers": "graph", "unit": "node", "steps": 2, "account": "pairwise"}
    run = finished(learning_tree(GRAPH, layer, data=L2, nodes={"records": 3, "leave_out": True}, cycles=2))
    found = run.layer("subject")
    full = found.own[:, 0] == 3
    mu = gaussian.mu_of(20.0, 1e-5)
    assert found.scale[full] == pytest.approx(3 * MOMENTS / mu, rel=1e-4)
    assert pairwise.renyi(found.losses(), mu, 2).max() == pytest.approx(mu**2)


def test_with_little_noise_models_are_those_without():
    def errors(means):
        model = {"name": "model", "use": "averaged_model", "averages": "subject"}
        spam = {"set": "spambase", "train": 200, "test": 200, "scale": ["minmax", "l2"]}
        frame = finished(learning_tree(VIEWS, {"name": "subject"} | means, model, data=spam, cycles=40)).log.frame()
        return frame[(frame.layer == "model") & (frame.metric == "error.mean")].value.iloc[-1]

    noisy = errors(GOSSIPED | {"peers": "peers", "epsilon": 1e5})
    assert noisy == pytest.approx(errors({"use": "averaging", "peers": "peers", "of": "raw"}), abs=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 3}, "each new start would spend ε again"),
        ({"initial": "peak"}, "expected “uniform”"),
        ({"account": "pairwise"}, "account: needs steps"),
        ({"account": 0, "steps": 2}, "a number of nodes ≥ 1"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(UserError, match=message):
        finished(of_values(**settings) | {"cycles": 1})


def test_numbers_of_unknown_sensitivity_are_refused():
    golf = {"name": "golf", "use": "golf", "peers": "peers", "records": "raw"}
    layer = {"name": "subject"} | GOSSIPED | {"peers": "peers", "of": "golf"}
    with pytest.raises(UserError, match="how much one record changes the numbers of “golf” is not known"):
        finished(learning_tree(VIEWS, golf, layer, data=L2, cycles=1))


def test_long_records_are_refused():
    layer = {"name": "subject"} | GOSSIPED | {"peers": "peers"}
    with pytest.raises(UserError, match="the longest record has L2 length"):
        finished(learning_tree(VIEWS, layer, data=L2 | {"set": "segmentation", "scale": ["minmax"]}, cycles=1))
