"""Draw random numbers that nobody can repeat or predict: ChaCha20 with a key from the operating system.

A draw is the first 64 bits of the ChaCha20 block (RFC 8439, section 2.3) of 256 secret bits, with k as the block
counter and (cycle, node) as the nonce. So it is a function of the same coordinates as a draw of `golfsim.core.rng`, and
every kernel accepts a `SecretKey` in the place of a 64-bit key. Published records are exported with such noise.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple

import numpy as np

from golfsim.core.kernels import inlined, leaf

SECRET_BYTES = 32
WORD = 0xFFFF_FFFF


class SecretKey(NamedTuple):
    """The eight 32-bit words of a ChaCha20 key."""

    k0: int
    k1: int
    k2: int
    k3: int
    k4: int
    k5: int
    k6: int
    k7: int

    def __repr__(self) -> str:
        return "SecretKey(hidden)"  # no message or log may contain the words


def new_secret() -> bytes:
    """Return 256 random bits from the operating system."""
    return secrets.token_bytes(SECRET_BYTES)


def secret_key(secret: bytes, layer: str, purpose: str) -> SecretKey:
    """Return the key of one purpose of one layer; it depends on all bits of the secret and does not reveal them."""
    digest = hashlib.blake2b(f"{layer}\x1f{purpose}".encode(), key=secret, digest_size=SECRET_BYTES).digest()
    return SecretKey(*(int.from_bytes(digest[i : i + 4], "little") for i in range(0, SECRET_BYTES, 4)))


@inlined
def _turned(word, bits):
    return ((word << bits) | (word >> (32 - bits))) & WORD


@inlined
def _quarter(a, b, c, d):
    """Return the quarter round of four words."""
    a = (a + b) & WORD
    d = _turned(d ^ a, 16)
    c = (c + d) & WORD
    b = _turned(b ^ c, 12)
    a = (a + b) & WORD
    d = _turned(d ^ a, 8)
    c = (c + d) & WORD
    b = _turned(b ^ c, 7)
    return a, b, c, d


@leaf
def draw(key, cycle, node, k):
    """Return 64 random bits. Cycle and k count modulo 2³², the node modulo 2⁶⁴."""
    # All words are signed 64-bit numbers below 2³², so the same code runs without the compiler.
    first, second = 0x61707865, 0x3320646E
    w0, w1, w2, w3 = first, second, 0x79622D32, 0x6B206574
    w4, w5, w6, w7, w8, w9, w10, w11 = key
    w12, w13, w14, w15 = int(k) & WORD, int(cycle) & WORD, int(node) & WORD, (int(node) >> 32) & WORD
    for _ in range(10):
        w0, w4, w8, w12 = _quarter(w0, w4, w8, w12)
        w1, w5, w9, w13 = _quarter(w1, w5, w9, w13)
        w2, w6, w10, w14 = _quarter(w2, w6, w10, w14)
        w3, w7, w11, w15 = _quarter(w3, w7, w11, w15)
        w0, w5, w10, w15 = _quarter(w0, w5, w10, w15)
        w1, w6, w11, w12 = _quarter(w1, w6, w11, w12)
        w2, w7, w8, w13 = _quarter(w2, w7, w8, w13)
        w3, w4, w9, w14 = _quarter(w3, w4, w9, w14)
    return np.uint64((((w1 + second) & WORD) << 32) | ((w0 + first) & WORD))
