"""Parts, samples, largest changes and encodings of models against plain versions."""

import naive
import numpy as np
import pytest
from helpers import needs_jit
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from golfsim.core.rng import key
from golfsim.learning.packing import Memory, MessageConfig, find_links, nothing_remembered, pack_rows, packing_of

KEY = key(1, "layer", "message")
FINITE = st.floats(-1000, 1000, width=32)
ROWS = st.lists(FINITE, min_size=1, max_size=12)


def packed(config, w, *, cycle=1, sender=0, number=0, part=0, link=0, memory=None):
    """What a receiver gets of a model, given as rows of numbers."""
    w = np.array(w, np.float32)
    w = w if w.ndim == 2 else w[None]
    memory = nothing_remembered(w.shape[1]) if memory is None else memory
    packing = packing_of(MessageConfig(**config), KEY, w.shape[1], memory)
    one = [np.array([x], kind) for x, kind in ((0, np.int32), (sender, np.int32), (number, np.int64))]
    of = np.array([part], np.int32), np.array([link], np.int64)
    pack_rows(packing, w, one[0], len(w), cycle, one[1], one[2], *of)
    return w


def remembering(nodes=1, links=1, models=1, numbers=3):
    """The memory of senders and links before the first message."""
    reference, estimate = (
        np.zeros((nodes * models, numbers), np.float32),
        np.zeros((links * models, numbers), np.float32),
    )
    return Memory(reference, estimate, np.ones_like(estimate), np.zeros(estimate.shape, np.bool_))


def same(found, expected, **within):
    """Equal numbers, and none at the same places."""
    np.testing.assert_allclose(found, np.asarray(expected, np.float64), **{"rtol": 1e-6, "atol": 0} | within)


@given(w=ROWS, parts=st.integers(2, 5), data=st.data())
def test_a_part_has_every_p_th_number(w, parts, data):
    part = data.draw(st.integers(0, parts - 1))
    found = packed({"parts": parts}, w, part=part)[0]
    same(found, naive.carried(w, np.arange(len(w)) % parts == part))
    assert np.isfinite(found).sum() == MessageConfig(parts=parts).carried(len(w), part)


def test_all_parts_together_are_the_model():
    w = np.arange(1, 12, dtype=np.float32)
    parts = [packed({"parts": 4}, w, part=part)[0] for part in range(4)]
    assert (np.nansum(parts, axis=0) == w).all()


@given(
    w=st.lists(ROWS.filter(lambda w: len(w) == 7), min_size=1, max_size=3),
    share=st.floats(0.01, 0.99),
    number=st.integers(0, 9),
)
def test_a_sample_is_drawn_by_selection_sampling(w, share, number):
    found = packed({"sample": share}, w, cycle=3, sender=5, number=number)
    size = max(1, round(share * 7))
    for m, row in enumerate(w):
        expected = naive.sampled(row, size, KEY, 3, 5, 2 * 7 * (number * len(w) + m))
        same(found[m], expected)
        assert np.isfinite(found[m]).sum() == size


def test_every_number_is_as_often_in_a_sample_as_any_other():
    """Each of 8 numbers in 3/8 of 4000 samples. Five standard deviations, of eight: one right program in 200,000."""
    w = np.ones((1, 8), np.float32)
    kept = np.mean([np.isfinite(packed({"sample": 3 / 8}, w, sender=i)[0]) for i in range(4000)], axis=0)
    assert kept == pytest.approx(np.full(8, 3 / 8), abs=5 * (3 / 8 * 5 / 8 / 4000) ** 0.5)


