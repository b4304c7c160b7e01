"""Everybody knows everybody."""

import naive
import numpy as np
import pytest
from helpers import ALPHA, at_cycle, make_layer, make_world, p_of_chi_square

from golfsim.core import rng as draws
from protocols.uniform import Uniform

KEY = draws.key(1, "learning", "peer")


def build(online, shuffle=False):
    world = at_cycle(make_world(len(online), layers=["peers"]), 1, online)
    if shuffle:
        world.order = world.order[::-1].copy()
    return world, make_layer(Uniform, world, "peers")


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("asking", [0, 3, 6])
def test_a_node_chooses_uniformly_among_the_other_online_nodes(asking, k):
    online = np.array([True, False, True, True, True, False, True])
    world, layer = build(online)
    nodes = np.array([asking], np.int32)
    drawn = [layer.choose(at_cycle(world, c, online), nodes, KEY, k)[0] for c in range(1, 3001)]
    found, counts = np.unique(drawn, return_counts=True)
    assert found.tolist() == [i for i in (0, 2, 3, 4, 6) if i != asking]
    assert p_of_chi_square(counts) > ALPHA


def test_a_choice_depends_on_who_asks_and_not_on_the_acting_order():
    online = np.arange(50) % 3 > 0
    world, layer = build(online)
    straight = layer.choose(world, world.order, KEY)
    world, layer = build(online, shuffle=True)
    backwards = layer.choose(world, world.order, KEY)
    assert (backwards[::-1] == straight).all()
    assert len(np.unique(straight)) > 10


@pytest.mark.parametrize("share", [0.6, 1])
def test_a_choice_is_one_draw_among_the_others(rng, share):
    online = rng.random(40) < share
    world, layer = build(online)
    for i, j in zip(world.order, layer.choose(world, world.order, KEY, 3), strict=True):
        others = [n for n in world.order.tolist() if n != i]
        assert j == others[naive.below(naive.draw(KEY, 1, i, 3), len(others))]


def test_who_is_alone_chooses_minus_one():
    world, layer = build(np.array([False, True, False]))
    assert layer.choose(world, world.order, KEY).tolist() == [-1]


def test_nobody_chooses_when_nobody_is_there():
    world, layer = build(np.zeros(3, bool))
    assert layer.choose(world, world.order, KEY).size == 0


def test_there_are_no_links_to_show():
    world, layer = build(np.ones(3, bool))
    assert layer.links(world) is None
