"""What one node reveals to another by gossip with noise, against dense matrices and the definition."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import mixing_matrix, seen_by, two_hypotheses

from golfsim.privacy import gaussian, pairwise
from golfsim.privacy.pairwise import Mixing


def neighbours_of(graph):
    return [sorted(graph[node]) for node in range(len(graph))]


def matrix_of(graph):
    return mixing_matrix(neighbours_of(graph), "metropolis-hastings")


def mixing(*matrices, repeat=1):
    return Mixing.of([scipy.sparse.csr_array(matrix) for matrix in matrices], repeat)


def senders_to(members, graph):
    return sorted({w for c in members for w in graph[c]} - set(members))


def hypercube(dimension):
    return nx.convert_node_labels_to_integers(nx.hypercube_graph(dimension))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), nodes=st.integers(3, 14), steps=st.integers(1, 4), members=st.integers(1, 2))
def test_the_loss_is_that_of_two_hypotheses(seed, nodes, steps, members):
    rng = np.random.default_rng(seed)
    graphs = [nx.gnp_random_graph(nodes, 0.4, seed=int(rng.integers(10**6))) for _ in range(steps)]
    noise, observers = rng.uniform(0.5, 2, nodes), sorted(rng.choice(nodes, members, replace=False).tolist())
    matrices = [matrix_of(graph) for graph in graphs]
    (found,) = pairwise.shares(mixing(*matrices), [observers], noise)
    rows = seen_by(observers, matrices, [senders_to(observers, graph) for graph in graphs])
    for node in set(range(nodes)) - set(observers):
        # In units of the node's own noise: a change by 1 is a μ of 1/noise.
        assert found[node] == pytest.approx(two_hypotheses(rows, node, noise) * noise[node] ** 2, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 8))
def test_the_same_steps_and_changing_steps_have_one_loss(seed, steps):
    matrix = matrix_of(nx.gnp_random_graph(30, 0.15, seed=seed))
    observers = [[0], [1, 2], [3]]
    fixed = pairwise.shares(mixing(matrix, repeat=steps), observers, threads=2)
    changing = pairwise.shares(mixing(*[matrix] * steps), observers)
    assert fixed == pytest.approx(changing, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 6))
def test_more_colluders_and_more_steps_reveal_more_but_never_more_than_the_node_itself(seed, steps):
    matrix = matrix_of(nx.gnp_random_graph(25, 0.15, seed=seed))
    one, two, three = pairwise.shares(mixing(matrix, repeat=steps), [[0], [0, 5], [0, 5, 9]])
    (longer,) = pairwise.shares(mixing(matrix, repeat=steps + 1), [0])
    for less, more in ((one, two), (two, three), (one, longer)):
        assert np.all(less <= more + 1e-9)
    assert np.all((one >= 0) & (three <= 1))


def test_what_does_not_arrive_reveals_nothing():
    graph = nx.path_graph(4)
    whole, cut = matrix_of(graph), matrix_of(graph)
    cut[1, 1] += cut[1, 2]
    cut[1, 2] = 0  # the message of 2 to 1 is lost in each step
    assert pairwise.shares(mixing(whole, repeat=4), [0])[0, 2:] == pytest.approx([1, 1])
    assert pairwise.shares(mixing(cut, repeat=4), [0])[0].tolist() == [1, 1, 0, 0]


def test_known_numbers_of_others_are_subtracted_and_the_published_formula_does_not_see_it():
    """On the path u – w – v, node v gets w, then a mean of u, w and itself, from which it knows u with its noise."""
    for weight in (1 / 3, 0.1):  # the second: a matrix that keeps .8 of the own number
        matrix = np.array([[1 - weight, weight, 0], [weight, 1 - 2 * weight, weight], [0, weight, 1 - weight]])
        messages = mixing(matrix, repeat=2)
        assert pairwise.shares(messages, [2])[0, 0] == pytest.approx(1)
        squared = weight**2 / (2 * weight**2 + (1 - 2 * weight) ** 2)
        assert pairwise.as_published(messages, 2)[0] == pytest.approx(squared)
        assert pairwise.as_published(messages, 2, power=1)[0] == pytest.approx(squared / weight)
    assert squared < 0.02  # a fiftieth of the true loss
    assert squared / weight < 0.2  # not squared: a fifth


def test_two_messages_that_are_almost_parallel_reveal_what_neither_does_alone():
    """Rows (0, 1) and (θ, 1) have the marginal losses 0 and θ²/(1 + θ²), and together they reveal everything."""
    matrix = np.array([[1, 0, 0], [1e-3, 1 - 1e-3, 0], [0, 0.5, 0.5]])
    messages = mixing(matrix, repeat=2)
    assert pairwise.as_published(messages, 2)[0] == pytest.approx(1e-6, rel=1e-2)
    assert pairwise.shares(messages, [2])[0, 0] == pytest.approx(1)


def test_the_hypercube_of_the_paper():
    """Cyffers et al. 2022: hypercube of 2⁹ nodes, σ = 1, α = 2; 15 messages from each neighbour: powers 0 … 14."""
    graph = hypercube(9)
    messages = mixing(matrix_of(graph), repeat=15)
    links = nx.to_scipy_sparse_array(graph)
    printed = pairwise.by_distance(pairwise.renyi(pairwise.as_published(messages, 0)[None], 1, 2), [0], links)
    published = [0.834, 0.365, 0.197, 0.123, 0.081, 0.057, 0.039, 0.029]
    assert [printed[d][0] for d in range(2, 10)] == pytest.approx(published, abs=5e-4)
    exact = pairwise.by_distance(pairwise.renyi(pairwise.shares(messages, [0]), 1, 2), [0], links)
    expected = [1, 1 / 4, 3 / 28, 1 / 14, 1 / 14, 3 / 28, 1 / 4, 1, 1]
    assert [exact[d][0] for d in range(1, 10)] == pytest.approx(expected, abs=1e-9)


def test_dependent_messages_add_nothing_to_a_fixed_network():
    """The rows of 15 steps on the hypercube have rank 74 in modular arithmetic, too."""
    assert pairwise.shares(mixing(matrix_of(hypercube(9)), repeat=15), [0]).sum() == pytest.approx(74)
    assert pairwise.shares(mixing(matrix_of(nx.complete_graph(5)), repeat=9), [0]).sum() == pytest.approx(5)


def test_epsilons_are_rounded_up():
    share = np.array([[0.0, 1e-6, 0.25, 0.5, 1.0]])
    found = pairwise.epsilons(share, 2.0, 1e-5)[0]
    exact = [gaussian.epsilon_of(2 * np.sqrt(s), 1e-5) for s in share[0]]
    assert np.all(found >= np.array(exact) * (1 - 1e-6))
    assert found == pytest.approx(exact, rel=0.02, abs=1e-3)
    assert found[-1] == gaussian.epsilon_of(2.0, 1e-5)


def test_no_observers_and_one_node():
    assert pairwise.shares(mixing(np.eye(3)), []).shape == (0, 3)
    assert pairwise.shares(mixing(np.eye(1)), [0]).tolist() == [[1.0]]