@given(w=st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.25, 1e-30]), min_size=1, max_size=12), data=st.data())
def test_the_largest_changes_are_sent_and_remembered(w, data):
    share = data.draw(st.floats(0.01, 0.99))
    memory, size = remembering(nodes=3, numbers=len(w)), max(1, round(share * len(w)))
    reference = np.array(data.draw(st.lists(FINITE, min_size=len(w), max_size=len(w))), np.float32)
    memory.reference[1] = reference
    found = packed({"top": share}, w, sender=1, memory=memory)[0]
    same(found, naive.largest(w, size, reference))
    sent = np.isfinite(found)
    assert sent.sum() == size
    difference = np.abs(np.array(w, np.float32) - reference)
    assert difference[sent].min() >= difference[~sent].max(initial=0)
    assert (memory.reference[1] == np.where(sent, np.array(w, np.float32), reference)).all()
    assert not memory.reference[[0, 2]].any()


def test_what_was_not_sent_is_sent_later():
    """A model that stays is known completely after as many messages as it has pieces of this size."""
    memory, w = remembering(numbers=6), np.array([1, 5, 2, 6, 3, 4], np.float32)
    for _ in range(3):
        packed({"top": 1 / 3}, w, memory=memory)
    assert (memory.reference[0] == w).all()


@needs_jit
@given(
    w=st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-65504, max_value=65504),
        min_size=1,
        max_size=40,
    )
)
def test_sixteen_bits_are_those_of_numpy(w):
    found = packed({"codec": "float16"}, w)[0]
    assert found.tobytes() == np.float32(np.float16(np.array(w, np.float32))).tobytes()


def test_all_numbers_of_sixteen_bits_stay_as_they_are():
    w = np.arange(2**16, dtype=np.uint16).view(np.float16)
    w = w[np.isfinite(w)].astype(np.float32)
    assert packed({"codec": "float16"}, w)[0].tobytes() == w.tobytes()


@pytest.mark.parametrize("x", [65504, 65519.996, 65520, 1e30, np.inf])
def test_what_sixteen_bits_cannot_hold_becomes_the_largest_number(x):
    found = packed({"codec": "float16"}, [x, -x])[0]
    assert found.tolist() == [65504, -65504]
    same(found, naive.half(np.array([x, -x], np.float32)))


@given(w=ROWS, bits=st.integers(1, 16), number=st.integers(0, 5))
def test_quantised_numbers_are_those_of_the_plain_version(w, bits, number):
    found = packed({"codec": "quantised", "bits": bits}, w, cycle=2, sender=4, number=number)[0]
    expected = naive.quantised(np.float32(w), bits, KEY, 2, 4, 2 * len(w) * number + len(w))
    largest = np.abs(np.float32(w)).max()
    same(found, expected, atol=1e-6 * largest)
    assert np.abs(found).max() <= largest
    assert np.abs(found - np.float32(w)).max() <= 2 * largest / (2**bits - 1) * (1 + 1e-5)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_rounding_at_random_has_no_bias(bits):
    """The mean of 4000 messages within five standard deviations, of six numbers: one right program in 250,000."""
    w = np.array([1.0, -0.99, 0.5, 0.013, -0.37, 0.0], np.float32)
    found = np.array([packed({"codec": "quantised", "bits": bits}, w, sender=i)[0] for i in range(4000)], np.float64)
    place = (np.float64(w) + 1) / (2 / (2**bits - 1))
    rest = place - np.floor(place)
    deviation = 2 / (2**bits - 1) * np.sqrt(rest * (1 - rest) / 4000)
    assert (np.abs(found.mean(axis=0) - w) <= 5 * deviation + 1e-6).all()
    assert len(np.unique(found)) <= 2**bits


def test_a_row_of_zeros_is_quantised_as_it_is():
    assert not packed({"codec": "quantised", "bits": 3}, np.zeros(4)).any()


@given(w=ROWS, bits=st.integers(1, 8), parts=st.integers(2, 4))
def test_only_the_numbers_of_a_part_determine_how_it_is_quantised(w, bits, parts):
    found = packed({"codec": "quantised", "bits": bits, "parts": parts}, w)[0]
    known = naive.carried(np.float32(w), np.arange(len(w)) % parts == 0)
    expected = naive.quantised(known, bits, KEY, 1, 0, len(w))
    same(found, expected, atol=1e-6 * np.nanmax(np.abs(known)))


