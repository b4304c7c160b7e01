"""A sum whose terms nobody sees: pairwise masks that cancel, over fixed-point integers (Bonawitz et al. 2017).

Every member adds to its integers a mask of its own and, for each other member, a mask that both know: added by one,
subtracted by the other. In the sum of all members the pairwise masks cancel; those shared with members who dropped out,
and the own masks of those who did not, are revealed once enough members answer, and taken off. All arithmetic is modulo
2⁶⁴, so a masked term looks like noise whatever it hides.

The agreement on keys is simulated: both ends draw from the same generator where a real member would run Diffie–Hellman,
and shares of secrets are counted but not computed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golfsim.errors import UserError
from golfsim.kernels import kernel
from golfsim.rng import draw

FRACTION = 36  # bits behind the point
KEY_BYTES = 64  # two public keys
SHARE_BYTES = 112  # shares of two secrets for one member, encrypted
SECRET_BYTES = 32

Words = NDArray[np.uint64]
Weights = NDArray[np.float64]


@kernel
def mask(members, e, own_key, pair_key, cycle, words):
    """Add to row e of `words` the own mask of members[e] and the masks it shares with the others."""
    i = members[e]
    for f in range(words.shape[1]):
        words[e, f] += draw(own_key, cycle, i, f)
    for o in range(members.size):
        j = members[o]
        if j == i:
            continue
        low, high = min(i, j), max(i, j)
        for f in range(words.shape[1]):
            both = draw(pair_key, cycle, low, (np.int64(high) << np.int64(32)) + f)
            words[e, f] = words[e, f] + both if i == low else words[e, f] - both


@kernel
def mask_all(members, own_key, pair_key, cycle, words):
    """What every member sends."""
    for e in range(members.size):
        mask(members, e, own_key, pair_key, cycle, words)


@kernel
def unmask(members, arrived, own_key, pair_key, cycle, total):
    """Take off the sum of those who arrived their own masks, and what they share with those who did not."""
    for e in range(members.size):
        if not arrived[e]:
            continue
        i = members[e]
        for f in range(total.size):
            total[f] -= draw(own_key, cycle, i, f)
        for o in range(members.size):
            if not arrived[o]:
                j = members[o]
                low, high = min(i, j), max(i, j)
                for f in range(total.size):
                    both = draw(pair_key, cycle, low, (np.int64(high) << np.int64(32)) + f)
                    total[f] = total[f] - both if i == low else total[f] + both


def to_words(values: Weights, terms: int, layer: str) -> Words:
    """Numbers as fixed-point integers; refused where a sum of so many terms could leave their range."""
    most = 2.0 ** (62 - FRACTION) / terms
    largest = np.abs(values).max(initial=0.0)
    if not largest <= most:
        raise UserError(
            f"a model has a weight of {largest:.3g}, and a secure sum of {terms} has room for {most:.3g}",
            key=f"{layer}.sum",
            hint='regularise more, add less noise, or take sum = "plain"',
        )
    return np.rint(values * 2.0**FRACTION).astype(np.int64).view(np.uint64)


def to_numbers(total: Words) -> Weights:
    """A sum of fixed-point integers as numbers."""
    return np.asarray(total.view(np.int64) / 2.0**FRACTION)


def masked(members: NDArray[np.int32], words: Words, keys: tuple[np.uint64, np.uint64], cycle: int) -> Words:
    """What each member of a group sends in place of its integers."""
    sent = words.copy()
    mask_all(members, *keys, cycle, sent)
    return sent


def total(
    members: NDArray[np.int32],
    arrived: NDArray[np.bool_],
    words: Words,
    keys: tuple[np.uint64, np.uint64],
    cycle: int,
) -> Words:
    """The sum of what those who arrived had, from what they have sent; members are all who had agreed on keys."""
    found = words[arrived].sum(axis=0, dtype=np.uint64)
    unmask(members, arrived, *keys, cycle, found)
    return np.asarray(found, np.uint64)
