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

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.rng import draw

FRACTION = 30  # bits behind the point: half a billionth each way, and room for numbers up to billions
KEY_BYTES = 64  # two public keys
SHARE_BYTES = 112  # shares of two secrets for one member, encrypted
SECRET_BYTES = 32

Words = NDArray[np.uint64]
Weights = NDArray[np.float64]
Nodes = NDArray[np.int32]
Edges = NDArray[np.int64]
Keys = tuple[np.uint64, np.uint64]  # of own and of shared masks


@kernel
def own_mask(key, cycle, i, out):
    """The mask that node i alone knows."""
    for f in range(out.size):
        out[f] = draw(key, cycle, i, f)


@kernel
def shared_mask(key, cycle, i, j, out):
    """The mask that nodes i and j both know."""
    for f in range(out.size):
        out[f] = draw(key, cycle, min(i, j), (np.int64(max(i, j)) << np.int64(32)) + f)


@kernel
def mask_groups(members, edges, own_key, pair_key, cycles, words):
    """Add to row e of `words` the own mask of members[e] and those it shares with the others of its group.

    Group g has members edges[g] … edges[g+1]−1 and was formed in cycles[g]. Of two nodes the lower one adds.
    """
    one = np.empty(words.shape[1], np.uint64)
    for g in range(cycles.size):
        for e in range(edges[g], edges[g + 1]):
            own_mask(own_key, cycles[g], members[e], one)
            words[e] += one
            for o in range(edges[g], edges[g + 1]):
                if o != e:
                    shared_mask(pair_key, cycles[g], members[e], members[o], one)
                    if members[e] < members[o]:
                        words[e] += one
                    else:
                        words[e] -= one


@kernel
def unmasked_sums(members, edges, arrived, own_key, pair_key, cycles, words, sums):
    """Each group's sum of what has arrived, less own masks and what is shared with those who did not arrive."""
    one = np.empty(words.shape[1], np.uint64)
    for g in range(cycles.size):
        for e in range(edges[g], edges[g + 1]):
            if not arrived[e]:
                continue
            sums[g] += words[e]
            own_mask(own_key, cycles[g], members[e], one)
            sums[g] -= one
            for o in range(edges[g], edges[g + 1]):
                if not arrived[o]:
                    shared_mask(pair_key, cycles[g], members[e], members[o], one)
                    if members[e] < members[o]:
                        sums[g] -= one
                    else:
                        sums[g] += one


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


def masked(members: Nodes, edges: Edges, words: Words, keys: Keys, cycles: Nodes) -> Words:
    """What each member sends in place of its integers; see `mask_groups`."""
    sent = words.copy()
    mask_groups(members, edges, *keys, cycles, sent)
    return sent


def totals(members: Nodes, edges: Edges, arrived: NDArray[np.bool_], words: Words, keys: Keys, cycles: Nodes) -> Words:
    """Each group's sum of what those who arrived had; members are all who had agreed on keys."""
    sums = np.zeros((cycles.size, words.shape[1]), np.uint64)
    unmasked_sums(members, edges, arrived, *keys, cycles, words, sums)
    return sums
