"""Tokens that let each member of a group answer each question once (Cyphers 2017, section 5.2).

The source takes Anonize (Hohenberger et al. 2014): a member's token for a question is a function of its secret and the
question, with a zero-knowledge proof that some member made it for this very packet. Here keyed hashes of 64 bits
stand in for the proof: who knows the group's key could make and trace any token, so nothing is hidden by them. What
they do show is which packets are refused, and why.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.core.rng import draw, mix

ACCEPTED, REPEAT, OUTSIDER, FORGED = range(4)
BYTES = 24  # of one token here; a real proof takes more
REFUSED = {REPEAT: "repeat", OUTSIDER: "outsider", FORGED: "forged"}

Words = NDArray[np.uint64]


class Tokens(NamedTuple):
    """Tokens of packets: the same tag for the same member and question, and two proofs."""

    tag: Words
    membership: Words  # some member made this tag for this question
    binding: Words  # and sent it with this content


@leaf
def tag_of(key, question, member):
    """The one tag that a member has for a question."""
    return draw(key, question, member, 0)


@leaf
def membership_of(key, question, tag):
    """The proof that a tag is a member's."""
    return draw(key, question, tag, 1)


@leaf
def binding_of(key, question, tag, content):
    """The proof that a tag was made for a content."""
    return mix(np.uint64(draw(key, question, tag, 2)) ^ np.uint64(content))


@kernel
def write_tokens(key, questions, members, contents, tokens):
    """The tokens that members of the group with this key make for their packets."""
    for e in range(questions.size):
        tag = tag_of(key, questions[e], members[e])
        tokens.tag[e] = tag
        tokens.membership[e] = membership_of(key, questions[e], tag)
        tokens.binding[e] = binding_of(key, questions[e], tag, contents[e])


@leaf
def remember(seen, tag):
    """Note a tag in a table with room to spare; false where it was there already."""
    place = np.int64(np.uint64(tag) % np.uint64(seen.size))
    while seen[place] != 0:
        if seen[place] == tag:
            return False
        place = (place + 1) % seen.size
    seen[place] = tag
    return True


@kernel
def write_verdicts(key, questions, contents, tokens, seen, verdicts):
    """Look at packets in the order of their arrival; a tag is used up only by a packet that is valid."""
    for e in range(questions.size):
        question, tag = questions[e], tokens.tag[e]
        if tokens.membership[e] != membership_of(key, question, tag):
            verdicts[e] = OUTSIDER
        elif tokens.binding[e] != binding_of(key, question, tag, contents[e]):
            verdicts[e] = FORGED
        else:
            verdicts[e] = ACCEPTED if remember(seen, tag) else REPEAT


def issue(key: np.uint64, questions: NDArray[np.int64], members: NDArray[np.int32], contents: Words) -> Tokens:
    """A token for each packet, by members of the group whose key this is."""
    tokens = Tokens(*(np.empty(questions.size, np.uint64) for _ in range(3)))
    write_tokens(key, questions, members, contents, tokens)
    return tokens


def check(
    key: np.uint64, questions: NDArray[np.int64], contents: Words, tokens: Tokens, seen: Words
) -> NDArray[np.int8]:
    """What becomes of each packet; tags that were accepted are noted in `seen`."""
    verdicts = np.empty(questions.size, np.int8)
    write_verdicts(key, questions, contents, tokens, seen, verdicts)
    return verdicts


def room_for(packets: int) -> Words:
    """A table for the tags of so many packets, at most half full."""
    return np.zeros(2 * packets + 1, np.uint64)
