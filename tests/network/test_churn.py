"""Who is online when, and what the world notes about it."""

import numpy as np
import pytest
from helpers import ALPHA, make_world
from scipy.stats import binomtest, chi2

from golfsim.network.churn import CrashConfig, LognormalConfig, RateConfig


def rate(leave, come_back, online=None):
    return RateConfig(kind="rate", leave=leave, rejoin=come_back, online=online)


def lognormal(online, mu, sigma):
    return LognormalConfig(kind="lognormal", online=online, mu=mu, sigma=sigma)


def history(world, cycles):
    """Who was online in each cycle: [cycles, nodes]."""
    seen = []
    for _ in range(cycles):
        world.advance()
        seen.append(world.online.copy())
    return np.array(seen)


def test_without_churn_everybody_is_online_from_the_first_cycle_on():
    world = make_world(9)
    assert not world.online.any()
    assert history(world, 3).all()


@pytest.mark.parametrize("how", [{"share": 0.3}, {"number": 12}])
def test_a_crash_takes_the_given_number_of_nodes_down_for_good(how):
    online = history(make_world(40, churn=[CrashConfig(kind="crash", at=3, **how)]), 8)
    assert online[:2].all()
    assert (online[2:].sum(axis=1) == 28).all()
    assert (online[2:] == online[2]).all()


def test_a_crash_takes_each_node_with_equal_probability():
    crash, nodes, seeds = CrashConfig(kind="crash", at=1, share=0.25), 20, 4000
    down = np.array([~history(make_world(nodes, churn=[crash], seed=seed), 1)[0] for seed in range(seeds)])
    assert (down.sum(axis=1) == 5).all()
    # A fixed number dies, so the counts are negatively correlated: hence 19/20 and 19 degrees of freedom. (Node 13 dies
    # in 137 of the first 400 seeds, p = 4e-5 taken alone. 240,000 further seeds showed no bias; these 400 stay in.)
    chi_square = ((down.sum(axis=0) - seeds / 4) ** 2).sum() / (seeds * 0.25 * 0.75) * (nodes - 1) / nodes
    assert chi2.sf(chi_square, nodes - 1) > ALPHA


def test_a_crash_may_take_everybody():
    assert not history(make_world(5, churn=[CrashConfig(kind="crash", at=2, number=99)]), 3)[1:].any()


@pytest.mark.parametrize(("leave", "come_back"), [(0.1, 0.4), (0.02, 0.01), (0.0, 0.5), (1.0, 1.0)])
def test_rates_keep_the_stationary_share_from_the_start(leave, come_back):
    nodes, share = 3000, come_back / (leave + come_back)
    online = history(make_world(nodes, churn=[rate(leave, come_back)]), 20)
    for cycle in (0, 1, 19):
        assert binomtest(int(online[cycle].sum()), nodes, share).pvalue > ALPHA / 3


def test_rates_are_the_probabilities_of_leaving_and_returning():
    online = history(make_world(2000, churn=[rate(0.1, 0.3)]), 40)
    before, after = online[:-1], online[1:]
    assert binomtest(int((before & ~after).sum()), int(before.sum()), 0.1).pvalue > ALPHA
    assert binomtest(int((~before & after).sum()), int((~before).sum()), 0.3).pvalue > ALPHA


def test_the_share_at_first_may_be_given():
    online = history(make_world(4000, churn=[rate(0.01, 0.01, online=0.9)]), 1)[0]
    assert binomtest(int(online.sum()), 4000, 0.9).pvalue > ALPHA


def test_nobody_leaves_and_nobody_returns_at_rates_of_zero():
    assert history(make_world(50, churn=[rate(0.0, 0.0)]), 5).all()
    online = history(make_world(50, churn=[rate(0.0, 0.0, online=0.5)]), 5)
    assert 0 < online[0].sum() < 50
    assert (online == online[0]).all()


