"""Draws that nobody can repeat: ChaCha20 against its specification, and its keys."""

import naive
import numpy as np
import pytest
from helpers import ALPHA, needs_jit, p_of_chi_square
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from golfsim.core import chacha, rng
from golfsim.privacy.noise import add_gamma_norm, add_laplace

WORD = st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))
INDEX = st.one_of(st.sampled_from([0, 1, 2**31 - 1]), st.integers(0, 2**31 - 1))
KEY = chacha.secret_key(bytes(range(32)), "layer", "noise")


def test_a_draw_is_that_of_the_example_in_rfc_8439():
    key = chacha.SecretKey(*np.frombuffer(bytes(range(32)), "<u4").tolist())
    assert int(chacha.draw(key, 0x09000000, 0x4A000000, 1)) == 0x15593BD1_E4E7F110  # section 2.3.2, first two words


@given(st.tuples(*[WORD] * 8), INDEX, st.integers(0, 2**63 - 1), INDEX)
def test_a_draw_is_the_first_words_of_the_reference(words, cycle, node, k):
    block = naive.chacha(words, k, (cycle, node % 2**32, node >> 32))
    assert int(chacha.draw(chacha.SecretKey(*words), cycle, node, k)) == block[0] | block[1] << 32


@given(INDEX, INDEX, INDEX)
def test_every_function_that_draws_takes_a_secret_key(cycle, node, k):
    drawn = int(chacha.draw(KEY, cycle, node, k))
    assert int(rng.draw(KEY, cycle, node, k)) == drawn
    assert rng.uniform(KEY, np.array([node], np.int32), cycle, k)[0] == naive.uniform(drawn)


@pytest.mark.parametrize("bit", range(0, 256, 5))
def test_every_bit_of_the_secret_changes_the_key_and_the_draws(bit):
    secret = bytearray(range(32))
    secret[bit // 8] ^= 1 << bit % 8
    other = chacha.secret_key(bytes(secret), "layer", "noise")
    assert all(one != another for one, another in zip(KEY, other, strict=True))
    assert int(chacha.draw(KEY, 0, 0, 0)) != int(chacha.draw(other, 0, 0, 0))


@pytest.mark.parametrize("word", range(8))
def test_every_word_of_the_key_changes_the_draws(word):
    other = KEY._replace(**{f"k{word}": KEY[word] ^ 1})
    assert int(chacha.draw(KEY, 0, 0, 0)) != int(chacha.draw(other, 0, 0, 0))


def test_secrets_are_256_bits_that_differ_and_keys_differ_by_layer_and_purpose():
    assert len({chacha.new_secret() for _ in range(100)}) == 100
    assert len(chacha.new_secret()) == 32
    names = [("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "b")]
    assert len({chacha.secret_key(bytes(32), *name) for name in names}) == len(names)


def test_no_text_shows_a_key():
    for text in (repr(KEY), str(KEY), f"{KEY}", f"{[KEY]}"):
        assert not any(str(word) in text for word in KEY)


@needs_jit
def test_draws_are_uniform_and_neighbours_independent():
    u = rng.uniform(KEY, np.arange(8000, dtype=np.int32), 3)
    assert kstest(u, "uniform").pvalue > ALPHA
    pairs, _, _ = np.histogram2d(u[:-1], u[1:], bins=8, range=[[0, 1], [0, 1]])
    assert p_of_chi_square(pairs) > ALPHA


@needs_jit
@pytest.mark.parametrize("add", [add_laplace, add_gamma_norm])
def test_noise_of_a_secret_key_has_the_distribution_of_noise_of_the_seed(add):
    secret, seed = np.zeros((400, 3)), np.zeros((400, 3))
    for row in range(400):
        add(KEY, 0, row, 0, 2.0, secret, row)
        add(rng.key(1, "layer", "noise"), 0, row, 0, 2.0, seed, row)
    assert kstest(secret.ravel(), seed.ravel()).pvalue > ALPHA
    assert not np.isin(secret, seed).any()
