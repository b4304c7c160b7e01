"""What nodes learn about each other from a model that walks: against a slow twin, and exact values where known."""

import math

import naive
import numpy as np
import pytest
from helpers import finished, learning_tree
from hypothesis import given, settings
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.privacy import gaussian, walks
from golfsim.privacy.walks import Account
from golfsim.runs.single import guarantees

NODES, WALKERS = 5, 2
PEERS = {"name": "peers", "use": "uniform"}
WALK = {
    "name": "walk", "use": "gradient_perturbation", "peers": "peers", "records": "raw", "learner": "mean",
    "epsilon": 8.0, "noise": "gaussian", "delta": 1e-5, "norm": "l2", "account": 3, "walkers": 2,
}  # fmt: skip
DATA = {"set": "random", "train": 60, "test": 30, "scale": ["minmax", "l2"]}

visits = st.tuples(
    st.integers(0, WALKERS - 1),
    st.integers(0, NODES - 1),
    st.booleans(),  # whether it updates the model
    st.floats(0.1, 3.0),
    st.booleans(),  # whether the update is firm
)


def path_of(walker, node):
    path = np.full(WALKERS, -1, np.int32)
    path[walker] = node
    return path


def account_of(history, observers):
    """The account after some visits, with μ = 1/2 each."""
    account = Account(np.array(observers, np.int32), NODES, WALKERS, len(history))
    for walker, node, updates, noise, firm in history:
        path = path_of(walker, node)
        account.arrive(path)
        account.update(path, (path >= 0) & updates, np.full(WALKERS, noise), 0.5, np.full(WALKERS, firm))
    return account


@settings(max_examples=150)
@given(st.lists(visits, max_size=25))
def test_an_observer_sees_what_the_slow_version_says(history):
    observers = [1, 3]
    account = account_of(history, observers)
    for row, observer in enumerate(observers):
        expected = np.zeros(NODES)
        for walker in range(WALKERS):
            events = []
            for who, node, updates, noise, firm in history:
                if who == walker:
                    events.append(("arrive", node))
                    events += [("update", node, noise**2, 0.5, firm)] if updates else []
            for node, square in naive.seen_on_a_walk(events, observer).items():
                expected[node] += square
        assert account.seen[row] == pytest.approx(expected, rel=1e-9)


def exact(before, rates):
    """μ of a running mean: all noise from the update on, seen in the model before the observer's own update.

    Every update with rate 1/t leaves its term with the weight 1/T in the mean of T terms: in units of this weight, one
    unit moves by μ, and each term has noise of standard deviation 1.
    """
    return 0.5 / math.sqrt(len(rates) - before)


@pytest.mark.parametrize("length", [1, 2, 5, 20])
def test_the_bound_is_not_below_the_exact_value_of_running_means(length):
    """Steps of a running mean become shorter: later noise counts less in the bound than it does in truth."""
    rates = [1 / t for t in range(1, length + 1)]
    history = [(0, 2 + k % 2, True, rate, True) for k, rate in enumerate(rates)]
    history[0] = (0, 0, True, rates[0], True)  # node 0 has the first update only
    account = account_of([*history, (0, 1, False, 1.0, True)], [1])
    seen = math.sqrt(account.seen[0, 0])
    assert exact(0, rates) - 1e-12 <= seen <= 0.5
    assert length == 1 or seen < 0.5


def test_updates_of_equal_noise_hide_each_other_by_the_root_of_their_number():
    account = account_of(
        [(0, 0, True, 1.0, True), (0, 2, True, 1.0, True), (0, 3, True, 1.0, True), (0, 1, False, 1.0, True)], [1]
    )
    assert np.sqrt(account.seen[0]) == pytest.approx([0.5 / math.sqrt(3), 0, 0.5 / math.sqrt(2), 0.5, 0])


def test_the_observers_own_noise_and_unsteady_updates_hide_nothing():
    own = account_of([(0, 0, True, 1.0, True), (0, 1, True, 9.0, True), (0, 1, False, 1.0, True)], [1])
    assert math.sqrt(own.seen[0, 0]) == pytest.approx(0.5)
    unsteady = account_of([(0, 0, True, 1.0, True), (0, 2, True, 9.0, False), (0, 1, False, 1.0, True)], [1])
    assert math.sqrt(unsteady.seen[0, 0]) == pytest.approx(0.5)


def test_two_updates_of_a_node_that_are_seen_together_add_up_and_others_add_their_squares():
    once = account_of([(0, 0, True, 1.0, True), (0, 0, True, 1.0, True), (0, 1, False, 1.0, True)], [1])
    assert math.sqrt(once.seen[0, 0]) == pytest.approx(0.5 + 0.5 / math.sqrt(2))
    apart = account_of([(0, 0, True, 1.0, True), (0, 1, False, 1.0, True)] * 2, [1])
    assert apart.seen[0, 0] == pytest.approx(2 * 0.25)


def test_the_epsilon_of_renyi_divergences_is_an_upper_bound_and_close():
    for mu in (0.1, 0.5, 2.0):
        found, tight = walks.epsilon_of(mu * mu / 2, 1e-5), gaussian.epsilon_of(mu, 1e-5)
        assert tight <= found <= 1.12 * tight + 0.01


def test_rates_are_steady_up_to_two_divided_by_the_smoothness():
    assert walks.steady(7.9, 0.0, 1.0)
    assert not walks.steady(8.1, 0.0, 1.0)
    # A step on the logistic loss at a margin of 0, where its curvature is largest: the derivative of w − η·ℓ'(w).
    for rate in (7.9, 8.1):
        assert (abs(1 - rate / 4) <= 1) == bool(walks.steady(rate, 0.0, 1.0))


def test_a_run_states_what_nodes_learn_and_less_than_the_local_epsilon():
    run = finished(learning_tree(PEERS, WALK | {"schedule": {"kind": "uniform", "visits": 4}}, data=DATA, cycles=120))
    layer = run.layer("walk")
    found = layer.pairwise()
    assert 0 < found.mean < found.largest <= 8.0
    assert "from node to node" in guarantees(run)["walk"]
    last = {name: value for (_, name), value in zip(run.log.names, run.log.values, strict=True)}
    assert last["pairwise.epsilon.mean"] == found.mean
    assert (layer.account.seen[:, layer.account.observers].diagonal() == 0).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learner": "pegasos", "lambda": 0.1}, "not known for “pegasos”"),
        ({"noise": "pure", "delta": None}, "needs noise"),
        ({"schedule": {"kind": "halving"}}, "uniform schedule"),
        ({"average": "second-half"}, "average"),
        ({"restart": "afresh"}, "restart"),
    ],
)
def test_what_cannot_be_accounted_for_is_refused(changes, words):
    layer = {key: value for key, value in (WALK | changes).items() if value is not None}
    with pytest.raises(UserError, match=words):
        finished(learning_tree(PEERS, layer, data=DATA, cycles=2))