@pytest.mark.parametrize(("online", "mu", "sigma"), [(0.9, 3.0, 0.5), (0.5, 2.0, 1.0), (0.7, 4.0, 0.0)])
def test_lognormal_sessions_keep_the_share_online_from_the_start(online, mu, sigma):
    nodes = 4000
    seen = history(make_world(nodes, churn=[lognormal(online, mu, sigma)]), 120)
    spread = 3.9 * np.sqrt(online * (1 - online) / nodes)  # of 5 × 3 checks one fails by chance in 700 seeds
    for cycle in (0, 1, 10, 60, 119):
        assert seen[cycle].mean() == pytest.approx(online, abs=spread)


def test_a_session_of_n_cycles_is_seen_for_about_n_cycles():
    online = history(make_world(300, churn=[lognormal(0.5, np.log(10), 0.0)]), 200)
    changes = [np.flatnonzero(np.diff(node.astype(int))) for node in online.T]
    lengths = np.concatenate([np.diff(times) for times in changes])
    assert set(lengths.tolist()) <= {9, 10, 11}
    assert lengths.mean() == pytest.approx(10, abs=0.1)


def test_all_online_means_all_online():
    assert history(make_world(30, churn=[lognormal(1.0, 1.0, 1.0)]), 30).all()


def test_a_node_is_online_when_all_models_have_it_up():
    models = [rate(0.2, 0.2), lognormal(0.7, 1.0, 0.5), CrashConfig(kind="crash", at=5, share=0.5)]
    together = make_world(200, churn=models)
    for _ in range(10):
        together.advance()
        assert (together.online == np.logical_and.reduce([model.up for model in together.churn])).all()
    assert 0 < together.online.sum() < 100


def test_two_models_of_one_kind_draw_apart():
    world = make_world(500, churn=[rate(0.5, 0.5), rate(0.5, 0.5)])
    world.advance()
    assert (world.churn[0].up != world.churn[1].up).any()


@pytest.mark.parametrize("model", [rate(0.2, 0.3), lognormal(0.7, 1.0, 1.0)])
def test_churn_is_a_function_of_the_seed(model):
    one, same, other = (history(make_world(100, churn=[model], seed=seed), 20) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


@pytest.mark.parametrize("shuffled", [True, False])
def test_the_world_notes_who_came_who_is_new_and_who_acts(shuffled):
    world = make_world(60, churn=[rate(0.3, 0.2)], shuffled=shuffled)
    before, ever = np.zeros(60, bool), np.zeros(60, bool)
    orders, returned = [], 0
    for _ in range(30):
        world.advance()
        came = set(np.flatnonzero(world.online & ~before).tolist())
        new = came - set(np.flatnonzero(ever).tolist())
        assert set(world.came.tolist()) == came
        assert set(world.first.tolist()) == new
        assert sorted(world.order.tolist()) == np.flatnonzero(world.online).tolist()
        assert (world.order.tolist() == sorted(world.order.tolist())) != (shuffled and world.order.size > 5)
        returned += len(came - new)
        ever |= world.online
        assert (world.seen == ever).all()
        before = world.online.copy()
        orders.append(world.order)
    assert returned > 50


def test_without_churn_nobody_comes_after_the_first_cycle():
    world = make_world(10)
    world.advance()
    assert world.came.tolist() == world.first.tolist() == list(range(10))
    world.advance()
    assert world.came.size == world.first.size == 0


def test_a_shuffled_order_is_a_new_one_each_cycle_and_a_fixed_one_is_not():
    fixed, shuffled = make_world(50), make_world(50, shuffled=True)
    orders = []
    for _ in range(3):
        fixed.advance()
        shuffled.advance()
        assert fixed.order.tolist() == list(range(50))
        assert sorted(shuffled.order.tolist()) == list(range(50))
        orders.append(tuple(shuffled.order.tolist()))
    assert len(set(orders)) == 3


def test_labels_are_a_random_numbering_drawn_from_the_seed():
    labels = [tuple(make_world(50, seed=seed).label.tolist()) for seed in (1, 2)]
    assert labels[0] != labels[1]
    assert all(sorted(label) == list(range(50)) != list(label) for label in labels)
