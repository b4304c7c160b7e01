"""Masks that cancel, members who drop out, and numbers as integers."""

import naive
import numpy as np
import pytest
from helpers import ALPHA, p_of_chi_square
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.privacy import secure_sum

KEYS = rng.key(1, "layer", "mask.own"), rng.key(1, "layer", "mask.pair")
WHOLE = st.integers(-(2**50), 2**50)


def sent_and_total(members, terms, arrived, cycle=3):
    """What the members of one group send, and the sum that their curator finds."""
    members, terms = np.array(members, np.int32), np.array(terms, np.int64)
    edges, cycles = np.array([0, members.size]), np.array([cycle], np.int32)
    sent = secure_sum.masked(members, edges, terms.view(np.uint64), KEYS, cycles)
    sums = secure_sum.totals(members, edges, np.array(arrived), sent, KEYS, cycles)
    return sent, sums[0].view(np.int64)


@st.composite
def group(draw):
    """Members in any order, three integers each, and who of them has arrived."""
    members = draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=6, unique=True))
    terms = draw(st.lists(st.lists(WHOLE, min_size=3, max_size=3), min_size=len(members), max_size=len(members)))
    return members, terms, draw(st.lists(st.booleans(), min_size=len(members), max_size=len(members)))


@given(group())
def test_masks_cancel_to_the_last_bit_when_all_arrive(case):
    members, terms, _ = case
    _, found = sent_and_total(members, terms, [True] * len(members))
    assert found.tolist() == np.sum(terms, axis=0).tolist()


@given(group())
def test_the_sum_of_the_members_that_arrived_is_found_for_any_dropouts(case):
    members, terms, arrived = case
    _, found = sent_and_total(members, terms, arrived)
    assert found.tolist() == [sum(t[f] for t, a in zip(terms, arrived, strict=True) if a) for f in range(3)]


@given(group())
def test_masked_terms_and_their_sum_are_those_of_the_reference(case):
    members, terms, arrived = case
    sent, found = sent_and_total(members, terms, arrived)
    ref = naive.masked_terms(dict(zip(members, terms, strict=True)), *KEYS, 3)
    assert [list(map(int, row)) for row in sent] == [ref[i] for i in members]
    there = {i: ref[i] for i, a in zip(members, arrived, strict=True) if a}
    if there:
        assert found.tolist() == naive.unmasked_sum(there, members, *KEYS, 3)


def test_groups_side_by_side_have_the_sums_of_each_alone():
    members, edges = np.array([7, 2, 9, 4, 1, 3, 8], np.int32), np.array([0, 3, 4, 7])
    cycles, arrived = np.array([5, 5, 6], np.int32), np.array([1, 1, 0, 1, 0, 1, 1], np.bool_)
    words = np.arange(14, dtype=np.int64).reshape(7, 2).view(np.uint64)
    sent = secure_sum.masked(members, edges, words, KEYS, cycles)
    sums = secure_sum.totals(members, edges, arrived, sent, KEYS, cycles)
    assert sums.tolist() == [[0 + 2, 1 + 3], [6, 7], [10 + 12, 11 + 13]]


def masks_of(members, cycle=3):
    """What members of a group add to their integers."""
    return sent_and_total(members, np.zeros((len(members), 2), int), [True] * len(members), cycle)[0]


def shared(i, j, cycle=3):
    """The mask between two nodes, as the first one adds it: what it sends beside its own mask."""
    return (masks_of([i, j], cycle)[0] - masks_of([i], cycle)[0]).tolist()


def test_two_nodes_add_and_subtract_the_same_mask():
    assert shared(4, 9) == [(-m) % 2**64 for m in shared(9, 4)]
    alone = masks_of([4, 9, 6])[0] - masks_of([4, 6])[0]
    assert alone.tolist() == shared(4, 9)


def test_no_mask_is_used_for_two_pairs_or_in_two_cycles():
    pairs = [(i, j) for i in range(12) for j in range(i + 1, 12)] + [(0, 2**31 - 1), (1, 2**31 - 1)]
    words = [w for cycle in (1, 2, 3) for i, j in pairs for w in shared(i, j, cycle)]
    words += [w for cycle in (1, 2, 3) for i in range(12) for w in masks_of([i], cycle)[0].tolist()]
    assert len(set(words)) == len(words)


def test_what_is_sent_looks_like_noise():
    sent = np.concatenate([masks_of([1, 2, 3], cycle).ravel() for cycle in range(400)])
    for shift in (60, 30, 0):
        assert p_of_chi_square(np.bincount((sent >> np.uint64(shift)).astype(np.int64) & 15, minlength=16)) > ALPHA


def test_a_curator_who_forgets_a_dropout_finds_nothing_like_the_sum():
    members = np.array([1, 2, 3], np.int32)
    sent, _ = sent_and_total(members, np.ones((3, 2), int), [True] * 3)
    kept = np.array([0, 2])
    sums = secure_sum.totals(members[:2], kept, np.ones(2, np.bool_), sent[:2], KEYS, np.array([3], np.int32))
    assert (abs(sums.view(np.int64).astype(float)) > 2**40).all()


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_numbers_come_back_to_fixed_point_precision(values):
    words = secure_sum.to_words(np.array(values), 10, "layer")
    assert abs(secure_sum.to_numbers(words) - values).max() <= 2.0 ** -(secure_sum.FRACTION + 1)


def test_the_largest_sum_that_is_let_in_does_not_overflow():
    most = 2.0 ** (62 - secure_sum.FRACTION) / 10
    for value in (most, -most):
        words = secure_sum.to_words(np.full((10, 1), value), 10, "layer")
        assert secure_sum.to_numbers(words.sum(axis=0, dtype=np.uint64)) == pytest.approx(10 * value)


@pytest.mark.parametrize("value", [1e12, -1e12, np.nan, np.inf])
def test_a_number_without_room_is_refused(value):
    with pytest.raises(UserError, match=r"a secure sum of 10 terms allows at most 4\.29e\+08"):
        secure_sum.to_words(np.array([0.0, value]), 10, "layer")