@given(stream=st.lists(st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3), min_size=1, max_size=30))
def test_both_ends_of_a_link_have_the_estimate_that_the_bits_make(stream):
    memory = remembering(links=3)
    sender, receiver = ([naive.Pivot() for _ in range(3)] for _ in range(2))
    for w in stream:
        found = packed({"codec": "pivot"}, w, link=1, memory=memory)[0]
        bits = [end.encode(float(x)) for end, x in zip(sender, np.float32(w), strict=True)]
        mine = [end.decode(bit) for end, bit in zip(sender, bits, strict=True)]
        theirs = [end.decode(bit) for end, bit in zip(receiver, bits, strict=True)]
        assert mine == theirs
        same(found, theirs, atol=1e-3)
        assert (found == memory.estimate[1]).all()
    assert not memory.estimate[[0, 2]].any()


def test_the_pivot_codec_by_hand():
    """Towards 10: 1, then steps of 1, 2 and 4 (the step doubles from the second move on), then 8 would be too far."""
    memory, found = remembering(numbers=1), []
    for _ in range(9):
        found.append(float(packed({"codec": "pivot"}, [10.0], memory=memory)[0, 0]))
    assert found == [1, 2, 4, 8, 8, 8, 10, 10, 10]


def test_the_pivot_codec_comes_as_close_as_single_precision_allows():
    memory = remembering(numbers=1)
    for _ in range(200):
        found = packed({"codec": "pivot"}, [np.pi], memory=memory)[0, 0]
    assert found == pytest.approx(np.float32(np.pi), abs=1e-6)


def test_links_are_found_in_rows_of_neighbours():
    start, neighbour = np.array([0, 2, 2, 5]), np.array([1, 2, 0, 1, 4], np.int32)
    src, dst = np.array([0, 0, 1, 2, 2, 2, 0], np.int32), np.array([2, 3, 0, 0, 4, 3, -1], np.int32)
    link = np.empty(7, np.int64)
    find_links(start, neighbour, src, dst, link)
    assert link.tolist() == [1, -1, -1, 2, 4, -1, -1]


@pytest.mark.parametrize(
    ("config", "bytes_"),
    [
        ({}, 4 + 57 * 4),
        ({"codec": "float16"}, 4 + 57 * 2),
        ({"codec": "quantised"}, 4 + 57 + 4),  # 8 bits, and the scale
        ({"codec": "quantised", "bits": 3}, 4 + 22 + 4),  # 171 bits
        ({"codec": "pivot"}, 4 + 8),  # 57 bits
        ({"parts": 10}, 4 + 6 * 4 + 2 + 4),  # the number and the age of the part
        ({"parts": 10, "codec": "float16"}, 4 + 6 * 2 + 2 + 4),
        ({"sample": 0.1}, 4 + 6 * 4 + 8),  # the seed
        ({"top": 0.1}, 4 + 6 * 4 + 6 * 4),  # the places
        ({"top": 0.1, "codec": "quantised", "bits": 4}, 4 + 3 + 6 * 4 + 4),
    ],
)
def test_the_bytes_of_a_message_are_those_of_its_encoding(config, bytes_):
    assert MessageConfig(**config).size(1, 57) == bytes_


def test_messages_with_smaller_parts_have_fewer_bytes():
    config = MessageConfig(parts=10)
    assert [config.size(1, 57, part) - 10 for part in range(10)] == [24] * 7 + [20] * 3
    assert config.size(3, 57, 9) == 10 + 3 * 20


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"parts": 3, "sample": 0.5}, "expected at most one of “parts”, “sample” and “top”"),
        ({"sample": 0.5, "top": 0.5}, "expected at most one of “parts”, “sample” and “top”"),
        ({"bits": 3}, '“bits” needs codec = "quantised"'),
    ],
)
def test_settings_that_exclude_each_other_are_refused(config, message):
    with pytest.raises(ValidationError, match=message):
        MessageConfig(**config)
