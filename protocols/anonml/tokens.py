"""Tokens that let each member of a group answer each question once (Cyphers 2017, section 5.2).

The source uses Anonize (Hohenberger et al. 2014): a member's token for a question is a function of its secret and of
the question, with a zero-knowledge proof that a member created it for this packet. Here keyed hashes of 64 bits replace
the proof. Anyone who knows the key of the group could create and trace any token, so these tokens hide nothing. They do
show which packets are refused, and why.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.core.rng import draw, mix

ACCEPTED, REPEAT, OUTSIDER, FORGED = range(4)
BYTES = 24  # of one token here; a real proof is larger
REFUSED = {REPEAT: "repeat", OUTSIDER: "outsider", FORGED: "forged"}

Words = NDArray[np.uint64]


class Tokens(NamedTuple):
    """Tokens of packets: a tag, which is unique per member and question, and two proofs."""

    tag: Words
    membership: Words  # the proof that a member created this tag for this question
    binding: Words  # the proof that the tag was sent with this content


@leaf
def tag_of(key, question, member):
    """Return the tag of a member for a question."""
    return draw(key, question, member, 0)


@leaf
def membership_of(key, question, tag):
    """Return the proof that a tag belongs to a member."""
    return draw(key, question, tag, 1)


@leaf
def binding_of(key, question, tag, content):
    """Return the proof that a tag was created for a content."""
    return mix(np.uint64(draw(key, question, tag, 2)) ^ np.uint64(content))


@kernel
def write_tokens(key, questions, members, contents, tokens):
    """Write the tokens that members of the group with this key create for their packets."""
    for e in range(questions.size):
        tag = tag_of(key, questions[e], members[e])
        tokens.tag[e] = tag
        tokens.membership[e] = membership_of(key, questions[e], tag)
        tokens.binding[e] = binding_of(key, questions[e], tag, contents[e])


@leaf
def remember(seen, tag):
    """Insert a tag into a hash table with free space, and return whether it is new."""
    place = np.int64(np.uint64(tag) % np.uint64(seen.size))
    while seen[place] != 0:
        if seen[place] == tag:
            return False
        place = (place + 1) % seen.size
    seen[place] = tag
    return True


@kernel
def write_verdicts(key, questions, contents, tokens, seen, verdicts):
    """Check packets in the order of their arrival; only a valid packet uses up its tag.

    Parameters
    ----------
    key : uint64
        The key of the group.
    questions : array of int64, shape (packets,)
        The question of each packet.
    contents : array of uint64, shape (packets,)
        The content of each packet.
    tokens : Tokens
        The token of each packet.
    seen : array of uint64
        A hash table of the accepted tags; changed in place.
    verdicts : array of int8, shape (packets,)
        ACCEPTED, REPEAT, OUTSIDER or FORGED; filled here.
    """
    for e in range(questions.size):
        question, tag = questions[e], tokens.tag[e]
        if tokens.membership[e] != membership_of(key, question, tag):
            verdicts[e] = OUTSIDER
        elif tokens.binding[e] != binding_of(key, question, tag, contents[e]):
            verdicts[e] = FORGED
        else:
            verdicts[e] = ACCEPTED if remember(seen, tag) else REPEAT


def issue(key: np.uint64, questions: NDArray[np.int64], members: NDArray[np.int32], contents: Words) -> Tokens:
    """Return a token for each packet, created by members of the group with this key."""
    tokens = Tokens(*(np.empty(questions.size, np.uint64) for _ in range(3)))
    write_tokens(key, questions, members, contents, tokens)
    return tokens


def check(
    key: np.uint64, questions: NDArray[np.int64], contents: Words, tokens: Tokens, seen: Words
) -> NDArray[np.int8]:
    """Return the verdict on each packet; accepted tags are inserted into `seen`."""
    verdicts = np.empty(questions.size, np.int8)
    write_verdicts(key, questions, contents, tokens, seen, verdicts)
    return verdicts


def room_for(packets: int) -> Words:
    """Return an empty hash table for the tags of this number of packets; it will be at most half full."""
    return np.zeros(2 * packets + 1, np.uint64)
