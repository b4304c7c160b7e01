"""Draw random numbers without a state: each is a function of (seed, layer, purpose, cycle, node, k).

`draw` nests three SplitMix64 streams (Steele, Lea & Flood 2014): the stream of a key is indexed by the cycle, the
stream that starts there by the node, and the one that starts there by k. So neither the order of the draws nor the
number of threads can change a number, and a new layer does not change the numbers of other layers.

These numbers can be repeated, and anyone who knows or guesses the seed can compute them. Where a key is a
`golfsim.core.chacha.SecretKey`, the draws are those of ChaCha20, which nobody can compute without the key.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numba
import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from golfsim.core import chacha
from golfsim.core.kernels import OVERLOADED, inlined, kernel

_WORD = 0xFFFF_FFFF_FFFF_FFFF
STEP = 0x9E37_79B9_7F4A_7C15
_ONE = 0x3FF0_0000_0000_0000  # the bits of 1.0
_MIX_1 = 0xBF58_476D_1CE4_E5B9
_MIX_2 = 0x94D0_49BB_1331_11EB


def key(seed: int, layer: str, purpose: str) -> np.uint64:
    """Return the key of one purpose of one layer; its random numbers are independent of those of all other keys."""
    digest = hashlib.blake2b(f"{seed}\x1f{layer}\x1f{purpose}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def is_secret(key: Any) -> bool:
    """Return whether a key, or the type of a key in compiled code, is that of ChaCha20."""
    return isinstance(key, chacha.SecretKey) or getattr(key, "instance_class", None) is chacha.SecretKey


if numba.config.DISABLE_JIT:
    # Python integers: numpy scalars would warn about each overflow.

    def mix(h: int) -> int:
        """Apply the finaliser of SplitMix64."""
        h = int(h) & _WORD
        h = ((h ^ (h >> 30)) * _MIX_1) & _WORD
        h = ((h ^ (h >> 27)) * _MIX_2) & _WORD
        return h ^ (h >> 31)

    def stream(key: int, cycle: int, node: int, k: int) -> int:
        """Return the state of draw k: `mix` turns it into the draw, and adding `STEP` gives the next state."""
        h = mix(int(key) + (int(cycle) + 1) * STEP)
        h = mix(h + (int(node) + 1) * STEP)
        return h + (int(k) + 1) * STEP

    def draw(key: Any, cycle: int, node: int, k: int) -> int:
        """Return 64 random bits."""
        if is_secret(key):
            return int(chacha.draw(key, cycle, node, k))
        return mix(stream(key, cycle, node, k))

else:

    @inlined
    def mix(h):
        """Apply the finaliser of SplitMix64."""
        h = np.uint64(h)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(_MIX_1)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(_MIX_2)
        return h ^ (h >> np.uint64(31))

    @inlined
    def stream(key, cycle, node, k):
        """Return the state of draw k: `mix` turns it into the draw, and adding `STEP` gives the next state."""
        step, one = np.uint64(STEP), np.uint64(1)
        h = mix(np.uint64(key) + (np.uint64(cycle) + one) * step)
        h = mix(h + (np.uint64(node) + one) * step)
        return h + (np.uint64(k) + one) * step

    def _draw(key: Any, cycle: Any, node: Any, k: Any) -> Any:
        """Stand for the draw of a key of either kind; the compiler chooses by the type of the key."""
        raise NotImplementedError

    @overload(_draw, jit_options=OVERLOADED)
    def _compiled_draw(key, cycle, node, k):
        if is_secret(key):
            return lambda key, cycle, node, k: chacha.draw(key, cycle, node, k)
        return lambda key, cycle, node, k: mix(stream(key, cycle, node, k))

    @inlined
    def draw(key, cycle, node, k):
        """Return 64 random bits."""
        return _draw(key, cycle, node, k)


@inlined
def unit(h):
    """Turn a draw into a number of the open interval (0, 1): (⌊h/2¹²⌋ + ½)·2⁻⁵², from its bits, without rounding."""
    return np.int64((h >> 12) | _ONE).view(np.float64) - (1 - 2.0**-53)


@inlined
def below(h, n):
    """Turn a draw into an integer from 0 to n−1."""
    return np.int64(np.float64(h >> 11) * 2.0**-53 * n)


def item(k: Any, e: int) -> Any:
    """Return k, or its entry e if k is an array: kernels take both, and are compiled for each."""
    return k[e] if isinstance(k, np.ndarray) else k


@overload(item, jit_options=OVERLOADED)
def _compiled_item(k, e):
    return (lambda k, e: k[e]) if isinstance(k, numba.types.Array) else (lambda k, e: k)


@kernel
def _fill_uniform(key, cycles, nodes, k, out):
    for e in range(nodes.size):
        out[e] = unit(draw(key, cycles[e], nodes[e], k))


@kernel
def _shuffle(key, cycle, keep, out):
    for i in range(out.size - 1, out.size - 1 - keep, -1):
        j = below(draw(key, cycle, i, 0), i + 1)
        out[i], out[j] = out[j], out[i]


def uniform(
    key: np.uint64, nodes: NDArray[np.int32], cycle: int | NDArray[np.int32] = 0, k: int = 0
) -> NDArray[np.float64]:
    """Return a random number in (0, 1) for each node; `cycle` is one number for all nodes or one per node."""
    out = np.empty(len(nodes))
    cycles = np.ascontiguousarray(np.broadcast_to(np.asarray(cycle, np.int32), out.shape))
    _fill_uniform(key, cycles, nodes, k, out)
    return out


def integers(key: np.uint64, nodes: NDArray[np.int32], n: int, cycle: int = 0, k: int = 0) -> NDArray[np.int64]:
    """Return a random integer from 0 to n−1 for each node."""
    return np.minimum((uniform(key, nodes, cycle, k) * n).astype(np.int64), n - 1)


def permutation(key: np.uint64, cycle: int, n: int) -> NDArray[np.int32]:
    """Return the numbers 0 … n−1 in random order (Fisher–Yates)."""
    out = np.arange(n, dtype=np.int32)
    _shuffle(key, cycle, n - 1, out)
    return out


def sample(key: np.uint64, cycle: int, pool: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """Return `size` different random members of the pool, or all members, in ascending order."""
    if size >= pool.size:
        return pool
    out = pool.copy()
    _shuffle(key, cycle, size, out)
    return np.sort(out[pool.size - size :])
