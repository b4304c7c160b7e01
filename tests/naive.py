"""Slow, plain versions of what golfsim computes, written from the papers.

A test reads `ref = naive.f(…)`, `comp = f(…)`, equal. Nothing here imports golfsim; all arithmetic is float64 or Python
integers, except where the order of a sum is at stake; no function changes its arguments. Papers cited more than once:

H17 is Hegedűs & Jelasity, "Differentially private linear models for gossip learning through data perturbation", 2017.
O13 is Ormándi, Hegedűs & Jelasity, "Gossip learning with linear models on fully distributed data", 2013.
D18 is Danner & Jelasity, "Token account algorithms: the best of the proactive and reactive worlds", 2018. The text of
the paper was not at hand; its formulae are those of the authors' program (GoLF, TokenLearningProtocol) and of gossipy.
HDJ21 is Hegedűs, Danner & Jelasity, "Decentralized learning works: an empirical comparison of gossip learning and
federated learning", 2021; not at hand either, read in GoLF (PartitionedLogReg).
"""

import collections
import copy
import hashlib
import itertools
import math
import statistics
from fractions import Fraction
from typing import NamedTuple

import numpy as np

# ------------------------------------------------------------------------------------------- sums in a fixed order
# The order decides the last bits, so these keep the type of their arguments and not float64.


def fused(a, b, c):
    """a·b + c of three numbers of one type, rounded once: to the nearest number of that type, ties to the even one."""
    exact, kind = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), type(a)
    near = kind(float(exact))
    around = [np.nextafter(near, kind(-np.inf)), near, np.nextafter(near, kind(np.inf))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), x.tobytes()[0] & 1))


def dot_in_lanes(a, b, lanes=16):
    """The scalar product: sums in lanes, then the lanes in halves, each time with as many further items as lanes."""
    sums, f = [a.dtype.type(0)] * lanes, 0
    while f + lanes <= len(a):
        sums = [fused(a[f + k], b[f + k], sums[k]) for k in range(lanes)]
        f += lanes
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [sums[k] + sums[k + half] for k in range(half)]
        if f + half <= len(a):
            sums = [fused(a[f + k], b[f + k], sums[k]) for k in range(half)]
            f += half
    return float(sums[0])


def product(a, b):
    """a·bᵀ, each sum taken from the first column to the last."""
    found = np.zeros((len(a), len(b)), a.dtype)
    for i, j in itertools.product(range(len(a)), range(len(b))):
        for f in range(a.shape[1]):
            found[i, j] = fused(a[i, f], b[j, f], found[i, j])
    return found


# ------------------------------------------------------------------------------------------------ random numbers

GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1


def mix(h):
    """The finaliser of SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014)."""
    h = int(h) & MASK
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & MASK
    return h ^ (h >> 31)


def draw(key, cycle, node, k):
    """The k-th 64-bit draw of a node in a cycle: SplitMix64 steps nested, one for each coordinate."""
    h = int(key)
    for coordinate in (cycle, node, k):
        h = mix(h + (int(coordinate) + 1) * GOLDEN)
    return h


def chacha(words, counter, nonce):
    """The sixteen words of a ChaCha20 block, as in RFC 8439, section 2.3: 20 rounds on a 4×4 square."""

    def quarter(square, a, b, c, d):
        for into, other, mixed, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            square[into] = (square[into] + square[other]) % 2**32
            word = square[mixed] ^ square[into]
            square[mixed] = (word << bits) % 2**32 | word >> (32 - bits)

    begin = [*np.frombuffer(b"expand 32-byte k", "<u4").tolist(), *words, counter, *nonce]
    square = list(begin)
    for _ in range(10):
        for column in range(4):
            quarter(square, *(column + 4 * row for row in range(4)))
        for column in range(4):
            quarter(square, *((column + row) % 4 + 4 * row for row in range(4)))
    return [(one + other) % 2**32 for one, other in zip(begin, square, strict=True)]


def uniform(h):
    """A float in the open interval (0, 1): the middle of one of 2^52 equal cells."""
    return ((int(h) >> 12) + 0.5) * 2.0**-52


def arrives(key, cycle, src, dst, drawn_by, k, loss, online, side):
    """Whether a message arrives: not lost by chance, its receiver online, and no cut in between."""
    lost = uniform(draw(key, cycle, drawn_by, 2 * k)) < loss
    cut = len(side) > 0 and side[src] != side[dst]
    return not lost and not cut and bool(online[dst])


def below(h, n):
    """An integer in [0, n)."""
    return int((int(h) >> 11) * 2.0**-53 * n)


def key(seed, layer, purpose):
    """The key of a layer's draws for one purpose."""
    text = f"{seed}\x1f{layer}\x1f{purpose}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def permutation(key, cycle, n):
    """Fisher–Yates shuffle of 0…n−1 (Durstenfeld, "Algorithm 235: Random permutation", CACM 1964)."""
    p = list(range(n))
    for i in range(n - 1, 0, -1):
        j = below(draw(key, cycle, i, 0), i + 1)
        p[i], p[j] = p[j], p[i]
    return p


# ------------------------------------------------------------------------------------------------ Newscast


def newscast_merge(view_i, view_j, i, j, now, first_wins_tie, size):
    """The two views after an exchange (Jelasity, Kowalczyk & van Steen 2003, as in PeerSim 1.0.5's SimpleNewscast).

    A view is a list of (peer, timestamp), freshest first. Equal timestamps are won by the two views alternately,
    whether or not the entry that won is then kept.
    """
    left, right, tail, i_wins = list(view_i), list(view_j), [], first_wins_tie
    while (left or right) and len(tail) < size - 1:
        if left and right and left[0][1] == right[0][1]:
            from_i, i_wins = i_wins, not i_wins
        else:
            from_i = bool(left) and (not right or left[0][1] > right[0][1])
        peer, timestamp = left.pop(0) if from_i else right.pop(0)
        partner = j if from_i else i
        if peer != partner and peer not in [kept for kept, _ in tail]:
            tail.append((peer, timestamp))
    return [(j, now), *tail], [(i, now), *tail]


def newscast_choose(view, index, online):
    """The peer at `index`, else the next online one, of the older entries, then of the younger ones (PeerSim 1.0.5)."""
    for place in [*range(index, len(view)), *range(index - 1, -1, -1)]:
        peer, _ = view[place]
        if online[peer]:
            return peer
    return None


def newscast_cycle(views, order, online, now, key, liveness, size):
    """One cycle of Newscast (Jelasity et al., "Gossip-based peer sampling", 2007): the new views, and who asked whom.

    With liveness "oracle" an offline peer is never asked; with "none" the exchange with an offline peer is lost. The
    second result has, for each node of order, the peer it asked (also in vain), or −1 when it idled.
    """
    views, asked = [list(view) for view in views], []
    for i in order:
        asked.append(-1)
        if not views[i]:
            continue
        index = below(draw(key, now, i, 0), len(views[i]))
        j = newscast_choose(views[i], index, online) if liveness == "oracle" else views[i][index][0]
        if j is None:
            continue
        asked[-1] = j
        if online[j]:
            i_first = draw(key, now, i, 1) % 2 == 1
            views[i], views[j] = newscast_merge(views[i], views[j], i, j, now, i_first, size)
    return views, asked


def cyclon_cycle(views, order, now, key, length, size, request_arrives, answer_arrives):
    """One cycle of CYCLON's enhanced shuffling (Voulgaris, Gavidia & van Steen 2005, section 2.3).

    A view is a list of (peer, age). The two functions say which messages (from, to) arrive. Draws 0 … length−1 of the
    initiator choose what it sends, draws length … 2·length−1 what its partner sends.
    """
    views = [list(view) for view in views]

    def subset(view, count, i, k):
        """Random members of a view; the others."""
        rest, chosen = list(view), []
        for place in range(count):
            other = below(draw(key, now, i, k + place), len(rest))
            chosen.append(rest[other])
            rest[other] = rest[0]  # as a shuffle in place does: the first of the rest takes the free place
            rest.pop(0)
        return chosen, rest

    def updated(node, chosen, rest, received):
        """Empty places first; then received entries replace those that were sent, the last one first."""
        kept, extra = list(chosen), list(rest)
        replaceable = len(kept)
        for peer, age in received:
            if peer == node or peer in [known for known, _ in kept + extra]:
                continue
            if len(kept) + len(extra) < size:
                extra.append((peer, age))
            elif replaceable:
                replaceable -= 1
                kept[replaceable] = (peer, age)
        return kept + extra

    for i in order:
        if not views[i]:
            continue
        aged = [(peer, age + 1) for peer, age in views[i]]  # step 1
        highest = max(age for _, age in aged)
        place = [age for _, age in aged].index(highest)
        partner = aged[place][0]  # step 2
        aged[place] = aged[-1]
        aged.pop()
        chosen, rest = subset(aged, min(length - 1, len(aged)), i, 0)
        views[i] = chosen + rest
        if not request_arrives(i, partner):
            continue
        offered = [*chosen, (i, 0)]  # steps 3 and 4
        returned, others = subset(views[partner], min(length, len(views[partner])), i, length)  # step 5
        views[partner] = updated(partner, returned, others, offered)
        if answer_arrives(partner, i):
            views[i] = updated(i, chosen, rest, returned)  # steps 6 and 7
    return views


