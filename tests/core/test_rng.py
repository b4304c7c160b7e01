"""Counter-based draws."""

import naive
import numpy as np
import pytest
from helpers import ALPHA, p_of_chi_square
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from golfsim.core import rng
from golfsim.core.kernels import kernel

WORDS = st.one_of(st.sampled_from([0, 1, 2**11, 2**53, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
INDICES = st.one_of(st.sampled_from([0, 1, 2**31 - 1]), st.integers(0, 2**31 - 1))
SIZES = st.one_of(st.sampled_from([1, 2, 3, 5, 2**30 + 1, 2**31 - 1, 2**31]), st.integers(1, 2**31))
KEY = rng.key(1, "layer", "purpose")


@given(WORDS)
def test_mix_is_splitmix64(word):
    assert int(rng.mix(np.uint64(word))) == naive.mix(word)


@given(INDICES)
def test_mix_takes_signed_integers_too(word):
    assert int(rng.mix(word)) == int(rng.mix(np.int32(word))) == naive.mix(word)


@given(WORDS, INDICES, INDICES, INDICES)
def test_a_draw_is_the_nested_splitmix64(key, cycle, node, k):
    assert int(rng.draw(np.uint64(key), cycle, node, k)) == naive.draw(key, cycle, node, k)


@given(WORDS)
def test_unit_lies_strictly_between_0_and_1_and_in_the_middle_of_its_cell(word):
    value = rng.unit(np.uint64(word))
    assert 0 < value < 1
    assert value == naive.uniform(word)


@given(WORDS, SIZES)
def test_below_stays_below(word, n):
    value = int(rng.below(np.uint64(word), n))
    assert 0 <= value < n
    assert value == naive.below(word, n)


@pytest.mark.parametrize("n", [1, 2, 3, 10**6 + 3, 2**31])
def test_below_reaches_both_ends(n):
    assert rng.below(np.uint64(0), n) == 0
    assert rng.below(np.uint64(2**64 - 1), n) == n - 1


@given(st.integers(0, 2**53), st.text(), st.text())
def test_a_key_is_a_hash_of_seed_layer_and_purpose(seed, layer, purpose):
    assert int(rng.key(seed, layer, purpose)) == naive.key(seed, layer, purpose)


def test_keys_differ_by_seed_layer_and_purpose_and_by_where_one_ends():
    names = [(seed, layer, purpose) for seed in (1, 11, 2) for layer in ("a", "ab", "1") for purpose in ("c", "bc", "")]
    assert len({int(rng.key(*name)) for name in names}) == len(names)


@given(WORDS, st.integers(0, 1000), st.integers(0, 3), st.lists(st.integers(0, 2**31 - 1), max_size=8))
def test_uniform_gives_each_node_the_same_draw_for_any_set_of_nodes(key, cycle, k, nodes):
    drawn = rng.uniform(np.uint64(key), np.array(nodes, np.int32), cycle, k)
    assert drawn.tolist() == [naive.uniform(naive.draw(key, cycle, node, k)) for node in nodes]


@given(WORDS, st.lists(st.tuples(INDICES, st.integers(0, 1000)), max_size=8), st.integers(0, 3))
def test_each_node_may_have_its_own_cycle(key, pairs, k):
    nodes, cycles = (np.array([pair[i] for pair in pairs], np.int32) for i in (0, 1))
    drawn = rng.uniform(np.uint64(key), nodes, cycles, k)
    assert drawn.tolist() == [naive.uniform(naive.draw(key, cycle, node, k)) for node, cycle in pairs]


@given(WORDS, SIZES, st.integers(0, 1000), st.integers(0, 3), st.lists(INDICES, max_size=8))
def test_integers_are_the_draws_of_the_nodes_in_n_equal_parts(key, n, cycle, k, nodes):
    drawn = rng.integers(np.uint64(key), np.array(nodes, np.int32), n, cycle, k)
    assert drawn.tolist() == [int(naive.uniform(naive.draw(key, cycle, node, k)) * n) for node in nodes]
    assert all(0 <= value < n for value in drawn)


def test_a_draw_is_that_of_cycle_0_and_number_0_unless_others_are_stated():
    nodes = np.arange(5, dtype=np.int32)
    assert rng.uniform(KEY, nodes).tolist() == rng.uniform(KEY, nodes, 0, 0).tolist()
    assert rng.integers(KEY, nodes, 1000).tolist() == rng.integers(KEY, nodes, 1000, 0, 0).tolist()


@kernel
def items_of(k, out):
    for e in range(out.size):
        out[e] = rng.item(k, e)


@pytest.mark.parametrize(("k", "expected"), [(np.array([7, 5, 9]), [7, 5, 9]), (4, [4, 4, 4])])
def test_an_item_is_an_entry_of_an_array_or_the_number_itself_in_kernels_too(k, expected):
    out = np.zeros(3, np.int64)
    items_of(k, out)
    assert out.tolist() == [rng.item(k, e) for e in range(3)] == expected


@given(WORDS, st.integers(0, 1000), st.integers(0, 40))
def test_a_permutation_is_a_fisher_yates_shuffle(key, cycle, n):
    assert rng.permutation(np.uint64(key), cycle, n).tolist() == naive.permutation(key, cycle, n)


@given(WORDS, st.integers(0, 1000), st.integers(0, 30), st.integers(0, 30))
def test_a_sample_has_different_members_of_the_pool_in_rising_order_and_leaves_the_pool_alone(key, cycle, size, more):
    pool = (7 * np.arange(size + more) + 3).astype(np.int32)
    before = pool.copy()
    drawn = rng.sample(np.uint64(key), cycle, pool, size).tolist()
    assert (pool == before).all()
    assert drawn == sorted(set(drawn))
    assert len(drawn) == size
    shuffled = pool[naive.permutation(key, cycle, pool.size)]  # its first steps place the last ones
    assert drawn == sorted(shuffled[more:].tolist())


def test_a_sample_larger_than_the_pool_is_the_pool():
    pool = np.array([2, 5, 9], np.int32)
    assert rng.sample(KEY, 1, pool, 4).tolist() == [2, 5, 9]


def test_all_pairs_of_five_are_sampled_equally_often():
    pool = np.arange(5, dtype=np.int32)
    drawn = [tuple(rng.sample(KEY, cycle, pool, 2).tolist()) for cycle in range(5000)]
    counts = [drawn.count(pair) for pair in set(drawn)]
    assert len(counts) == 10
    assert p_of_chi_square(counts) > ALPHA


def test_all_orders_of_four_are_equally_frequent():
    drawn = [tuple(rng.permutation(KEY, cycle, 4).tolist()) for cycle in range(4800)]
    counts = [drawn.count(order) for order in set(drawn)]
    assert len(counts) == 24
    assert p_of_chi_square(counts) > ALPHA


def along(axis, n):
    """Draws that differ in the cycle, the node or k only."""
    everyone, one = np.arange(n, dtype=np.int32), np.array([7], np.int32)
    if axis == "node":
        return rng.uniform(KEY, everyone, 3)
    return np.array([rng.uniform(KEY, one, *((c, 0) if axis == "cycle" else (3, c)))[0] for c in range(n)])


@pytest.mark.parametrize("axis", ["cycle", "node", "k"])
def test_draws_are_uniform_and_neighbours_independent_along_each_coordinate(axis):
    u = along(axis, 8000)
    assert kstest(u, "uniform").pvalue > ALPHA
    pairs, _, _ = np.histogram2d(u[:-1], u[1:], bins=8, range=[[0, 1], [0, 1]])
    assert p_of_chi_square(pairs) > ALPHA


def test_draws_of_different_keys_are_independent():
    nodes = np.arange(8000, dtype=np.int32)
    one, other = rng.uniform(rng.key(1, "a", "x"), nodes), rng.uniform(rng.key(2, "a", "x"), nodes)
    pairs, _, _ = np.histogram2d(one, other, bins=8, range=[[0, 1], [0, 1]])
    assert p_of_chi_square(pairs) > ALPHA


@pytest.mark.parametrize("n", [2, 7, 64])
def test_below_is_uniform(n):
    values = [int(rng.below(np.uint64(naive.draw(int(KEY), 0, node, 0)), n)) for node in range(6400)]
    assert p_of_chi_square(np.bincount(values, minlength=n)) > ALPHA
