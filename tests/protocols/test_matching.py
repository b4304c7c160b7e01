"""Random perfect matchings: their pairs, their distribution, and what averaging over them does."""

import naive
import numpy as np
import pytest
from helpers import ALPHA, at_cycle, finished, make_layer, make_world, needs_jit, p_of_chi_square, tree
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.protocol.turns import further_turn
from protocols.matching import Matching
from protocols.uniform import Uniform


@given(
    seed=st.integers(0, 10**6), nodes=st.integers(1, 15), share=st.sampled_from([0.0, 0.6, 1.0]), k=st.integers(0, 3)
)
def test_pairs_are_those_of_a_shuffle_and_each_node_is_the_peer_of_its_peer(seed, nodes, share, k):
    draws = np.random.default_rng(seed)
    world = at_cycle(make_world(nodes, seed=seed), 4, draws.random(nodes) < share)
    layer = make_layer(Matching, world, seed=seed)
    online = np.flatnonzero(world.online).tolist()
    world.order = draws.permutation(world.order).astype(np.int32)
    everyone = np.arange(nodes, dtype=np.int32)
    partner = layer.choose(world, everyone, layer.key("whatever"), k)
    assert partner.tolist() == naive.matching(online, nodes, 4, naive.key(seed, "layer", "matching"), k)
    paired = np.flatnonzero(partner >= 0)
    assert paired.size == len(online) - len(online) % 2
    assert (partner[partner[paired]] == paired).all()
    assert world.online[partner[paired]].all()


def test_layers_share_the_matching_of_a_cycle_and_each_k_draws_another():
    world = at_cycle(make_world(40), 1)
    layer = make_layer(Matching, world)
    first = layer.choose(world, world.order, np.uint64(1))
    assert layer.choose(world, world.order, np.uint64(2)).tolist() == first.tolist()
    second = layer.choose(world, world.order, np.uint64(1), 1)
    assert second.tolist() != first.tolist()
    nodes, k = np.tile(world.order, 2), np.repeat([0, 1], 40)
    assert layer.choose(world, nodes, np.uint64(3), k).tolist() == [*first, *second]
    links = layer.links(world)
    assert (links.toarray() == links.toarray().T).all()
    assert links.indices.tolist() == first.tolist()
    assert layer.choose(at_cycle(world, 2), world.order, np.uint64(1)).tolist() != first.tolist()


def test_a_further_turn_of_a_layer_gets_another_matching():
    world = at_cycle(make_world(40), 1)
    overlay, layer = make_layer(Matching, world), make_layer(Uniform, world, name="above")
    first = overlay.choose(world, world.order, np.uint64(1)).tolist()
    with further_turn(layer, world, 1):
        second = overlay.choose(world, world.order, np.uint64(1)).tolist()
        assert second != first
        assert overlay.choose(world, world.order, np.uint64(2)).tolist() == second
    assert overlay.choose(world, world.order, np.uint64(1)).tolist() == first


def test_all_matchings_of_six_nodes_are_equally_frequent():
    # χ² over the 15 perfect matchings.
    world = make_world(6)
    layer = make_layer(Matching, world)
    found = [
        tuple(layer.choose(at_cycle(world, cycle), world.order, np.uint64(0)).tolist()) for cycle in range(1, 3001)
    ]
    assert len(set(found)) == 15
    assert p_of_chi_square([found.count(pairs) for pairs in set(found)]) > ALPHA


def test_too_many_matchings_in_a_cycle_are_refused():
    world = at_cycle(make_world(300), 1)
    with pytest.raises(UserError, match="asks for 300 matchings in one cycle; at most 100"):
        make_layer(Matching, world).choose(world, world.order, np.uint64(0), np.arange(300))


@needs_jit
def test_averaging_over_a_matching_halves_the_variance_in_each_cycle():
    # Each pair has the mean of its two values, so the variance halves; the second exchange of a pair changes nothing.
    # Over other seeds the geometric mean of ten factors has a standard deviation of .0015 at 20,000 nodes; four of
    # them fail once in 16,000 tests.
    averaging = {"name": "averaging", "use": "averaging", "peers": "peers"}
    run = finished(tree({"name": "peers", "use": "matching"}, averaging, nodes=20_000, cycles=10))
    assert run.latest["averaging"]["factor.mean"] == pytest.approx(0.5, abs=0.006)
