"""Kernels of the mode “sampled”: draw coordinates of records, publish them as symbols, and add up estimates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from golfsim.core.kernels import kernel, leaf
from golfsim.core.rng import below, draw, unit
from golfsim.privacy.strings import LANES, perturbed_word, write_subset
from golfsim.protocol.symbols import first_word, level_of, places_of, take_symbol

REPORTS, COORDINATES = 0, 1  # which draws of a record


class Channel(NamedTuple):
    """How the symbols of each record are reported."""

    p: NDArray[np.float64]  # per record: the probability that a report names the true symbol
    q: NDArray[np.float64]  # that it names another one
    size: NDArray[np.int64]  # how many symbols a report names; 0: each bit of a string is perturbed by itself
    values: int
    samples: int
    signs: int


@leaf
def sampled_symbol(key, record, sample, x, label, signs):
    """Draw a feature with a probability of its absolute value, and return its symbol; the rest is spread evenly.

    Without signs, negative features count as zero.

    Parameters
    ----------
    key : uint64
        The key of the draws.
    record, sample : int
        The record, and the number of the sample.
    x : array of float32, shape (records, features)
        The true features, of L1 length at most 1.
    label : int
        The true label.
    signs : int
        1 if symbols have a sign, else 0.
    """
    d = x.shape[1]
    h, reached = unit(draw(key, COORDINATES, record, 2 * sample)), 0.0
    for f in range(d):
        value = np.float64(x[record, f])
        reached += abs(value) if signs == 1 else max(value, 0.0)
        if h < reached:
            return ((label * d + f) << signs) + (signs if value < 0 else 0)
    return ((label * d) << signs) + below(draw(key, COORDINATES, record, 2 * sample + 1), d << signs)


@kernel
def publish_symbols(records, lo, hi, rows, channel, key, reports):
    """Publish samples of the coordinates of records lo … hi−1 of a list, each through a channel.

    Parameters
    ----------
    records : array of int64
        The records to publish.
    lo, hi : int
        The range of `records`.
    rows : Rows
        The true records.
    channel : Channel
        How symbols are reported.
    key : uint64
        The key of the draws.
    reports : array of int32 or uint64, shape (records, samples · places)
        The numbers of the symbols, or strings of bits; filled here.
    """
    places = reports.shape[1] // channel.samples
    for place in range(lo, hi):
        record = records[place]
        p, q, size, values = channel.p[record], channel.q[record], channel.size[record], channel.values
        for sample in range(channel.samples):
            label = np.int64(rows.label[record])
            symbol = sampled_symbol(key, record, sample, rows.x, label, channel.signs)
            start = sample * places
            if size > 0:
                write_subset(key, REPORTS, record, sample, symbol, values, p, size, reports, record, start)
                continue
            for word in range((values + LANES - 1) // LANES):
                bits = perturbed_word(key, REPORTS, record, sample, symbol, values, p, q, word)
                reports[record, start + word] = reports.dtype.type(bits)


@leaf
def estimate(x, record, blocks, named, own):
    """Compute the estimate of e_y ⊗ x of a record, the namings of each class, and the estimate of x by each sample.

    Parameters
    ----------
    x : Symbols
        The published symbols.
    record : int
        The record.
    blocks : array of float64, shape (classes, features)
        The estimate; filled here.
    named : array of float64, shape (classes,)
        How often symbols of each class are named; filled here.
    own : array of float64, shape (samples, features)
        The estimate of the features by each sample; filled here.
    """
    level, gain = level_of(x, record), x.gain[record]
    for m in range(blocks.shape[0]):
        named[m] = 0.0
        for f in range(blocks.shape[1]):
            blocks[m, f] = level
    for sample in range(own.shape[0]):
        for f in range(own.shape[1]):
            own[sample, f] = x.classes * level
    for place in range(x.reports.shape[1]):
        word = first_word(x, record, place)
        while word != 0:
            label, f, sign, word = take_symbol(x, record, place, word)
            named[label] += 1
            blocks[label, f] += sign * gain
            if own.shape[0] > 0:
                own[place // places_of(x), f] += sign * gain * x.samples


@leaf
def add_products(own, total, out, e, place):
    """Add the mean product of two different samples, for the upper triangle of x xᵀ, from a column of `out` on."""
    samples = own.shape[0]
    for f in range(own.shape[1]):
        total[f] = 0.0
        for sample in range(samples):
            total[f] += own[sample, f]
    for f in range(own.shape[1]):
        for g in range(f, own.shape[1]):
            products = total[f] * total[g]
            for sample in range(samples):
                products -= own[sample, f] * own[sample, g]
            out[e, place] += products / (samples * (samples - 1))
            place += 1


@kernel
def add_values(nodes, lo, hi, first, stop, x, second, out):
    """Add up the numbers of the published records of nodes lo … hi−1 of a list, record by record.

    Parameters
    ----------
    nodes : array of int32
        The nodes.
    lo, hi : int
        The range of `nodes`.
    first, stop : array of int64
        The published records of each node: first … stop−1.
    x : Symbols
        The published symbols.
    second : bool
        Whether the upper triangle of x xᵀ is wanted, too.
    out : array of float64, shape (nodes, numbers)
        Per node: the number of records, the estimates of e_y, the squared lengths of the estimated blocks, the
        estimates of e_y ⊗ x, and those of x xᵀ. Changed in place.
    """
    c, d = x.classes, x.shape[1]
    blocks, named, total = np.empty((c, d)), np.empty(c), np.empty(d)
    own = np.empty((x.samples if second else 0, d))
    for e in range(lo, hi):
        for record in range(first[nodes[e]], stop[nodes[e]]):
            estimate(x, record, blocks, named, own)
            out[e, 0] += 1
            for m in range(c):
                out[e, 1 + m] += x.low[record] * (d << x.signs) + x.gain[record] * named[m]
                square = 0.0
                for f in range(d):
                    square += blocks[m, f] * blocks[m, f]
                    out[e, 1 + 2 * c + m * d + f] += blocks[m, f]
                out[e, 1 + c + m] += square
            if second:
                add_products(own, total, out, e, 1 + 2 * c + c * d)


@kernel
def count_named(x, records, named, sums):
    """Count how often symbols of each class are named, and add up the estimated blocks of all classes.

    Parameters
    ----------
    x : Symbols
        The published symbols.
    records : array of int64
        The records.
    named : array of float64, shape (records, classes)
        The namings of each class; filled here.
    sums : array of float32, shape (records, features)
        The estimated features; filled here.
    """
    blocks, own = np.empty((x.classes, x.shape[1])), np.empty((0, x.shape[1]))
    for place in range(records.size):
        estimate(x, records[place], blocks, named[place], own)
        for f in range(x.shape[1]):
            total = 0.0
            for m in range(x.classes):
                total += blocks[m, f]
            sums[place, f] = total
