"""Compute secure sums: only the sum is revealed, not its terms (Bonawitz et al. 2017).

Terms are fixed-point integers. Every member adds its own mask to its integers and, for each other member, a mask that
both know: one of the two adds it, the other subtracts it. In the sum over all members the pairwise masks cancel. Once
enough members answer, the remaining masks are revealed and subtracted: those shared with members that dropped out, and
the own masks of the members that did not. All arithmetic is modulo 2⁶⁴, so a masked term is uniformly distributed.

The key agreement is simulated: both members draw from the same generator where real members would run Diffie–Hellman.
Shares of secrets are counted as traffic but not computed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError
from golfsim.core.kernels import kernel
from golfsim.core.rng import draw
from golfsim.core.words import counted

FRACTION = 30  # bits of the fraction: rounding errors of at most 2⁻³¹, and sums up to 2³²
KEY_BYTES = 64  # two public keys
SHARE_BYTES = 112  # shares of two secrets for one member, encrypted
SECRET_BYTES = 32

Words = NDArray[np.uint64]
Weights = NDArray[np.float64]
Nodes = NDArray[np.int32]
Edges = NDArray[np.int64]
Keys = tuple[np.uint64, np.uint64]  # of own masks and of shared masks


@kernel
def own_mask(key, cycle, i, out):
    """Write the mask that only node i knows into `out`."""
    for f in range(out.size):
        out[f] = draw(key, cycle, i, f)


@kernel
def shared_mask(key, cycle, i, j, out):
    """Write the mask that only nodes i and j know into `out`."""
    for f in range(out.size):
        out[f] = draw(key, cycle, min(i, j), (np.int64(max(i, j)) << np.int64(32)) + f)


@kernel
def mask_groups(members, edges, own_key, pair_key, cycles, words):
    """Add to row e of `words` the own mask of members[e] and the masks that it shares with the rest of its group.

    Of two nodes, the one with the lower number adds the shared mask, and the other one subtracts it.

    Parameters
    ----------
    members : array of int32, shape (members,)
        The nodes of all groups, group after group.
    edges : array of int64, shape (groups + 1,)
        Group g consists of members[edges[g]:edges[g + 1]].
    own_key, pair_key : uint64
        The keys of own masks and of shared masks.
    cycles : array of int32, shape (groups,)
        The cycle in which each group was formed.
    words : array of uint64, shape (members, features)
        The fixed-point integers of each member, masked in place.
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
    """Add to sums[g] the terms of group g that have arrived, without their masks.

    The own masks of these members are subtracted, and so are the masks that they share with missing members.

    Parameters
    ----------
    members : array of int32, shape (members,)
        The nodes of all groups, group after group.
    edges : array of int64, shape (groups + 1,)
        Group g consists of members[edges[g]:edges[g + 1]].
    arrived : array of bool, shape (members,)
        Whether the term of each member has arrived.
    own_key, pair_key : uint64
        The keys of own masks and of shared masks.
    cycles : array of int32, shape (groups,)
        The cycle in which each group was formed.
    words : array of uint64, shape (members, features)
        The masked terms.
    sums : array of uint64, shape (groups, features)
        The output, changed in place.
    """
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
    """Return numbers as fixed-point integers; raise an error if a sum of this many terms could overflow."""
    most = 2.0 ** (62 - FRACTION) / terms
    largest = np.abs(values).max(initial=0.0)
    if not largest <= most:
        raise UserError(
            f"a weight of a model is {largest:.3g}; a secure sum of {counted(terms, 'term')} allows at most {most:.3g}",
            key=f"{layer}.sum",
            hint='use more regularisation or less noise, or sum = "plain"',
        )
    return np.rint(values * 2.0**FRACTION).astype(np.int64).view(np.uint64)


def to_numbers(total: Words) -> Weights:
    """Return a sum of fixed-point integers as numbers."""
    return np.asarray(total.view(np.int64) / 2.0**FRACTION)


def masked(members: Nodes, edges: Edges, words: Words, keys: Keys, cycles: Nodes) -> Words:
    """Return the masked integers that each member sends; see `mask_groups`."""
    sent = words.copy()
    mask_groups(members, edges, *keys, cycles, sent)
    return sent


def totals(members: Nodes, edges: Edges, arrived: NDArray[np.bool_], words: Words, keys: Keys, cycles: Nodes) -> Words:
    """Return the sum over the members of each group whose terms have arrived, shape (groups, features).

    Parameters
    ----------
    members : array of int32, shape (members,)
        The nodes that have agreed on keys, group after group.
    edges : array of int64, shape (groups + 1,)
        Group g consists of members[edges[g]:edges[g + 1]].
    arrived : array of bool, shape (members,)
        Whether the term of each member has arrived.
    words : array of uint64, shape (members, features)
        The masked terms.
    keys : tuple of two uint64
        The keys of own masks and of shared masks.
    cycles : array of int32, shape (groups,)
        The cycle in which each group was formed.
    """
    sums = np.zeros((cycles.size, words.shape[1]), np.uint64)
    unmasked_sums(members, edges, arrived, *keys, cycles, words, sums)
    return sums