def tman_preference(topology, positions, length, columns, owner, peers):
    """The peers in the order in which the owner prefers them (Jelasity, Montresor & Babaoglu 2009, section 2).

    On a ring and a line the nearest nodes of both sides are taken in turn, in the other topologies just the nearest.
    Equally near nodes are taken by number.
    """
    here = positions[owner]

    def hops(a, b):
        """The edges between two nodes of a binary tree with the root 1, where node n has the children 2n and 2n+1."""
        above = lambda n: [n >> up for up in range(n.bit_length())]  # noqa: E731
        return min(above(a).index(n) + above(b).index(n) for n in above(a) if n in above(b))

    def on_ring(a, b, size):
        return min((b - a) % size, (a - b) % size)

    if topology == "tree":
        return sorted(peers, key=lambda peer: (hops(here + 1, positions[peer] + 1), peer))
    if topology == "torus":
        row, column = divmod(here, columns)
        return sorted(
            peers,
            key=lambda peer: (
                on_ring(row, positions[peer] // columns, length) + on_ring(column, positions[peer] % columns, columns),
                peer,
            ),
        )
    if topology == "line":
        ahead = [peer for peer in peers if positions[peer] >= here]
    else:
        ahead = [peer for peer in peers if (positions[peer] - here) % length <= (here - positions[peer]) % length]
    size = 10**30 if topology == "line" else length
    nearest = lambda peer: (on_ring(here, positions[peer], size), peer)  # noqa: E731
    sides = sorted(ahead, key=nearest), sorted(set(peers) - set(ahead), key=nearest)
    mixed = []
    for place in range(len(peers)):
        mixed += [side[place] for side in sides if place < len(side)]
    return mixed


def tman_merge(view, received, owner, prefer, size, oldest):
    """The new view, a list of (peer, time stamp): the fresher of two descriptors counts, and none is too old."""
    fresh = {}
    for peer, stamp in view + [(peer, stamp) for peer, stamp in received if peer != owner]:
        if stamp >= oldest:
            fresh[peer] = max(stamp, fresh.get(peer, stamp))
    return [(peer, fresh[peer]) for peer in prefer(owner, list(fresh))][:size]


def tman_cycle(views, order, now, key, prefer, psi, message, size, oldest, request_arrives, answer_arrives):
    """One cycle of T-Man (Jelasity, Montresor & Babaoglu 2009, figure 2), without a liveness oracle."""
    views = [list(view) for view in views]

    def first(i, j):
        """What i sends to j: the best of its view and its own descriptor, in the eyes of j."""
        known = {i: now} | {peer: stamp for peer, stamp in views[i] if peer != j and stamp >= oldest}
        return [(peer, known[peer]) for peer in prefer(j, list(known))][:message]

    for i in order:
        if not views[i]:
            continue
        j = views[i][below(draw(key, now, i, 0), min(psi, len(views[i])))][0]
        sent = first(i, j)
        if not request_arrives(i, j):
            continue
        returned = first(j, i)
        views[j] = tman_merge(views[j], sent, j, prefer, size, oldest)
        if answer_arrives(j, i):
            views[i] = tman_merge(views[i], returned, i, prefer, size, oldest)
    return views


def matching(online, nodes, cycle, key, k):
    """The partner of each node, or −1: neighbours in a random order of the online nodes (Durstenfeld 1964)."""
    order, partner = sorted(online), [-1] * nodes
    for place in range(len(order) - 1, 0, -1):
        other = below(draw(key, cycle, place, k), place + 1)
        order[place], order[other] = order[other], order[place]
    for a, b in zip(order[::2], order[1::2]):  # noqa: B905 - the last of an odd number has no partner
        partner[a], partner[b] = b, a
    return partner


class HyParView:
    """One cycle of HyParView (Leitão, Pereira & Rodrigues 2007, section 4), each node in turn.

    Views are lists of peers; the last peer takes the place of one that is removed. `arrives(kind, by, k, src, dst)`
    says whether message k that is sent in the turn of node `by` arrives, `reach(src, dst)` whether dst can be reached.
    """

    def __init__(self, active, passive, sizes, walks, shuffled, now, key, arrives, reach):
        self.active, self.passive = [list(view) for view in active], [list(view) for view in passive]
        self.sizes, self.walks, self.shuffled = sizes, walks, shuffled
        self.now, self.key, self.arrives, self.reach = now, key, arrives, reach

    def cycle(self, order, contact):
        """The contacts that are left after nodes have joined, and then all repaired their views and shuffled."""
        contact = list(contact)
        for self.by in sorted(node for node in order if contact[node] is not None):
            self.draws = self.messages = 0
            self.left = []
            if self.join(self.by, contact[self.by]):
                contact[self.by] = None
            self.settle()
        for self.by in order:
            self.draws = self.messages = 2**20
            self.left = []
            self.repair(self.by)
            self.settle()
            self.shuffle(self.by)
        return contact

    def settle(self):
        """Nodes that lost a link repair their views, also those that lose one by this."""
        for node in self.left:
            self.repair(node)

    def pick(self, n):
        self.draws += 1
        return below(draw(self.key, self.now, self.by, self.draws - 1), n)

    def send(self, kind, src, dst):
        self.messages += 1
        return self.arrives(kind, self.by, self.messages - 1, src, dst)

    @staticmethod
    def take_out(view, peer):
        if peer in view:
            view[view.index(peer)] = view[-1]
            view.pop()

    def front(self, view, most):
        """Random peers, which come to the front of the view."""
        for place in range(min(most, len(view))):
            other = place + self.pick(len(view) - place)
            view[place], view[other] = view[other], view[place]
        return view[: min(most, len(view))]

    def keep(self, i, peer, sent_away=()):
        """Add to the passive view; what was sent away gives room first, each of it once."""
        if peer == i or peer in self.active[i] or peer in self.passive[i]:
            return
        if len(self.passive[i]) < self.sizes[1]:
            self.passive[i].append(peer)
            return
        while sent_away:
            old = sent_away.pop(0)
            if old in self.passive[i]:
                self.passive[i][self.passive[i].index(old)] = peer
                return
        self.passive[i][self.pick(len(self.passive[i]))] = peer

    def drop_random(self, i):
        other = self.active[i][self.pick(len(self.active[i]))]
        self.take_out(self.active[i], other)
        self.keep(i, other)
        if self.arrives("disconnect", None, None, i, other):
            self.take_out(self.active[other], i)
            self.keep(other, i)
            if len(self.left) < 64:
                self.left.append(other)

    def link(self, i, j):
        if i == j or j in self.active[i]:
            return
        for node in (i, j):
            if len(self.active[node]) == self.sizes[0]:
                self.drop_random(node)
        for node, peer in ((i, j), (j, i)):
            self.take_out(self.passive[node], peer)
            self.active[node].append(peer)

    def onward(self, node, sender):
        others = [peer for peer in self.active[node] if peer != sender]
        return others[self.pick(len(others))]

    def join(self, new, contact):
        if not self.send("join", new, contact):
            return False
        self.link(contact, new)
        for first in [peer for peer in self.active[contact] if peer != new]:
            sender, node, left = contact, first, self.walks[0]
            while self.send("forward", sender, node):
                if left == 0 or len(self.active[node]) <= 1:
                    self.link(node, new)
                    break
                if left == self.walks[1]:
                    self.keep(node, new)
                sender, node, left = node, self.onward(node, sender), left - 1
        return True

    def repair(self, i):
        asked = 0
        while asked < len(self.passive[i]) and len(self.active[i]) < self.sizes[0]:
            view = self.passive[i]
            place = asked + self.pick(len(view) - asked)
            view[place], view[asked] = view[asked], view[place]
            peer = view[asked]
            welcome = not self.active[i] or len(self.active[peer]) < self.sizes[0]
            if not self.send("neighbour", i, peer):
                self.take_out(view, peer)
            elif self.send("answer", peer, i) and welcome:
                self.link(i, peer)
            else:
                asked += 1

    def shuffle(self, i):
        if not self.active[i]:
            return
        sender, node, left = i, self.active[i][self.pick(len(self.active[i]))], self.walks[0]
        near = [i, *self.front(self.active[i], self.shuffled[0])]
        far = self.front(self.passive[i], self.shuffled[1])
        while True:
            if not self.send("shuffle", sender, node):
                return
            left -= 1
            if left == 0 or len(self.active[node]) <= 1:
                break
            sender, node = node, self.onward(node, sender)
        if node == i:
            return
        returned = self.front(self.passive[node], len(near) + len(far))
        room = list(returned)
        for peer in near + far:
            self.keep(node, peer, room)
        if self.send("reply", node, i):
            room = list(far)
            for peer in returned:
                self.keep(i, peer, room)


# ------------------------------------------------------------------------------------------------ broadcast


def simple_epidemic(heard, peers, now, mode, rumour_arrives, request_arrives, answer_arrives):
    """One cycle of push, pull or push-pull (Demers et al. 1987, section 1.3): the cycle in which each node heard.

    `heard` has a cycle or None per node, `peers` the pairs (node, peer) in acting order. What a node hears in a cycle
    it passes on in later ones. The functions say which messages (from, to) arrive.
    """
    knew, heard, sent = [cycle is not None and cycle < now for cycle in heard], list(heard), 0
    for i, j in peers:
        if j is None:
            continue
        if knew[i] and mode in ("push", "push-pull"):
            sent += 1
            if rumour_arrives(i, j) and heard[j] is None:
                heard[j] = now
        if heard[i] is None and mode in ("pull", "push-pull") and request_arrives(i, j) and knew[j]:
            sent += 1
            if answer_arrives(j, i):
                heard[i] = now
    return heard, sent


def rumour_mongering(heard, interest, peers, now, k, stop, feedback, coin, rumour_arrives, answer_arrives):
    """One cycle of rumour mongering by push (Demers et al. 1987, section 1.4): who heard when, and the interest left.

    `interest` is the number of contacts that a node makes before it loses interest. `coin(i)` is a uniform number.
    """
    knew = [cycle is not None and cycle < now for cycle in heard]
    heard, interest, sent = list(heard), list(interest), 0
    for i, j in peers:
        if j is None or not knew[i] or interest[i] == 0:
            continue
        sent += 1
        told = rumour_arrives(i, j)
        in_vain = told and heard[j] is not None
        if told and not in_vain:
            heard[j], interest[j] = now, k
        if feedback and told and not answer_arrives(j, i):
            in_vain = False
        if in_vain or not feedback:
            interest[i] = interest[i] - 1 if stop == "counter" else 0 if coin(i) < 1 / k else interest[i]
    return heard, interest, sent


def flood(links, source, arrives):
    """The hops of a message to each node that it reaches: a node sends it once, but not to where it came from."""
    hops, came_from, wave = {source: 0}, {source: None}, [source]
    for node in wave:
        for place, peer in enumerate(peer for peer in links[node] if peer != came_from[node]):
            if arrives(node, peer, place) and peer not in hops:
                hops[peer], came_from[peer] = hops[node] + 1, node
                wave.append(peer)
    return hops


# ------------------------------------------------------------------------------------------------ learning


def pegasos(w, x, y, t, lam):
    """The t-th update, t = 1, 2, …, of a linear SVM (H17 eq. 8; Shalev-Shwartz, Singer & Srebro, "Pegasos", 2007)."""
    inside = 1.0 if np.dot(w, y * x) < 1 else 0.0
    return (1 - 1 / t) * w + 1 / (lam * t) * inside * y * x


def logistic(w, x, y, t, lam):
    """The t-th update of logistic regression (H17 eq. 11)."""
    return (1 - 1 / t) * w + 1 / (lam * t) * sigmoid(-np.dot(w, y * x)) * y * x


def mean(w, x, y, t, lam):
    """The t-th update of the running mean of yx, where both the above point for large λ; λ itself has no say."""
    return (1 - 1 / t) * w + 1 / t * y * x


def perceptron(w, x, y, t, lam, rate=1.0):
    """Move the weights by ηyx if the record is not on its side (Rosenblatt 1958)."""
    return w + (rate * y * x if np.dot(w, y * x) <= 0 else 0 * x)


def adaline(w, x, y, t, lam, rate=0.1):
    """Move the weights by η(y − w·x)x (Widrow & Hoff 1960)."""
    return w + rate * (y - np.dot(w, x)) * x


def sigmoid(z):
    """1 / (1 + exp(−z)) that does not overflow."""
    e = math.exp(-abs(z))
    return 1 / (1 + e) if z >= 0 else e / (1 + e)


LEARNERS = {"pegasos": pegasos, "logistic": logistic, "mean": mean, "perceptron": perceptron, "adaline": adaline}
OF_THE_PAPERS = ("pegasos", "logistic", "mean")  # whose step size falls, and whose gradients have a length of 1 at most


def network_scores(parameters, sizes, x, activation):
    """The scores of a record by a network: per layer the weights of each neuron, then biases; the last is linear."""
    parameters, out, place = np.asarray(parameters, np.float64), np.asarray(x, np.float64), 0
    for layer, (below, above) in enumerate(itertools.pairwise(sizes)):
        weights = parameters[place : place + below * above].reshape(above, below)
        biases = parameters[place + below * above : place + (below + 1) * above]
        out, place = weights @ out + biases, place + (below + 1) * above
        if layer < len(sizes) - 2:
            out = np.tanh(out) if activation == "tanh" else np.maximum(out, 0)
    return out


def flat_scores(parameters, features, x):
    """The scores of a record by softmax regression: per class the weights, then the bias."""
    rows = np.asarray(parameters, np.float64).reshape(-1, features + 1)
    return rows[:, :-1] @ np.asarray(x, np.float64) + rows[:, -1]


def loss_of_scores(scores, label):
    """The logistic loss of a single score, else the cross-entropy of softmax."""
    if len(scores) == 1:
        return np.logaddexp(0, -scores[0] if label == 1 else scores[0])
    return np.logaddexp.reduce(scores) - scores[label]


def slope_by_differences(function, w, step=1e-5):
    """The gradient of a function by central differences."""
    w, slope = np.asarray(w, np.float64), np.zeros(len(w))
    for f in range(len(w)):
        there = np.zeros(len(w))
        there[f] = step
        slope[f] = (function(w + there) - function(w - there)) / (2 * step)
    return slope


def clipped(gradient, clip, order):
    """A gradient that is scaled down to the length `clip`, if it is longer."""
    length = np.linalg.norm(gradient, order)
    return gradient * (clip / length) if clip and length > clip else gradient


def sgd(w, memory, gradient, t, rate, lam):
    """w − η(g + λw); it remembers nothing."""
    return w - rate * (gradient + lam * w), memory


def momentum(w, memory, gradient, t, rate, lam, beta=0.9):
    """v ← βv + g + λw, w ← w − ηv (Polyak 1964)."""
    v = beta * memory[0] + gradient + lam * w
    return w - rate * v, [v]


def adam(w, memory, gradient, t, rate, lam, first=0.9, second=0.999, tiny=1e-8):
    """Algorithm 1 of Kingma & Ba (2015); the penalty is part of the gradient."""
    g = gradient + lam * w
    m = first * memory[0] + (1 - first) * g
    v = second * memory[1] + (1 - second) * g**2
    return w - rate * (m / (1 - first**t)) / (np.sqrt(v / (1 - second**t)) + tiny), [m, v]


OPTIMISERS = {"sgd": (sgd, 0), "momentum": (momentum, 1), "adam": (adam, 2)}  # and how many rows they remember


def least_objective(z, lam, learner, sweeps=4000):
    """The w with the least mean loss + (λ/2)‖w‖² over the rows of z = yx, and that least value.

    The SVM by dual coordinate descent (Hsieh et al. 2008), logistic regression by scipy's BFGS.
    """
    from scipy.optimize import minimize

    z = np.asarray(z, np.float64)
    if learner == "logistic":
        found = minimize(
            lambda w: np.logaddexp(0, -z @ w).mean() + lam / 2 * w @ w,
            np.zeros(z.shape[1]),
            jac=lambda w: -(z / (1 + np.exp(z @ w))[:, None]).mean(axis=0) + lam * w,
            options={"gtol": 1e-10, "maxiter": 10_000},
        )
        return found.x, found.fun
    n, w, alpha = len(z), np.zeros(z.shape[1]), np.zeros(len(z))
    for _ in range(sweeps):
        for i in range(n):
            new = min(max(alpha[i] + lam * n * (1 - z[i] @ w) / (z[i] @ z[i]), 0.0), 1.0)
            w += (new - alpha[i]) * z[i] / (lam * n)
            alpha[i] = new
    return w, np.maximum(1 - z @ w, 0).mean() + lam / 2 * w @ w


def tail_average(models):
    """The mean of the models from number 2^(k−1) on, counted from 1, where 2^k is the last power of two reached."""
    begin = 1
    while 4 * begin <= len(models):
        begin *= 2
    return np.mean(np.asarray(models, np.float64)[begin - 1 :], axis=0)


def minibatch(w, xs, ys, t, lam, learner):
    """One update with the mean gradient of all records, each taken at the old w (H17 section 4.3)."""
    # (1 − 1/t)w is in every record's own update, so the mean of those is the update with the mean gradient.
    w, xs = np.asarray(w, dtype=np.float64), np.asarray(xs, dtype=np.float64)
    return np.mean([LEARNERS[learner](w, x, y, t, lam) for x, y in zip(xs, ys, strict=True)], axis=0)


def one_by_one(w, xs, ys, t, lam, learner):
    """As many updates as there are records, the first of them the t-th."""
    w, xs = np.asarray(w, dtype=np.float64), np.asarray(xs, dtype=np.float64)
    for r, (x, y) in enumerate(zip(xs, ys, strict=True)):
        w = LEARNERS[learner](w, x, y, t + r, lam)
    return w


def signs(label, models):
    """A record's ±1 for each model: one model for two classes, else one model a class (H17 section 4.1)."""
    if models == 1:
        return [1 if label == 1 else -1]
    return [1 if m == label else -1 for m in range(models)]


def update(model, xs, labels, lam, learner, batch):
    """The model (W[models, d], age) after a node's records; age counts updates, and no records leave it as it is.

    With batch the records are one update, else one update each.
    """
    weights, age = model
    if len(xs) == 0:
        return model
    ys = np.array([signs(label, len(weights)) for label in labels])
    step = minibatch if batch else one_by_one
    new = [step(w, xs, ys[:, m], age + 1, lam, learner) for m, w in enumerate(weights)]
    return np.array(new), age + (1 if batch else len(xs))


# ------------------------------------------------------------------------------------------------ gossip learning


class State(NamedTuple):
    """What a node holds; a model is (W[models, d], age)."""

    current: tuple  # what it sends
    last: tuple  # the last model received, as it came in
    cache: list  # its last models, oldest first


def start(models, d):
    """A node at first: the zero model of age 0, also as the last one received and in the cache (O13 initModel)."""
    zero = (np.zeros((models, d)), 0)
    return State(zero, zero, [zero])


def merge(model_1, model_2, weighting="plain"):
    """The mean of two models, plain or weighted by age; the age is the larger one (O13 merge)."""
    (w1, t1), (w2, t2) = model_1, model_2
    share = t1 / (t1 + t2) if weighting == "age" and t1 + t2 > 0 else 0.5
    return share * np.float64(w1) + (1 - share) * np.float64(w2), max(t1, t2)


def algorithm1(received, state, learn, join):
    """H17 algorithm 1: update what was received, then average it with the current model."""
    return join(learn(received), state.current)


def rw(received, state, learn, join):
    """O13 createModelRW: independent random walks."""
    return learn(received)


def mu(received, state, learn, join):
    """O13 createModelMU: merge with the last model received, then update."""
    return learn(join(received, state.last))


def um(received, state, learn, join):
    """O13 createModelUM: update both, then merge."""
    return join(learn(received), learn(state.last))


def own(received, state, learn, join):
    """HDJ21: merge with the current model, then update."""
    return learn(join(received, state.current))


VARIANTS = {"algorithm1": algorithm1, "rw": rw, "mu": mu, "um": um, "own": own}


def on_receive(state, message, xs, labels, variant, lam, learner, batch=True, weighting="plain", cache=1):
    """A node's state after a model came in; xs and labels are its records, `cache` is how many models it keeps."""

    def learn(model):
        return update(model, xs, labels, lam, learner, batch)

    def join(model_1, model_2):
        return merge(model_1, model_2, weighting)

    current = VARIANTS[variant](message, state, learn, join)
    return State(current, message, [*state.cache, current][-cache:])


def golf_cycle(states, order, peer, records, variant, lam, learner, batch=True, weighting="plain", cache=1):
    """One cycle: order[e] sends its model of that moment to peer[e] (−1: nobody), which takes it in at once.

    records[i] is (xs, labels) of node i.
    """
    states = list(states)
    for i, j in zip(order, peer, strict=True):
        if j >= 0:
            xs, labels = records[j]
            states[j] = on_receive(
                states[j], states[i].current, xs, labels, variant, lam, learner, batch, weighting, cache
            )
    return states


def limited_merge(model_1, model_2, limit, weighting="plain"):
    """Danner, Hegedűs & Jelasity 2023: a model that is older by more than the limit replaces the other one."""
    if abs(model_1[1] - model_2[1]) > limit:
        return max(model_1, model_2, key=lambda model: model[1])
    return merge(model_1, model_2, weighting)


class Divided(NamedTuple):
    """A model of which each part has an age: number f of a row belongs to part f mod P."""

    w: np.ndarray
    age: int
    ages: tuple  # of the parts


def take_part(mine, received, part, xs, labels, lam, learner, batch=True, weighting="age", limit=math.inf):
    """HDJ21: merge one part by its age, then update; the step of a part is that of its own age."""
    w, parts, ages = mine.w.copy(), len(mine.ages), list(mine.ages)
    belongs = np.arange(w.shape[1]) % parts == part
    pair = [(w[:, belongs], mine.ages[part]), (received.w[:, belongs], received.ages[part])]
    w[:, belongs], ages[part] = limited_merge(*pair, limit, weighting)
    before, age = w, max(mine.age, received.age)
    after, new_age = update((before, age), xs, labels, lam, learner, batch)
    ages = [old + new_age - age for old in ages]
    for p in range(parts if new_age > age else 0):
        belongs = np.arange(w.shape[1]) % parts == p
        after[:, belongs] = before[:, belongs] + (after - before)[:, belongs] * new_age / ages[p]
    return Divided(after, new_age, tuple(ages))


# ------------------------------------------------------------------------------------------------ smaller messages


def carried(w, kept):
    """A model in which only some numbers are known."""
    return np.where(kept, np.float64(w), np.nan)


def sampled(w, size, key, cycle, sender, k):
    """A random subset of a row, of a fixed size: Knuth, "The art of computer programming", volume 2, algorithm S."""
    kept = []
    for f in range(len(w)):
        chosen = below(draw(key, cycle, sender, k + f), len(w) - f) < size - sum(kept)
        kept.append(chosen)
    return carried(w, kept)


def largest(w, size, reference):
    """The numbers that differ most from a reference; of equal differences the first ones."""
    difference = np.abs(np.float32(w) - np.float32(reference))
    chosen = sorted(range(len(w)), key=lambda f: (-difference[f], f))[:size]
    return carried(w, [f in chosen for f in range(len(w))])


def half(w):
    """The nearest numbers of 16 bits; what is too large becomes the largest one."""
    with np.errstate(over="ignore"):
        return np.clip(np.float64(np.float16(w)), -65504, 65504)


def quantised(w, bits, key, cycle, sender, k):
    """Each number rounded to one of 2^bits equally spaced ones, up with the probability that makes it unbiased."""
    known = [abs(float(x)) for x in w if not math.isnan(x)]
    top = max(known, default=0.0)
    if top == 0:
        return np.float64(w)
    wide, found = 2 * top / (2**bits - 1), []
    for f, x in enumerate(map(float, w)):
        place = (x + top) / wide
        down = place if math.isnan(x) else min(math.floor(place), 2**bits - 2)
        up = uniform(draw(key, cycle, sender, k + f)) < place - down
        found.append((down + up) * wide - top)
    return np.array(found)


class Pivot:
    """One end of the pivot codec for one number (Danner & Jelasity 2018b; read in GoLF): both ends decode the bits."""

    def __init__(self):
        self.estimate, self.step, self.moved = 0.0, 1.0, False

    def encode(self, x):
        """Whether the estimate plus the step is nearer than the estimate."""
        return abs(self.estimate + self.step - x) < abs(self.estimate - x)

    def decode(self, bit):
        """The estimate after a bit: two moves in a row double the step, no move halves it and turns it round."""
        if bit:
            self.estimate += self.step
            if self.moved:
                self.step *= 2
        else:
            self.step /= -2 if abs(self.step) > 2**-30 else -1
        self.moved = bit
        return self.estimate


# ------------------------------------------------------------------------------------------------ token accounts


def chance(kind, tokens, capacity=0, spend=1):
    """D18 PROACTIVE(a): the probability that a node sends in its turn."""
    if kind == "proactive":
        return 1.0
    if kind == "reactive":
        return float(tokens > 0)
    if kind == "randomised":
        if tokens < spend - 1:
            return 0.0
        return min(1.0, (tokens - spend + 1) / (capacity - spend + 1))
    return float(tokens >= capacity)


def reaction(kind, tokens, useful, spend=1):
    """D18 REACTIVE(a, u): the number of messages that answer one, before it is rounded at random."""
    return {
        "proactive": 0,
        "reactive": int(useful),
        "simple": int(tokens > 0),
        "generalised": (spend - 1 + tokens) // (spend if useful else 2 * spend),
        "randomised": tokens / spend if useful else 0,
    }[kind]


def token_turn(flow, tokens, h):
    """Whether a node sends in its turn, and its tokens after it."""
    p = chance(flow["kind"], tokens, flow.get("capacity", 0), flow.get("spend", 1))
    sends = uniform(h) < p
    if flow["kind"] == "proactive":
        return sends, tokens
    return sends, tokens - sends if flow["kind"] == "reactive" else tokens + (not sends)


def token_answer(flow, tokens, useful, h):
    """The number of answers to a message, and the tokens that are left."""
    wanted = reaction(flow["kind"], tokens, useful, flow.get("spend", 1))
    number = math.floor(wanted) + (uniform(h) < wanted - math.floor(wanted))
    return number, tokens if flow["kind"] == "reactive" else tokens - number


def token_cycle(flow, tokens, order, peer_of, arrives, take, cycle, turn_key, answer_key):
    """One cycle without delay: the turns, then the answers, then the answers to them, until no node answers.

    `peer_of(i, k)` is the receiver of the k-th message of node i in this cycle, and `take(i, j)` lets j receive from i
    and returns whether that was useful. Returns the tokens and the number of messages that each node has sent.
    """
    tokens, sent, received = list(tokens), [0] * len(tokens), [0] * len(tokens)
    waiting = []
    for i in order:
        sends, tokens[i] = token_turn(flow, tokens[i], draw(turn_key, cycle, i, 0))
        waiting += [i] * sends
    while waiting:
        arrived = []
        for i in waiting:
            j = peer_of(i, sent[i])
            if j >= 0 and arrives(i, j, sent[i]):
                arrived.append((i, j))
            sent[i] += 1
        useful = [take(i, j) for i, j in arrived]
        waiting = []
        for (_, j), was_useful in zip(arrived, useful, strict=True):
            number, tokens[j] = token_answer(flow, tokens[j], was_useful, draw(answer_key, cycle, j, received[j]))
            received[j] += 1
            waiting += [j] * number
    return tokens, sent


def batches(number, size):
    """The ranges of a node's records that make an update each; size None: a single one with all of them."""
    size = number if size is None else size
    return [(lo, min(lo + size, number)) for lo in range(0, number, size)] if number else []


def epochs(model, xs, labels, lam, learner, size, passes):
    """One client's model (McMahan et al., "Communication-efficient learning of deep networks", 2017, ClientUpdate)."""
    for _ in range(passes):
        for lo, hi in batches(len(xs), size):
            model = update(model, xs[lo:hi], labels[lo:hi], lam, learner, True)
    return model


def federated_mean(model, trained, sizes):
    """The mean of the trained models, each weighted by its client's number of records; without records the model."""
    total = sum(sizes)
    if total == 0:
        return model
    weights = sum(n / total * np.float64(w) for (w, _), n in zip(trained, sizes, strict=True))
    return weights, max([model[1], *(age for (_, age), n in zip(trained, sizes, strict=True) if n)])


def mixing_matrix(neighbours, kind):
    """Metropolis and Hastings: 1/(1 + the larger degree) (Koloskova et al. 2020); or 1/(1 + degree of the receiver).

    neighbours[i] are those of node i. The diagonal is what is missing to 1.
    """
    n = len(neighbours)
    found = np.zeros((n, n))
    for i, j in itertools.product(range(n), range(n)):
        if j in neighbours[i]:
            degree = len(neighbours[i])
            found[i, j] = 1 / (1 + (degree if kind == "uniform" else max(degree, len(neighbours[j]))))
    return found + np.diag(1 - found.sum(axis=1))


def mixed(models, matrix, arrived):
    """All models after averaging: a node uses its own for each message that has not arrived.

    arrived has the pairs (src, dst). The age is the largest of those that are averaged.
    """
    found = []
    for i, (own, age) in enumerate(models):
        weights, ages = matrix[i, i] * np.float64(own), [age]
        for j in range(len(models)):
            if j != i and matrix[i, j] > 0:
                came = (j, i) in arrived
                weights = weights + matrix[i, j] * np.float64(models[j][0] if came else own)
                ages += [models[j][1]] * came
        found.append((weights, max(ages)))
    return found


def voted(models, x):
    """The class of x by the vote of several models (O13 votedPredict); ties to class 1 of two, else to the lowest."""
    votes = [predict(weights, x) for weights, _ in models]
    if len(models[0][0]) == 1:
        return 1 if sum(1 if vote == 1 else -1 for vote in votes) >= 0 else 0
    return max(sorted(set(votes)), key=votes.count)


# ------------------------------------------------------------------------------------------------ averaging


def push_pull(value, order, peer, arrives):
    """One cycle of push-pull averaging (Jelasity, Montresor & Babaoglu, TOCS 2005): both partners take their mean."""
    value = list(value)
    for i, j, arrived in zip(order, peer, arrives, strict=True):
        if j >= 0 and arrived:
            value[i] = value[j] = (value[i] + value[j]) / 2
    return value


def push_pull_by_messages(value, order, peer, asked, replied):
    """The same with two messages, of which each may be lost: the peer is asked, then the asker gets the reply."""
    value = list(value)
    for i, j, request, reply in zip(order, peer, asked, replied, strict=True):
        if j >= 0 and request:
            mine, other = value[i], value[j]
            value[j] = (mine + other) / 2
            if reply:
                value[i] = (mine + other) / 2
    return value


def push_pull_of_rows(rows, order, peer, asked, replied, takes_part):
    """The same with rows of numbers, and with nodes that take no part: they ask nobody, and refuse."""
    rows = [list(row) for row in rows]
    for i, j, request, reply in zip(order, peer, asked, replied, strict=True):
        if j >= 0 and request and takes_part[i] and takes_part[j]:
            mean = [(mine + other) / 2 for mine, other in zip(rows[i], rows[j], strict=True)]
            rows[j] = mean
            if reply:
                rows[i] = list(mean)
    return rows


def push_sum_one_by_one(rows, weights, order, peer, arrived, takes_part):
    """Push-sum (Kempe, Dobra & Gehrke 2003, protocol 1) where a half arrives before the next node acts.

    A row is (s, w) in the paper: i keeps half of both and sends the other half to j. A peer that takes no part refuses.
    """
    state = [[*row, weight] for row, weight in zip(rows, weights, strict=True)]
    for i, j, there in zip(order, peer, arrived, strict=True):
        if j < 0 or (there and not takes_part[j]):
            continue
        state[i] = [number / 2 for number in state[i]]
        if there:
            state[j] = [mine + half for mine, half in zip(state[j], state[i], strict=True)]
    return [row[:-1] for row in state], [row[-1] for row in state]


def push_sum_by_mail(rows, weights, due, order, peer):
    """A round of push-sum in which (receiver, row, weight) of `due` arrive first, then all nodes send.

    Returns rows, weights, and the halves that were sent, by sender.
    """
    state = [[*row, weight] for row, weight in zip(rows, weights, strict=True)]
    for j, row, weight in due:
        state[j] = [mine + half for mine, half in zip(state[j], [*row, weight], strict=True)]
    sent = {}
    for i, j in zip(order, peer, strict=True):
        if j >= 0:
            state[i] = [number / 2 for number in state[i]]
            sent[i] = state[i][:-1], state[i][-1]
    return [row[:-1] for row in state], [row[-1] for row in state], sent


def push_sum_shift(loss):
    """N·Var(μ)/σ² of push-sum in rounds with independent loss p, from the first values to the end: p/(2 − p).

    Let u = s − m·w be the deviation of a node. The error is the sum D of all u, divided by the sum W of all w. A round
    changes E D by q = 1 − p/2, adds p(1 − p)·Σ(u/2)² to its variance, and changes E Σu² by q/2, E W by q.
    """
    q, total, square, weight = 1 - loss / 2, 0.0, 1.0, 1.0
    for _ in range(400):
        weight *= q
        total += square * loss * (1 - loss) / 4 / weight**2
        square *= q / 2
    return total


def convergence_factor(before, after):
    """By how much one cycle reduces the variance: σ²_i / σ²_(i−1) (Jelasity, Montresor & Babaoglu, TOCS 2005)."""
    return statistics.pvariance(after) / statistics.pvariance(before)


# ------------------------------------------------------------------------------------------------ overlay statistics


def in_degrees(views):
    """How many views each node is in (Jelasity et al. 2007); views[i] lists the peers that node i knows."""
    degrees = [0] * len(views)
    for view in views:
        for peer in set(view):
            degrees[peer] += 1
    return degrees


def neighbours(views):
    """The sets of neighbours once every link is taken as undirected; a link to oneself is none."""
    sets = [set() for _ in views]
    for i, view in enumerate(views):
        for j in set(view) - {i}:
            sets[i].add(j)
            sets[j].add(i)
    return sets


def clustering(views):
    """The mean over nodes of linked pairs of neighbours / pairs of neighbours (Watts & Strogatz 1998); 0 below two."""
    sets = neighbours(views)
    return sum(local_clustering(sets, i) for i in range(len(sets))) / len(sets)


def local_clustering(sets, i):
    """The share of the pairs of i's neighbours that are neighbours themselves."""
    pairs = [(a, b) for a in sets[i] for b in sets[i] if a < b]
    return sum(b in sets[a] for a, b in pairs) / len(pairs) if pairs else 0.0


def distances(sets, source):
    """Hops from the source to every node it reaches, by breadth-first search."""
    hops, border = {source: 0}, [source]
    for i in border:
        for j in sets[i]:
            if j not in hops:
                hops[j] = hops[i] + 1
                border.append(j)
    return hops


def path_length(views, sources):
    """The mean undirected distance from the sources to all other nodes that they reach; NaN if they reach none."""
    sets = neighbours(views)
    hops = [h for source in sources for h in distances(sets, source).values() if h > 0]
    return sum(hops) / len(hops) if hops else math.nan


def components(views):
    """The number of connected parts of the undirected overlay."""
    sets, seen, parts = neighbours(views), set(), 0
    for i in range(len(sets)):
        if i not in seen:
            parts += 1
            seen |= set(distances(sets, i))
    return parts


# ------------------------------------------------------------------------------------------------ messages


class Mailbox:
    """Messages on their way: sent = delivered + lost + under way, always."""

    def __init__(self):
        self.messages = []  # (due, order sent, src, dst, payload)
        self.sent = self.delivered = self.lost = 0

    @property
    def under_way(self):
        """How many messages have neither come in nor been lost."""
        return len(self.messages)

    def send(self, due, src, dst, payload, arrives=True):
        """Put a copy of the payload on its way; what does not arrive is lost at once."""
        if arrives:
            self.messages.append((due, self.sent, src, dst, copy.deepcopy(payload)))
        else:
            self.lost += 1
        self.sent += 1

    def deliver(self, now, online):
        """The (src, dst, payload) that are due, in sending order; those to an offline node are lost."""
        due = sorted((m for m in self.messages if m[0] <= now), key=lambda m: m[1])
        self.messages = [m for m in self.messages if m[0] > now]
        arrived = [(src, dst, payload) for _, _, src, dst, payload in due if online[dst]]
        self.delivered += len(arrived)
        self.lost += len(due) - len(arrived)
        return arrived


# ------------------------------------------------------------------------------------------------ levels


def dependency_levels(order, peer):
    """The level of each event, events of one level being free of conflicts; −1 where nobody is sent to.

    Event e reads node order[e], and reads and writes node peer[e]. Two events conflict when one writes what the other
    reads or writes (Bernstein, "Analysis of programs for parallel processing", 1966); an event comes one level after
    the highest earlier event that it conflicts with.
    """
    levels = []
    for e, (i, j) in enumerate(zip(order, peer, strict=True)):
        earlier = [levels[f] for f in range(e) if peer[f] >= 0 and (peer[f] in (i, j) or j == order[f])]
        levels.append(1 + max(earlier, default=-1) if j >= 0 else -1)
    return levels


# ------------------------------------------------------------------------------------------------ evaluation


def predict(weights, x):
    """The class of x: of two, class 1 if the score is at least 0; else the highest score's, ties to the lowest."""
    scores = [float(np.dot(np.asarray(w, dtype=np.float64), x)) for w in weights]
    if len(scores) == 1:
        return 1 if scores[0] >= 0 else 0
    return scores.index(max(scores))


def error(weights, x, y):
    """The share of records whose class is predicted wrongly (H17 section 4.1: 1 − accuracy)."""
    return sum(predict(weights, row) != label for row, label in zip(x, y, strict=True)) / len(y)


def auc(scores, y):
    """How often class 1 outscores class 0 over all pairs, ties one half (Hanley & McNeil 1982); NaN without pairs."""
    ones = [score for score, label in zip(scores, y, strict=True) if label == 1]
    others = [score for score, label in zip(scores, y, strict=True) if label != 1]
    pairs = [(a, b) for a in ones for b in others]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs) if pairs else math.nan


def f1(predicted, y, classes=2):
    """F1 of class 1 (van Rijsbergen 1979), 0/0 is 0; of more the mean over those that occur or are predicted."""
    both = [(int(p), int(t)) for p, t in zip(predicted, y, strict=True)]

    def of_class(c):
        right = sum(p == c and t == c for p, t in both)
        either = sum((p == c) + (t == c) for p, t in both)
        return 2 * right / either if either else 0.0

    if classes == 2:
        return of_class(1)
    occurring = {c for pair in both for c in pair}
    return sum(of_class(c) for c in occurring) / len(occurring)


# ------------------------------------------------------------------------------------------------ noise


def exponential(h):
    """An exponential number of mean 1, by inversion of a uniform number from all bits of a draw but the lowest."""
    return -math.log((h // 2 + 0.5) / 2**63)


def laplace(h):
    """A Laplace number of scale 1: an exponential one, with the sign of the draw's lowest bit."""
    return exponential(h) if h % 2 == 1 else -exponential(h)


def grid_of(scale):
    """The largest power of two that is at most 2^-24 of the scale."""
    return 2.0 ** (math.floor(math.log2(scale)) - 24)


def on_grid(numbers, scale):
    """The nearest multiples of the grid's step, ties to even ones (Mironov 2012 rounds so what is released)."""
    step = Fraction(grid_of(scale))
    return np.array([float(round(Fraction(float(number)) / step) * step) for number in numbers])


def normal(first, second):
    """A standard normal number (Box & Muller, "A note on the generation of random normal deviates", 1958)."""
    return math.sqrt(2 * exponential(first)) * math.cos(2 * math.pi * uniform(second))


def laplace_noise(key, cycle, node, k, d, scale):
    """Independent Laplace numbers, from draws k, k + 1, … (Dwork, McSherry, Nissim & Smith 2006)."""
    return np.array([scale * laplace(draw(key, cycle, node, k + f)) for f in range(d)])


def gamma_norm_noise(key, cycle, node, k, d, scale):
    """A vector of uniform direction and Gamma(d, scale) length (Chaudhuri & Monteleoni 2008), from draws k, k + 1, …

    Three draws a coordinate: two for a normal number, since normal vectors point anywhere alike, and one for an
    exponential number, d of which add up to Gamma(d).
    """
    draws = [[draw(key, cycle, node, k + 3 * f + e) for e in range(3)] for f in range(d)]
    direction = np.array([normal(first, second) for first, second, _ in draws])
    length = sum(exponential(third) for _, _, third in draws)
    return scale * length * direction / np.linalg.norm(direction)


def gamma(key, cycle, node, k, shape):
    """A Gamma number of scale 1 (Marsaglia & Tsang, "A simple method for generating gamma variables", 2000).

    Three draws an attempt from k + 1 on; below shape 1, one of shape + 1 times a power of the uniform draw k.
    """
    if shape < 1:
        return gamma(key, cycle, node, k, shape + 1) * uniform(draw(key, cycle, node, k)) ** (1 / shape)
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    for attempt in itertools.count():
        first, second, third = (draw(key, cycle, node, k + 1 + 3 * attempt + e) for e in range(3))
        x = normal(first, second)
        v = (1 + c * x) ** 3
        if v > 0 and -exponential(third) < x**2 / 2 + d - d * v + d * math.log(v):
            return d * v


def share_of_gamma_norm(key, cycle, node, k, d, scale, shares):
    """One of several vectors whose sum has a density ∝ exp(−length/scale): a normal one of a Gamma variance.

    (1 + s²t²)^(−(d+1)/2) is the characteristic function of that density, and each share has its root of that order.
    """
    mixed = gamma(key, cycle, node, k, (d + 1) / (2 * shares))
    pairs = [(draw(key, cycle, node, k + 64 + 2 * f), draw(key, cycle, node, k + 65 + 2 * f)) for f in range(d)]
    return scale * math.sqrt(2 * mixed) * np.array([normal(*pair) for pair in pairs])


def gaussian_noise(key, cycle, node, k, d, scale):
    """Independent normal numbers, two draws each, from draws k, k + 1, … (Box & Muller 1958)."""
    pairs = [[draw(key, cycle, node, k + 2 * f + e) for e in range(2)] for f in range(d)]
    return np.array([scale * normal(*pair) for pair in pairs])


NOISE = {"l1": laplace_noise, "l2": gamma_norm_noise, "gaussian": gaussian_noise}


# ------------------------------------------------------------------------------------------------ random response


def response_probabilities(values, epsilon):
    """P(answer | truth) of k-ary random response (Kairouz, Bonawitz & Ramage 2016), a row a truth."""
    weights = np.where(np.eye(values) == 1, math.exp(epsilon), 1.0)
    return weights / weights.sum(axis=1, keepdims=True)


def worst_ratio(probabilities):
    """The ε of a mechanism with finitely many answers: the largest log ratio of two rows' entries."""
    return float(max(np.log(p / q).max() for p in probabilities for q in probabilities))


def bit_probabilities(values, p, q):
    """P(answer | truth) of (p, q): the bits of a one-hot string each on its own (Cyphers 2017, section 7.2)."""
    answers = [[(a >> bit) & 1 for bit in range(values)] for a in range(2**values)]
    one = [[p if bit == truth else q for bit in range(values)] for truth in range(values)]

    def probability(row, answer):
        return math.prod(o if bit else 1 - o for o, bit in zip(row, answer, strict=True))

    return np.array([[probability(row, answer) for answer in answers] for row in one])


def subset_probabilities(values, size, epsilon):
    """P(subset | truth) of subset selection (Ye & Barg 2018): e^ε times as likely if the truth is inside."""
    subsets = list(itertools.combinations(range(values), size))
    weights = np.array([[math.exp(epsilon) if truth in s else 1.0 for s in subsets] for truth in range(values)])
    return weights / weights.sum(axis=1, keepdims=True), subsets


def pq_error(p, q, values):
    """The root mean square error of all estimated shares together, for one record (Cyphers 2017, eq. 7.2)."""
    return math.sqrt((values - 1) * q * (1 - q) + p * (1 - p)) / (p - q)


def pq_best(epsilon, values):
    """The p of the least error among all (p, q) of this ε, by search (Cyphers 2017, eq. 7.3 has it in closed form)."""
    from scipy.optimize import minimize_scalar

    def error(p):
        return pq_error(p, p / (p + math.exp(epsilon) * (1 - p)), values)

    return minimize_scalar(error, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12}).x


# ------------------------------------------------------------------------------------------------ budgets


def charge(schedule, epsilon, visit):
    """The ε of a record's visit 1, 2, …, as a fraction: ("uniform", k) is ε/k for k visits, ("halving",) ε/2^t."""
    epsilon = Fraction(epsilon)
    if schedule[0] == "halving":
        return epsilon / 2**visit
    return epsilon / schedule[1] if visit <= schedule[1] else Fraction(0)


class Ledger:
    """What each record has spent. A visit to several records has the budget of the poorest of them, or is refused."""

    def __init__(self, schedule, epsilon, records):
        self.schedule, self.epsilon = schedule, epsilon
        self.visits = [0] * records

    def spent(self, record):
        """The sum of all charges to a record so far."""
        return sum(charge(self.schedule, self.epsilon, visit + 1) for visit in range(self.visits[record]))

    def visit(self, records):
        """Charge a visit; the ε that all of the records can bear, or None where one has nothing left."""
        charges = [charge(self.schedule, self.epsilon, self.visits[record] + 1) for record in records]
        if not charges or min(charges) == 0:
            return None
        for record in records:
            self.visits[record] += 1
        return float(min(charges))


class SquaredLedger(Ledger):
    """The same for Gaussian noise: what visits share is the square of μ (Dong, Roth & Su 2022, corollary 3.3)."""

    def visit(self, records):
        """Charge a visit; the μ that all of the records can bear, or None where one has nothing left."""
        self.epsilon, mu = self.epsilon**2, self.epsilon
        least = super().visit(records)
        self.epsilon = mu
        return None if least is None else math.sqrt(least)


# ------------------------------------------------------------------------------------------------ published records


def publish_per_class(x, label, models, noise):
    """s·x + noise for each one-vs-all problem on its own (H17 section 3.2); noise[m] is that of problem m."""
    return np.array([s * np.float64(x) for s in signs(label, models)]) + noise


def publish_joint(x, label, classes, noise):
    """e_y ⊗ x + noise once, then each class's block minus all others; noise[m] is that of block m."""
    blocks = np.array([np.float64(x) if m == label else np.zeros(len(x)) for m in range(classes)]) + noise
    return np.array([blocks[m] - sum(blocks[j] for j in range(classes) if j != m) for m in range(classes)])


def publish_as_coded(x, label, noise):
    """x + noise once, and the label as it is: what the authors' program does (class DiffPriv)."""
    return np.float64(x) + noise, label


def respond(first, second, value, values, epsilon):
    """The answer of k-ary random response by two draws: the truth, else one of the others alike."""
    if uniform(first) < response_probabilities(values, epsilon)[value, value]:
        return value
    others = [other for other in range(values) if other != value]
    return others[int(uniform(second) * len(others))]


def moments_of_label_and_features(z, label, classes, truth, variance):
    """Of one record with a published label and features: estimates of the class indicators, of e_y ⊗ x and of x·xᵀ.

    The label is true with probability `truth`, else each other one is equally likely; each coordinate has noise of
    some variance. E 1[ỹ = m] = q + (p − q)·1[y = m] gives the indicators.
    """
    p, q = truth, (1 - truth) / (classes - 1)
    indicator = np.array([(float(label == m) - q) / (p - q) for m in range(classes)])
    z = np.float64(z)
    return indicator, np.outer(indicator, z), np.outer(z, z) - variance * np.eye(len(z))


def moments_of_one_versus_all(z, variance):
    """The same of s_m·x + noise for each of three or more classes, for x ≥ 0 with Σx = 1.

    One sign of c is +1, so Σ s_m = 2 − c. `variance` is that of the noise of the x that follows.
    """
    z = np.float64(z)
    x = z.sum(axis=0) / (2 - len(z))
    blocks = (z + x) / 2
    return blocks.sum(axis=1), blocks, np.outer(x, x) - variance * np.eye(len(x))


def moments_of_signed(z, variance):
    """The same of yx + noise for two classes, where only the difference of the blocks, and x·xᵀ, are known."""
    z = np.float64(z)
    return np.array([0.5, 0.5]), np.array([-z / 2, z / 2]), np.outer(z, z) - variance * np.eye(len(z))


def moments(estimates, second):
    """The numbers of a node from those of its records: sums, the upper triangle of x·xᵀ last."""
    found = 0.0
    for indicator, blocks, product in estimates:
        upper = [product[f, g] for f in range(len(product)) for g in range(f, len(product))]
        squares = [block @ block for block in blocks]
        found = found + np.array([1, *indicator, *squares, *blocks.ravel(), *(upper if second else [])])
    return found


def block_noise(mode, models, norm, scale, d):
    """The variance of a coordinate of the noise of the estimated x, and of a block, from weights of the noises of z."""
    each = 2 * scale**2 if norm == "l1" else (d + 1) * scale**2
    if models == 1 or mode in ("label+features", "as-coded"):
        return each, each
    to_z = np.eye(models) if mode == "per-class" else 2 * np.eye(models) - np.ones((models, models))
    to_x = to_z.sum(axis=0) / (2 - models)
    to_blocks = (to_z + to_x) / 2
    return each * (to_x**2).sum(), each * (to_blocks[0] ** 2).sum()


def shrunk_means(count, counts, squares, blocks, indicator, shrink=1.0):
    """Common mean, deviations of the class means, their variances, positive-part James–Stein factors.

    A mean of n_m records, whose number has the variance n·v², has the error Σ‖B − e·μ‖²/n_m², and ‖μ̂‖² is too large
    by that. A class of at most as many records as that error has the common mean.
    """
    common = sum(blocks) / count
    deviations, variances, factors = [], [], []
    for n, square, block in zip(counts, squares, blocks, strict=True):
        if n <= indicator * math.sqrt(count):
            deviations.append(0 * common)
            variances.append(0.0)
            factors.append(0.0)
            continue
        mean, doubt = block / n, count * indicator**2
        variance = max((square + (doubt - n) * mean @ mean) / (n * n - n + doubt), 0)
        deviations.append(mean - common)
        variances.append(variance)
        length = (mean - common) @ (mean - common)
        factors.append(max(1 - shrink * variance / length, 0) if length > 0 else 0.0)
    return common, np.array(deviations), np.array(variances), np.array(factors)


def shrunk_shares(count, counts, indicator):
    """The shares of the classes, moved towards equal shares by the same rule."""
    share, classes, error = np.array(counts) / count, len(counts), indicator / math.sqrt(count)
    length = ((share - 1 / classes) ** 2).sum()
    factor = max(1 - classes * error**2 / length, 0) if length > 0 else 0.0
    return np.maximum(1 / classes + factor * (share - 1 / classes), max(error, 1 / count))


def centroid_scores(x, count, counts, squares, blocks, indicator, shrink=1.0):
    """x·μ − ‖μ‖²/2 of each class, up to a number that is the same for all classes; shares if all means are equal."""
    common, deviations, _, factors = shrunk_means(count, counts, squares, blocks, indicator, shrink)
    if all(factor == 0 for factor in factors):
        return np.array([shrunk_shares(count, counts, indicator) for _ in x])
    means = common + factors[:, None] * deviations
    return np.array([[row @ mean - mean @ mean / 2 for mean in means] for row in x])


def inverse_with_error(matrix, second, count, spread, variance):
    """The inverse of a symmetric matrix of which eigenvalues up to Wigner's bound are known by their mean only."""
    d = len(matrix)
    length = max(np.trace(second) / count, 0)
    entry = math.sqrt((spread**2 + 2 * variance * length / d) / count)
    values, vectors = np.linalg.eigh(matrix)
    unknown = [value for value in values if value <= 2 * entry * math.sqrt(d)]
    common = max(sum(unknown) / len(unknown), entry) if unknown else None
    inverted = [1 / (common if value <= 2 * entry * math.sqrt(d) else value) for value in values]
    return vectors @ np.diag(inverted) @ vectors.T


def lda_scores(x, count, counts, squares, blocks, second, indicator, spread, variance, shrink=1.0):
    """Log-densities of Gaussians with one covariance, plus log shares, up to a number equal for all classes."""
    common, deviations, errors, factors = shrunk_means(count, counts, squares, blocks, indicator, shrink)
    d, within = len(common), second / count - np.outer(common, common)
    for n, deviation, error in zip(counts, deviations, errors, strict=True):
        if deviation.any():
            within -= n / count * (np.outer(deviation, deviation) - error / d * np.eye(d))
    inverse = inverse_with_error(within, second, count, spread, variance)
    means, share = common + factors[:, None] * deviations, shrunk_shares(count, counts, indicator)
    logs = [
        [-(row - mean) @ inverse @ (row - mean) / 2 + math.log(one) for mean, one in zip(means, share, strict=True)]
        for row in x
    ]
    return np.array(logs)


def least_squares_scores(x, count, blocks, second, spread, variance):
    """Scores of the least squares fit of s_m on x without a constant; with two classes only that of class 1."""
    inverse = inverse_with_error(second / count, second, count, spread, variance)
    signed = [2 * block - sum(blocks) for block in blocks]
    return np.array([x @ inverse @ one / count for one in (signed[1:] if len(signed) == 2 else signed)]).T


def label_recovery(epsilon, d):
    """P(the sign of Σ(yx + noise) is y) for x ≥ 0 with Σx = 1: d Laplace(2/ε) numbers are about normal."""
    return 0.5 * (1 + math.erf(epsilon / math.sqrt(8 * d) / math.sqrt(2)))


# A record is a distribution over its features. Draws 2s and 2s+1 of "cycle" 1 give the coordinate of sample s.


def coordinate(key, record, sample, x, signed):
    """(feature, negative) by the inverse of the cumulated lengths; the rest to length 1 is spread evenly."""
    weights = np.abs(np.float64(x)) if signed else np.maximum(np.float64(x), 0)
    h = uniform(draw(key, 1, record, 2 * sample))
    for f in range(len(x)):
        if h < sum(weights[: f + 1]):
            return f, bool(signed and x[f] < 0)
    other = below(draw(key, 1, record, 2 * sample + 1), len(x) * (2 if signed else 1))
    return (other // 2, other % 2 == 1) if signed else (other, False)


def symbol_of(label, f, negative, d, signed):
    """The place of (label, feature, sign) in the list of all symbols, sorted by these."""
    every = list(itertools.product(range(label + 1), range(d), (False, True) if signed else (False,)))
    return every.index((label, f, negative))


def chosen_subset(key, record, sample, value, values, p, size):
    """The truth with probability p, then others of all that are left, by Floyd's algorithm."""
    k, others = sample * 2**32, [v for v in range(values) if v != value]
    found = {value} if uniform(draw(key, 0, record, k)) < p else set()
    for number, last in enumerate(range(len(others) - size + len(found), len(others)), start=1):
        other = below(draw(key, 0, record, k + number), last + 1)
        found.add(others[last] if others[other] in found else others[other])
    return found


def symbol_estimate(reports, p, q, classes, d, signed):
    """The estimate of e_y ⊗ x: the mean over reports of (1[r named] − q)/(p − q), + minus − of each feature."""
    bits = np.array([[r in report for r in range(classes * d * (2 if signed else 1))] for report in reports], float)
    mean = ((bits - q) / (p - q)).mean(axis=0)
    return (mean[0::2] - mean[1::2] if signed else mean).reshape(classes, d)


def against_others(blocks):
    """Each block minus all others; with two classes block 1 minus block 0."""
    vectors = np.array([block - (blocks.sum(axis=0) - block) for block in blocks])
    return vectors[1:] if len(blocks) == 2 else vectors


# ------------------------------------------------------------------------------------------------ noisy gradients


def noisy_update(model, xs, labels, lam, learner, noise):
    """A mini-batch update with noise[m] on the mean gradient of model m (Song, Chaudhuri & Sarwate 2013, eq. 2)."""
    weights, age = update(model, xs, labels, lam, learner, batch=True)
    rate = 1 / age if learner == "mean" else 1 / (lam * age)
    return weights + rate * np.asarray(noise), age


def noise_scale(epsilon, models, records, unit, rule="shared"):
    """Of the noise on a mean gradient: gradients are at most 1 long, so one of k records moves the mean by 2/k.

    As coded, each of the models has the complete ε.
    """
    sensitivity = 2 / records if unit == "record" else 2
    return sensitivity / (epsilon if rule == "as-coded" else epsilon / models)


# ------------------------------------------------------------------------------------------------ walks


def next_node(neighbours, online, here, h):
    """A random one of the online neighbours, in the order given; None where there is none."""
    alive = [j for j in neighbours[here] if online[j]]
    return alive[below(h, len(alive))] if alive else None


def walk(at, neighbours, online, key, cycle, walker, hops, loss=0.0, side=None):
    """Where a token comes in one cycle, and where it is after that (None: lost). It rests at an offline node."""
    path = []
    for hop in range(hops):
        if at is None or not online[at]:
            break
        there = next_node(neighbours, online, at, draw(key, cycle, walker, 2 * hop))
        if there is None:
            break
        if (side is not None and side[at] != side[there]) or uniform(draw(key, cycle, walker, 2 * hop + 1)) < loss:
            return path, None
        at = there
        path.append(there)
    return path, at


def tour(key, walker, start, hops, nodes):
    """The places start … start + hops − 1 of endless laps over all nodes, each lap in an order of its own."""
    places = range(start, start + hops)
    return [permutation(key, walker * 2**20 + place // nodes, nodes)[place % nodes] for place in places]


# ------------------------------------------------------------------------------------------------ AnonML

# Cyphers, "A system for privacy-preserving machine learning on personal data", 2017. A string takes 64 draws of its
# peer for the value, then 64 for each word of 64 bits; the draws of a peer's reports are 2^32 apart.


def bitwise_string(key, cycle, peer, number, value, values, p, q):
    """A (p, q)-perturbed one-hot string (section 7.3.3): bit b is one where its own binary fraction is below q."""
    k, bits = number * 2**32, []
    for b in range(values):
        if b == value:
            bits.append(int(uniform(draw(key, cycle, peer, k)) < p))
            continue
        digits = [(draw(key, cycle, peer, k + 64 * (1 + b // 64) + r) >> (b % 64)) & 1 for r in range(64)]
        bits.append(int(sum(Fraction(digit, 2 ** (r + 1)) for r, digit in enumerate(digits)) < Fraction(q)))
    return bits


def response_string(key, cycle, peer, number, value, values, epsilon):
    """The one-hot string of the value that random response sends (section 7.3.1, with the right ε)."""
    k = number * 2**32
    sent = respond(draw(key, cycle, peer, k), draw(key, cycle, peer, k + 1), value, values, epsilon)
    return [int(b == sent) for b in range(values)]


def simplex_projection(v, total):
    """The nearest non-negative vector of that sum: max(v − τ, 0), with τ found by bisection."""
    low, high = min(v) - total, max(v)
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(x - middle, 0) for x in v) > total:
            low = middle
        else:
            high = middle
    return np.array([max(x - high, 0) for x in v])


def median_search(groups, low, high, p, answers, as_published=False):
    """Algorithm 1; groups are lists of values, answers(group, e) the noisy bits. Corrected unless as published."""
    e = (high - low) / 2 if as_published else (high + low) / 2
    step = (high - low) / 2
    for group in groups:
        share = sum(answers(group, e)) / len(group)
        if not as_published:
            share = (share - (1 - p)) / (2 * p - 1)
        error = pq_error(p, 1 - p, 2) / math.sqrt(len(group))
        step /= 2
        if share - error > 0.5:
            e += step
        elif share + error < 0.5:
            e -= step
    return e


def cell_number(values, label, alphabets, classes):
    """The place of a combination in the list of all combinations, the last digit (the label) running fastest."""
    everything = itertools.product(*(range(size) for size in (*alphabets, classes)))
    return list(everything).index((*values, label))


def logistic_minimum(x, y, weight, lam):
    """The minimum of the weighted mean logistic loss + λ/2 |w|², by a general-purpose search; y is 0 or 1."""
    from scipy.optimize import minimize

    x, sign, weight = np.asarray(x, float), 2 * np.asarray(y) - 1, np.asarray(weight, float)

    def loss(w):
        return np.dot(weight, np.logaddexp(0, -sign * (x @ w))) / weight.sum() + lam / 2 * np.dot(w, w)

    return minimize(loss, np.zeros(x.shape[1]), method="BFGS", options={"gtol": 1e-9}).x


def folds(key, cycle, member, weights, number):
    """The weight of each cell in each fold: every record of a cell (one more than whole ones) goes to a random one."""
    out = np.zeros((number, len(weights)))
    for c, weight in enumerate(weights):
        records = math.ceil(weight)
        for r in range(records):
            out[below(draw(key, cycle, member, c * 2**32 + r), number), c] += weight / records
    return out


def ensemble_score(scores, votes):
    """Σ s_i g_i − Σ s_i (1 − g_i) (section 6.2)."""
    return sum(s * g for s, g in zip(scores, votes, strict=True)) - sum(
        s * (1 - g) for s, g in zip(scores, votes, strict=True)
    )


def published_budget(features, label):
    """Equation 7.4: features maps each feature to its list of ε, label has those of all histograms."""
    return max(max(sum(costs) for costs in features.values()), sum(label))


# ------------------------------------------------------------------------------------------------ shuffled reports
# Feldman, McMillan & Talwar, "Hiding among the clones", 2021, section 3.


def hockey_stick(one, other, epsilon):
    """The smallest δ of two distributions (dictionaries) at an ε, in one direction."""
    return sum(max(p - math.exp(epsilon) * other.get(x, 0.0), 0.0) for x, p in one.items())


def clone_counts(clones, epsilon, value):
    """The distribution of (zeros, ones) of fair bits of clones and one bit that is `value` with e^ε to 1."""
    found, true = {}, math.exp(epsilon) / (math.exp(epsilon) + 1)
    for ones in range(clones + 1):
        weight = math.comb(clones, ones) / 2**clones
        for bit, p in ((value, true), (1 - value, 1 - true)):
            place = (clones - ones + 1 - bit, ones + bit)
            found[place] = found.get(place, 0.0) + weight * p
    return found


def shuffled_delta(others, share, epsilon, central):
    """δ of the reduction at a central ε: each of the other reports is a clone with probability `share`."""
    total = 0.0
    for clones in range(others + 1):
        weight = math.comb(others, clones) * share**clones * (1 - share) ** (others - clones)
        total += weight * hockey_stick(*(clone_counts(clones, epsilon, v) for v in (0, 1)), central)
    return total


def shuffled_delta_of_many(others, epsilon, central):
    """The same for many reports and clones with e^−ε₀, term by term, from logarithms of factorials.

    Numbers of clones that are far from their mean (40 and nine standard deviations) are left out, so δ is not above
    the true one.
    """
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, others + 2)))])

    def log_choose(n, k):
        return log_factorial[n] - log_factorial[k] - log_factorial[n - k]

    share, true = math.exp(-epsilon), math.exp(epsilon) / (math.exp(epsilon) + 1)
    mean, far = others * share, 40 + 9 * math.sqrt(others * share * (1 - share))
    total = 0.0
    for clones in range(max(0, int(mean - far)), min(others, int(mean + far)) + 1):
        ones = np.exp(log_choose(clones, np.arange(clones + 1)) - clones * math.log(2))
        before, after = np.append(ones, 0.0), np.append(0.0, ones)
        one, other = true * after + (1 - true) * before, true * before + (1 - true) * after
        log_weight = log_choose(others, clones) + clones * math.log(share) + (others - clones) * math.log1p(-share)
        total += math.exp(log_weight) * np.maximum(one - math.exp(central) * other, 0.0).sum()
    return total


def responses_delta(epsilons, whole):
    """δ of several random responses with these ε, at the ε `whole`: over all outputs, one after the other."""
    total = 0.0
    for lies in itertools.product((0, 1), repeat=len(epsilons)):
        p = math.prod((1 if lie else math.exp(e)) / (1 + math.exp(e)) for e, lie in zip(epsilons, lies, strict=True))
        q = math.prod((math.exp(e) if lie else 1) / (1 + math.exp(e)) for e, lie in zip(epsilons, lies, strict=True))
        total += max(0.0, p - math.exp(whole) * q)
    return total


def equal_responses_delta(number, epsilon, whole):
    """δ of many random responses with the same ε: over the numbers of lies."""
    total, p = 0.0, 1 / (1 + math.exp(-epsilon))
    for lies in range(number + 1):
        loss = (number - 2 * lies) * epsilon
        if loss > whole:
            ways = math.lgamma(number + 1) - math.lgamma(lies + 1) - math.lgamma(number - lies + 1)
            chance = math.exp(ways + (number - lies) * math.log(p) + lies * math.log(1 - p))
            total += chance * (1 - math.exp(whole - loss))
    return total


def shuffled_responses(values, size, epsilon):
    """The distribution of the counts of all symbols, if each value is sent by k-ary randomised response."""
    found, scale = {(0,) * size: 1.0}, math.exp(epsilon) + size - 1
    for value in values:
        after = {}
        for counts, p in found.items():
            for symbol in range(size):
                place = tuple(n + (s == symbol) for s, n in enumerate(counts))
                after[place] = after.get(place, 0.0) + p * (math.exp(epsilon) if symbol == value else 1) / scale
        found = after
    return found


def relayed_responses(bits, nodes, epsilon):
    """The distribution of the set of (last relay, bit) of peers 0, 1, …; a relay is any of the nodes but the sender."""
    found, true = {(): 1.0}, math.exp(epsilon) / (math.exp(epsilon) + 1)
    for peer, bit in enumerate(bits):
        after = {}
        for seen, p in found.items():
            for relay, sent in itertools.product(set(range(nodes)) - {peer}, (0, 1)):
                place = tuple(sorted((*seen, (relay, sent))))
                after[place] = after.get(place, 0.0) + p * (true if sent == bit else 1 - true) / (nodes - 1)
        found = after
    return found


def relayed_delta(reports, nodes, epsilon, central):
    """δ of the derivation for visible last relays: over the sets T of peers whose relays must lie outside T."""
    member, total = min(math.exp(-epsilon), 0.5), 0.0
    inside = (reports - 1) / (nodes - 1)  # the probability that the relay of the first peer is a peer
    for candidates, p in ((reports - 2, inside), (reports - 1, 1 - inside)):
        for size in range(candidates + 1):
            weight = math.comb(candidates, size) * member**size * (1 - member) ** (candidates - size)
            outside = ((1 - member) * (nodes - reports) + reports - size - 1) / (nodes - 1)
            total += p * weight * shuffled_delta(size, outside, epsilon, central)
    return total


# ------------------------------------------------------------------------------------------------ fitting a model


def loss(m, kind, h=0.5):
    """The loss of a margin: logistic, or Huber's (Chaudhuri, Monteleoni & Sarwate 2011, equation 7)."""
    if kind == "logistic":
        return math.log1p(math.exp(-m)) if m > 0 else -m + math.log1p(math.exp(m))
    if m > 1 + h:
        return 0.0
    return 1 - m if m < 1 - h else (1 + h - m) ** 2 / (4 * h)


def loss_slope(m, kind, h=0.5):
    """The derivative of the loss."""
    if kind == "logistic":
        return -sigmoid(-m)
    if m > 1 + h:
        return 0.0
    return -1.0 if m < 1 - h else -(1 + h - m) / (2 * h)


def loss_bend(m, kind, h=0.5):
    """The second derivative of the loss, where it has one."""
    if kind == "logistic":
        return sigmoid(m) * sigmoid(-m)
    return 1 / (2 * h) if abs(1 - m) <= h else 0.0


def erm_objective(w, yx, lam, kind, b=0.0, h=0.5):
    """Mean loss + λ/2·‖w‖² + b·w over rows yx."""
    return float(np.mean([loss(m, kind, h) for m in yx @ w]) + lam / 2 * w @ w + np.sum(b * w))


def erm_gradient(w, yx, lam, kind, b=0.0, h=0.5):
    """The gradient of that objective."""
    return np.array([loss_slope(m, kind, h) for m in yx @ w]) @ yx / len(yx) + lam * w + b


def erm_minimum(yx, lam, kind, b=0.0, h=0.5, length=1e-12):
    """The minimum of that objective: Newton steps, halved until the objective falls."""
    yx = np.asarray(yx, np.float64)
    w = np.zeros(yx.shape[1])
    for _ in range(200):
        gradient = erm_gradient(w, yx, lam, kind, b, h)
        if np.linalg.norm(gradient) <= length:
            break
        bend = np.array([loss_bend(m, kind, h) for m in yx @ w])
        step = -np.linalg.solve((yx.T * bend) @ yx / len(yx) + lam * np.eye(w.size), gradient)
        here, share = erm_objective(w, yx, lam, kind, b, h), 1.0
        while share > 1e-6 and erm_objective(w + share * step, yx, lam, kind, b, h) > here:
            share /= 2
        w = w + share * step
    return w


def lasso_minimum(yx, lam, kind, steps=20_000):
    """The minimum of mean loss + λΣ|w|, by accelerated proximal gradient steps (Beck & Teboulle 2009)."""
    yx = np.asarray(yx, np.float64)
    w = ahead = np.zeros(yx.shape[1])
    rate, t = 4 * len(yx) / np.linalg.norm(yx, 2) ** 2, 1.0
    for _ in range(steps):
        moved = ahead - rate * erm_gradient(ahead, yx, 0.0, kind)
        fresh = np.sign(moved) * np.maximum(abs(moved) - rate * lam, 0)
        t, before = (1 + math.sqrt(1 + 4 * t * t)) / 2, t
        ahead, w = fresh + (before - 1) / t * (fresh - w), fresh
    return w


def descend(yx, lam, gamma, batch, epochs, stop, penalty):
    """The mini-batch descent of Asplund & Frøystad 2015 (3.8) on Σ log-loss + λ‖w‖², with the signs as they must be.

    The penalty's gradient is 2λw in every step as printed (“full”), or spread over the steps of an epoch in proportion
    to their records (“share”).
    """
    w = np.zeros(yx.shape[1])

    def objective():
        return sum(loss(m, "logistic") for m in yx @ w) + lam * w @ w

    before = objective()
    for epoch in range(epochs):
        alpha = gamma / (1 + gamma * lam * epoch)
        for start in range(0, len(yx), batch):
            rows = yx[start : start + batch]
            slope = np.array([loss_slope(m, "logistic") for m in rows @ w])
            part = len(rows) / len(yx) if penalty == "share" else 1
            w = w - alpha * (slope @ rows + part * 2 * lam * w)
            if stop and abs(objective() - before) < stop:
                return w
            before = objective()
    return w


def best_rate(yx, fold, lam, batch, rates, penalty, tie):
    """The γ with the fewest mistakes on each of the folds after one epoch on the others; the `tie` of equals."""

    def mistakes(gamma, left_out):
        w = descend(yx[fold != left_out], lam, gamma, batch, 1, 0, penalty)
        return int((yx[fold == left_out] @ w <= 0).sum())

    wrong = {gamma: sum(mistakes(gamma, f) for f in set(fold)) for gamma in rates}
    equals = [gamma for gamma in rates if wrong[gamma] == min(wrong.values())]
    return {"smallest": min, "largest": max}[tie](equals)


def fold_mistakes(x, label, fold, lam_for, kind, models):
    """Mistakes on each of the folds by models of the others, with the λ for their number."""
    wrong = 0
    for f in set(fold):
        rest = fold != f
        sides = [np.array([signs(y, models)[m] for y in label[rest]]) for m in range(models)]
        weights = np.array([erm_minimum(side[:, None] * x[rest], lam_for(rest.sum()), kind) for side in sides])
        wrong += sum(predict(weights, row) != y for row, y in zip(x[~rest], label[~rest], strict=True))
    return wrong


def objective_noise(epsilon, c, n, lam):
    """The scale of ‖b‖ and Δ of Chaudhuri, Monteleoni & Sarwate 2011, algorithm 2."""
    rest = epsilon - math.log(1 + 2 * c / (n * lam) + c**2 / (n**2 * lam**2))
    if rest > 0:
        return 2 / rest, 0.0
    return 4 / epsilon, c / (n * (math.exp(epsilon / 4) - 1)) - lam


def exponential_mechanism(wrong, epsilon):
    """The probability of each choice (McSherry & Talwar 2007) for counts that one record changes by one."""
    weight = np.exp(-epsilon * np.asarray(wrong) / 2)
    return weight / weight.sum()


# ------------------------------------------------------------------------------------------------ circuits of relays


def packet_journey(circuit, number, sent, online, key, loss=0.0, lags=None, wait=0, begin=None):
    """Where a packet ends that goes from circuit[0] over relays to circuit[-1]: "lost", or the cycle of its arrival.

    Hop by hop, as Cyphers, "A system for privacy-preserving machine learning on personal data", 2017, section 5.1, has
    it: the last relay waits (from cycle `begin` on, if given). `online[cycle]` are the nodes that are there, `lags` the
    equally probable delays (None: at once); hop h of the packet is message number · hops + h of its sender.
    """
    cycle, hops = sent, len(circuit) - 1
    for hop in range(hops):
        here, there = circuit[hop], circuit[hop + 1]
        if hop == hops - 1 and hops > 1:
            cycle = (cycle if begin is None else begin) + wait
            if here not in online[cycle]:
                return "lost"
        k = number * hops + hop
        if loss and uniform(draw(key, cycle, here, 2 * k)) < loss:
            return "lost"
        if lags is not None:
            place = math.ceil(uniform(draw(key, cycle, here, 2 * k + 1)) * len(lags)) - 1
            cycle += lags[place]
        if there not in online[cycle]:
            return "lost"
    return cycle


def sender_probabilities(sends, lags, relays, stagger, arrived, begin=None):
    """How probable each peer is as the sender of a packet that arrived in a cycle, by counting all ways it can go.

    `sends[peer]` are the cycles in which a peer sent something; each delay and each wait is equally probable.
    """
    waits = range(stagger) if stagger else [0]
    weight = {}
    for peer, cycles in sends.items():
        ways = Fraction(0)
        for sent in cycles:
            for way in itertools.product(*([lags] * (relays + 1)), waits):
                *delays, wait = way
                at_last = sent + sum(delays[:-1])
                leaves = at_last + wait if begin is None or not stagger else begin + wait
                ways += leaves + delays[-1] == arrived
        weight[peer] = ways / len(cycles)
    total = sum(weight.values())
    return {peer: w / total for peer, w in weight.items()}


# ------------------------------------------------------------------------------------------------ groups and their sums


def groups_over_views(order, views, able, online, side, size, key, cycle, loss):
    """Nodes propose themselves as curators: {curator: members}, messages sent, messages lost."""
    groups, taken, sent, lost = {}, set(), 0, 0
    for i in (i for i in order if able[i]):
        if i in taken:
            continue
        left, joined = list(views[i]), [i]
        for place in range(len(left)):
            if len(joined) == size:
                break
            other = place + below(draw(key, cycle, i, 3 * place), len(left) - place)
            left[place], left[other] = left[other], left[place]
            j = left[place]
            if j == i:
                continue
            proposal_lost = uniform(draw(key, cycle, i, 3 * place + 1)) < loss
            answer_lost = uniform(draw(key, cycle, i, 3 * place + 2)) < loss
            reached = online[j] and side[i] == side[j] and not proposal_lost
            sent += 1 + reached
            lost += not (reached and not answer_lost)
            if reached and not answer_lost and able[j] and j not in taken:
                joined.append(j)
        if len(joined) == size:
            groups[i] = joined
            taken |= set(joined)
    return groups, sent, lost


def mask_of(key, cycle, i, k, d):
    """Words k … k+d−1 of node i's stream."""
    return [draw(key, cycle, i, k + f) for f in range(d)]


def masked_terms(terms, own_key, pair_key, cycle):
    """What each member sends, {node: integers}: Bonawitz et al. 2017, section 4; the lower of two nodes adds."""
    sent = {}
    for u, term in terms.items():
        total = [t + m for t, m in zip(term, mask_of(own_key, cycle, u, 0, len(term)), strict=True)]
        for v in terms:
            if v != u:
                sign = 1 if u < v else -1
                pair = mask_of(pair_key, cycle, min(u, v), max(u, v) << 32, len(term))
                total = [t + sign * m for t, m in zip(total, pair, strict=True)]
        sent[u] = [t % 2**64 for t in total]
    return sent


def unmasked_sum(sent, members, own_key, pair_key, cycle):
    """The sum of the terms behind what was sent, as signed integers; members are all who made masks."""
    total = [sum(words) for words in zip(*sent.values(), strict=True)]
    for u in sent:
        total = [t - m for t, m in zip(total, mask_of(own_key, cycle, u, 0, len(total)), strict=True)]
        for v in set(members) - set(sent):
            sign = 1 if u < v else -1
            pair = mask_of(pair_key, cycle, min(u, v), max(u, v) << 32, len(total))
            total = [t - sign * m for t, m in zip(total, pair, strict=True)]
    return [(t + 2**63) % 2**64 - 2**63 for t in total]


def majority(classes, weights, scores, tie):
    """The class with the most votes; of equal ones the first, the last, or that of the highest sum of s/(1+|s|).

    None where these sums are equal, too.
    """
    votes = [sum(w for c, w in zip(classes, weights, strict=True) if c == k) for k in range(len(scores[0]))]
    best = [k for k, v in enumerate(votes) if v == max(votes)]
    if tie != "score" or len(best) == 1:
        return best[-1] if tie == "last" else best[0]
    lean = [sum(w * s[k] / (1 + abs(s[k])) for w, s in zip(weights, scores, strict=True)) for k in range(len(votes))]
    highest = [k for k in best if lean[k] > max(lean[j] for j in best) - 1e-9]
    return highest[0] if len(highest) == 1 else None


def gaussian_mu(epsilon, delta):
    """The μ with Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) = δ, by bisection (Balle & Wang 2018, theorem 8)."""
    phi = statistics.NormalDist().cdf
    low, high = 1e-3, 100.0
    for _ in range(100):
        mu = (low + high) / 2
        if phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu) > delta:
            high = mu
        else:
            low = mu
    return low


def aggregations(epsilon, each, delta):
    """How often Gaussian noise with (each, δ) can be added under (ε, δ): the squares of μ add up (Dong et al. 2022)."""
    budget, times = gaussian_mu(epsilon, delta) ** 2, 0
    while (times + 1) * gaussian_mu(each, delta) ** 2 <= budget * (1 + 1e-6):
        times += 1
    return times


def published_mean(models, n, lam, trust, epsilon, quorum, widest, noise, mu=None, honest=None):
    """The mean of a group's models [models, features] that have arrived, with the noise of each trust.

    One record moves a model by 2/(nλ); `widest` is the most among all who sent. `noise(who, kind, scale)` is noise for
    a model; who is a place in the list, or None for the curator. With a μ noise is Gaussian: the models of a node, as
    one vector, move by the root of their number times as far.
    """
    count, moves = len(models[0]), [2 / (a * b) for a, b in zip(n, lam, strict=True)]
    total = np.zeros(models[0].shape)
    if mu is not None:
        deviation = math.sqrt(count) / mu
        for place, model in enumerate(models):
            total = total + model
            if trust == "none":
                total = total + noise(place, "gaussian", deviation * moves[place])
            if trust == "honest":
                total = total + noise(place, "gaussian", deviation * widest / math.sqrt(honest))
        mean = total / len(models)
        return mean + noise(None, "gaussian", deviation * max(moves) / quorum) if trust == "curator" else mean
    for place, model in enumerate(models):
        total = total + model
        if trust == "none":
            total = total + noise(place, "gamma", count * moves[place] / epsilon)
        if trust == "honest":
            total = total + noise(place, "share", count * widest / epsilon)
    mean = total / len(models)
    if trust == "curator":
        mean = mean + noise(None, "gamma", count * max(moves) / quorum / epsilon)
    if trust == "as-published":
        mean = mean + noise(None, "laplace", count * 2 / (min(n) * epsilon * min(lam)))
    return mean


# ------------------------------------------------------------------------------------------------ clocks of nodes


def turn_times(key, node, joined, online, *, period, random_phase=False, jitter=0.0, fixed=False, returns=()):
    """The times at which a node would take turns; online[c − 1] says whether it is online in cycle c.

    The next turn is one interval later. With `returns`, the cycles in which it comes back, it takes a turn at the
    beginning of each of them, and no turns pass while it is offline.
    """
    until = len(online) + 1
    time = joined + (uniform(draw(key, 0, node, 0)) * period if random_phase else 0.0)
    times, number, back = [], 0, list(returns)
    while True:
        away = time < until and not online[int(time) - 1]
        if back and (time >= back[0] or away):
            time = float(back.pop(0))
        elif time >= until or (away and returns):
            return times
        times.append(time)
        number += 1
        k = 0 if fixed else number
        size = normal(draw(key, k, node, 0), draw(key, k, node, 1)) if jitter else 0.0
        time += period * max(1 + jitter * size, 0.5)


# Clusters (Berta, Hegedűs & Ormándi 2014; the rules of GoLF's program)


def k_means(centroids, records, share):
    """Online k-means: the first k different records become centroids, then the nearest one moves to each record."""
    centroids = list(centroids)
    for x in records:
        missing = [c for c, one in enumerate(centroids) if one is None]
        if missing:
            if not any(one is not None and (one == x).all() for one in centroids):
                centroids[missing[0]] = np.array(x)
        else:
            c = min(range(len(centroids)), key=lambda c: sum((centroids[c] - x) ** 2))
            centroids[c] = (1 - share) * centroids[c] + share * x
    return centroids


def best_matching(mine, theirs):
    """The order of their centroids with the smallest sum of squared distances to mine, by trying all orders."""
    apart = [[sum((a - b) ** 2) for b in theirs] for a in mine]
    orders = itertools.permutations(range(len(mine)))
    return min(orders, key=lambda order: sum(apart[c][d] for c, d in enumerate(order)))


def mutual_information(one, other):
    """Normalised mutual information of two lists of labels, by the sums of its definition."""
    n = len(one)
    p, q = collections.Counter(one), collections.Counter(other)
    shared = sum(
        c / n * math.log(c * n / (p[a] * q[b]))
        for (a, b), c in collections.Counter(zip(one, other, strict=True)).items()
    )
    entropy = [-sum(c / n * math.log(c / n) for c in counts.values()) for counts in (p, q)]
    return max(shared, 0) / (sum(entropy) / 2) if sum(entropy) > 0 else 1.0


# Nearest class means, linear regression, matrix factorisation


def closeness_to_means(x, y, weight, classes, one):
    """μ·x − |μ|²/2 for each class, None without records; the estimate of |μ|² has no bias if there are two records."""
    found = []
    for c in range(classes):
        mine = [(w, v) for w, v, label in zip(weight, x, y, strict=True) if label == c]
        n, squares = sum(w for w, _ in mine), sum(w * w for w, _ in mine)
        if not mine:
            found.append(None)
            continue
        total = sum(w * v for w, v in mine)
        if len(mine) == 1:
            length = total @ total / n**2
        else:
            length = max((total @ total - sum(w * w * (v @ v) for w, v in mine)) / (n * n - squares), 0)
        found.append(total @ one / n - length / 2)
    return found


def difference_of_two(a, b):
    """The score of class 1 of two: that of b less that of a; the class that is known if only one is."""
    return (b is not None) - (a is not None) if a is None or b is None else b - a


def regression_step(w, x, y, rate, lam):
    """A step against the gradient of the mean of (w·x + b − y)²/2, and of λ|w|²/2."""
    with_bias = [np.append(one, 1.0) for one in x]
    slope = sum((w @ one - value) * one for one, value in zip(with_bias, y, strict=True)) / len(x)
    return w - rate * (slope + lam * w)


def rating(own, model, item):
    """The rating that a user expects of an item: (vector, bias, known) and (vector, bias) per item."""
    rank = len(own) - 2
    vector, bias = model.reshape(-1, rank + 1)[item, :-1], model.reshape(-1, rank + 1)[item, -1]
    return float(own[rank] + bias + own[:rank] @ vector)


def factorise(own, model, items, ratings, rate, lam):
    """A user's vector and the items' after a step per rating; the first bias is the mean of the user's ratings."""
    own, rank = np.array(own, float), len(own) - 2
    model = np.array(model, float).reshape(-1, rank + 1)
    if not own[-1]:
        own[rank], own[-1] = np.mean(ratings), 1
    for item, value in zip(items, ratings, strict=True):
        error = value - rating(own, model.ravel(), item)
        user, film = own[:rank].copy(), model[item, :rank].copy()
        own[:rank] += rate * (error * film - lam * user)
        model[item, :rank] += rate * (error * user - lam * film)
        own[rank] += rate * error
        model[item, rank] += rate * (error - lam * model[item, rank])
    return own, model.ravel()


# ------------------------------------------------------------------------------------- noise that cancels in pairs


def released_moments(xs, labels, classes, second):
    """Numbers of records per class, the blocks Σ e_y ⊗ x, and the upper triangle of Σ x·xᵀ."""
    counts, blocks, products = np.zeros(classes), np.zeros((classes, len(xs[0]))), 0.0
    for x, y in zip(xs, labels, strict=True):
        counts[y] += 1
        blocks[y] += np.asarray(x, np.float64)
        products = products + np.outer(np.asarray(x, np.float64), np.asarray(x, np.float64))
    upper = [products[f, g] for f in range(len(products)) for g in range(f, len(products))] if second else []
    return np.concatenate([counts, blocks.ravel(), upper])


def path_conductance(nodes, ratio):
    """The conductance from one end of a path to the ground: from the other end, in series and in parallel."""
    found = 1.0
    for _ in range(nodes - 1):
        found = 1 + 1 / (1 / ratio**2 + 1 / found)
    return found


def noisy_rows(records, classes, second, trust, sigma, honest, ratio, edges, own_key, pair_key):
    """What nodes send, and its sum (Sabater, Bellet & Ramon 2022), where all nodes are there.

    A node of a component of fewer than `honest` nodes adds the complete noise.
    """
    rows = np.array([released_moments(xs, ys, classes, second) for xs, ys in records])
    d, n = rows.shape[1], len(rows)
    own = {"curator": 0.0, "honest": sigma / math.sqrt(honest), "local": sigma}.get(trust, 0.0)
    scales = [own] * n
    if trust == "correlated":
        small = sigma / math.sqrt(path_conductance(honest, ratio))
        scales = [small if len(component_of(i, edges, range(n))) >= honest else sigma for i in range(n)]
        for i, j in sorted(tuple(sorted(edge)) for edge in edges):
            noise = gaussian_noise(pair_key, i, j, 0, d, ratio * small)
            rows[i] += noise
            rows[j] -= noise
    for i in range(n):
        rows[i] += gaussian_noise(own_key, 0, i, 0, d, scales[i])
    total = rows.sum(axis=0) + (gaussian_noise(own_key, 0, 0, 0, d, sigma) if trust == "curator" else 0.0)
    return rows, total


def noise_covariance(nodes, edges, ratio):
    """I + r²·L, with the Laplacian of the graph."""
    found = np.eye(nodes)
    for i, j in edges:
        found[i, i] += ratio**2
        found[j, j] += ratio**2
        found[i, j] -= ratio**2
        found[j, i] -= ratio**2
    return found


def component_of(node, edges, among):
    """The nodes that are connected with a node, through these nodes only."""
    found, among = {node}, set(among)
    while True:
        more = {b for edge in edges for a, b in (edge, edge[::-1]) if a in found and b in among} - found
        if not more:
            return found
        found |= more


def smallest_component(nodes, edges, colluders):
    """The size of the smallest component of the nodes that do not collude."""
    others = [i for i in range(nodes) if i not in colluders]
    return min((len(component_of(i, edges, others)) for i in others), default=0)


def worst_mu(own, between, edges, others, sensitivity):
    """The largest μ of one of these nodes, against an observer who knows the noise of all nodes that are not."""
    place = {node: k for k, node in enumerate(others)}
    covariance = np.diag([own[i] ** 2 for i in others])
    for i, j in {tuple(sorted(edge)) for edge in edges}:
        if i in place and j in place:
            difference = np.zeros(len(others))
            difference[place[i]], difference[place[j]] = 1, -1
            covariance += between**2 * np.outer(difference, difference)
    return sensitivity * math.sqrt(np.diagonal(np.linalg.inv(covariance)).max())


# ------------------------------------------------------------------------------------------------ gossip with noise


def seen_by(members, matrices, senders):
    """The rows of what some nodes see: their own numbers, and those that they get in each step.

    senders[t] has the nodes whose numbers any member gets in step t. Numbers before step t are W_{t−1}…W_0 (x + noise).
    """
    power = np.eye(len(matrices[0]))
    rows = [power[c] for c in members]
    for matrix, these in zip(matrices, senders, strict=True):
        rows += [power[w] for w in these]
        power = matrix @ power
    return np.array(rows)


def two_hypotheses(rows, node, noise):
    """The squared distance of the means of what is seen if a node's number is 0 or 1, by the covariance of the noise.

    This is the definition: N(A·0, AΣAᵀ) and N(A·e, AΣAᵀ) can be distinguished as N(0, 1) and N(μ, 1).
    """
    change = rows[:, node]
    covariance = rows @ np.diag(np.asarray(noise) ** 2) @ rows.T
    return float(change @ np.linalg.pinv(covariance, rcond=1e-11, hermitian=True) @ change)


# ------------------------------------------------------------------------------------------------ walks with noise


def seen_on_a_walk(history, observer):
    """What an observer sees of each node on one walk: sums of the squares of μ (Feldman et al. 2018, theorem 22).

    history has ("arrive", node) before and ("update", node, variance, mu, firm) after each visit with an update. The
    shift μ·s of an update is hidden by the noise of all updates from it to the next sight, up to one that is not firm.
    """
    found, part = {}, []
    for event in history:
        if event[0] == "update":
            part = [] if event[1] == observer else [*part, event[1:]]
        elif event[1] == observer:
            sums = {}
            for e, (node, variance, mu, _) in enumerate(part):
                hidden = variance
                for _, more, _, firm in part[e + 1 :]:
                    if not firm:
                        break
                    hidden += more
                sums[node] = sums.get(node, 0.0) + mu * math.sqrt(variance / hidden)
            for node, total in sums.items():
                found[node] = found.get(node, 0.0) + total**2
            part = []
    return found
