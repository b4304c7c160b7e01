"""Learners with a gradient: softmax regression, and neural networks with one or two hidden layers."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from golfsim.core import rng
from golfsim.core.kernels import inlined, leaf
from golfsim.core.maths import exp
from golfsim.core.simd import dot_at, fused
from golfsim.learning.online import GradientConfig, GradientLearner, Shape, spread_evenly


@inlined
def to_errors(work, at, outputs, label):
    """Replace scores by the derivatives of the loss: logistic with one output, else the cross-entropy of softmax."""
    if outputs == 1:
        work[0, at] = np.float32(1 / (1 + exp(-np.float64(work[0, at]))) - (label == 1))
        return
    largest = work[0, at]
    for c in range(1, outputs):
        largest = max(largest, work[0, at + c])
    total = 0.0
    for c in range(outputs):
        total += exp(np.float64(work[0, at + c] - largest))
    for c in range(outputs):
        share = exp(np.float64(work[0, at + c] - largest)) / total
        work[0, at + c] = np.float32(share - (c == label))


class Flat(NamedTuple):
    """The numbers of softmax regression."""

    lam: float
    offset: float
    features: int
    outputs: int


@inlined
def _flat_scores_into(s, w, i, x, r, out, o):
    for c in range(s.outputs):
        p = c * (s.features + 1)
        out[o, c] = dot_at(w, i, p, x, r, 0, s.features) + w[i, p + s.features]


@leaf
def _flat_gradient(s, w, i, x, r, label, out, work):
    _flat_scores_into(s, w, i, x, r, work, 0)
    to_errors(work, 0, s.outputs, label)
    for c in range(s.outputs):
        p, error = c * (s.features + 1), work[0, c]
        for f in range(s.features):
            out[0, p + f] = fused(error, x[r, f], out[0, p + f])
        out[0, p + s.features] += error


@leaf
def _flat_scores(s, w, i, x, r, out, o, room):
    _flat_scores_into(s, w, i, x, r, out, o)


class Softmax(GradientLearner[GradientConfig]):
    """softmax regression with a bias per class, all classes at once; logistic regression with two classes."""

    Config = GradientConfig
    Numbers = Flat
    probabilities = True
    gradient, scores = _flat_gradient, _flat_scores

    def parameters(self, records: Shape) -> int:
        """Return the number of weights and biases."""
        return records.models * (records.features + 1)

    def numbers(self, records: Shape, lam: float, offset: float) -> Flat:
        """Return the sizes."""
        return Flat(lam, offset, records.features, records.models)

    def room(self, records: Shape) -> int:
        """Return one number per score."""
        return records.models


class Layers(NamedTuple):
    """The numbers of a neural network."""

    lam: float
    offset: float
    features: int
    first: int  # neurons of the first hidden layer
    second: int  # of the second; 0: there is none
    outputs: int
    tanh: bool  # else ReLU


@inlined
def activation(z, tanh):
    """Return the output of a hidden neuron: tanh(z), or the positive part of z."""
    if tanh:
        return np.float32(1 - 2 / (1 + exp(2 * np.float64(z))))
    return max(z, np.float32(0))


@inlined
def slope(a, tanh):
    """Return the derivative of an activation, given the activation."""
    if tanh:
        return np.float32(1) - a * a
    return np.float32(a > 0)


@inlined
def forward(s, w, i, p, source, row, q, size, out, o, at, number, hidden):
    """Compute a layer of neurons, and return the place after its parameters.

    Parameters
    ----------
    s : Layers
        The numbers of the network.
    w : array of float32, shape (rows, numbers)
        The models.
    i, p : int
        The row of the model, and the place of the first weight.
    source : array of float32
        The inputs of the layer.
    row, q, size : int
        The row of the inputs, the first one, and their number.
    out : array of float32
        The outputs of the layer; filled here.
    o, at, number : int
        The row of the outputs, the place of the first one, and the number of neurons.
    hidden : bool
        Whether neurons have an activation.
    """
    biases = p + number * size
    for n in range(number):
        z = dot_at(w, i, p + n * size, source, row, q, size) + w[i, biases + n]
        out[o, at + n] = activation(z, s.tanh) if hidden else z
    return biases + number


@inlined
def backward(s, w, i, p, work, error, number, at, size, source_error):
    """Compute the derivatives of the loss with respect to the inputs of a layer, which are activations.

    Parameters
    ----------
    s : Layers
        The numbers of the network.
    w : array of float32, shape (rows, numbers)
        The models.
    i, p : int
        The row of the model, and the place of the first weight of the layer.
    work : array of float32, shape (1, numbers)
        Activations and derivatives.
    error, number : int
        The place of the derivatives of the layer, and the number of its neurons.
    at, size : int
        The place of its inputs, and their number.
    source_error : int
        The place of the result.
    """
    for u in range(size):
        work[0, source_error + u] = 0
    for n in range(number):
        d = work[0, error + n]
        for u in range(size):
            work[0, source_error + u] = fused(d, w[i, p + n * size + u], work[0, source_error + u])
    for u in range(size):
        work[0, source_error + u] *= slope(work[0, at + u], s.tanh)


@inlined
def add_outer(out, p, work, error, number, source, row, q, size):
    """Add the derivatives with respect to the weights and biases of a layer.

    Parameters
    ----------
    out : array of float32, shape (1, parameters)
        The gradient; changed in place.
    p : int
        The place of the first weight of the layer.
    work : array of float32, shape (1, numbers)
        The derivatives of its neurons.
    error, number : int
        The place of these, and the number of neurons.
    source : array of float32
        The inputs.
    row, q, size : int
        The row of the inputs, the first one, and their number.
    """
    for n in range(number):
        d = work[0, error + n]
        if d != 0:
            begin = p + n * size
            for f in range(size):
                out[0, begin + f] = fused(d, source[row, q + f], out[0, begin + f])
            out[0, p + number * size + n] += d


@leaf
def _network_gradient(s, w, i, x, r, label, out, work):
    last = s.first if s.second == 0 else s.second
    a1, a2 = 0, s.first
    top = s.first + s.second
    e1, e2 = top + s.outputs, top + s.outputs + s.first
    p2 = forward(s, w, i, 0, x, r, 0, s.features, work, 0, a1, s.first, True)
    p3 = p2
    if s.second > 0:
        p3 = forward(s, w, i, p2, work, 0, a1, s.first, work, 0, a2, s.second, True)
    below = a1 if s.second == 0 else a2
    forward(s, w, i, p3, work, 0, below, last, work, 0, top, s.outputs, False)
    to_errors(work, top, s.outputs, label)
    add_outer(out, p3, work, top, s.outputs, work, 0, below, last)
    backward(s, w, i, p3, work, top, s.outputs, below, last, e1 if s.second == 0 else e2)
    if s.second > 0:
        add_outer(out, p2, work, e2, s.second, work, 0, a1, s.first)
        backward(s, w, i, p2, work, e2, s.second, a1, s.first, e1)
    add_outer(out, 0, work, e1, s.first, x, r, 0, s.features)


@leaf
def _network_scores(s, w, i, x, r, out, o, room):
    work, a2 = room.work, s.first
    p2 = forward(s, w, i, 0, x, r, 0, s.features, work, 0, 0, s.first, True)
    if s.second > 0:
        p3 = forward(s, w, i, p2, work, 0, 0, s.first, work, 0, a2, s.second, True)
        forward(s, w, i, p3, work, 0, a2, s.second, out, o, 0, s.outputs, False)
    else:
        forward(s, w, i, p2, work, 0, 0, s.first, out, o, 0, s.outputs, False)


class NetworkConfig(GradientConfig):
    """The settings of a neural network."""

    hidden: tuple[Annotated[int, Field(ge=1, le=4096)], ...] = Field(
        (32,), min_length=1, max_length=2, description="the number of neurons of each hidden layer: one or two layers"
    )
    activation: Literal["relu", "tanh"] = Field("relu", description="what a hidden neuron computes")


class Network(GradientLearner[NetworkConfig]):
    """neural network with one or two hidden layers; its loss is logistic for two classes, else the cross-entropy."""

    Config = NetworkConfig
    Numbers = Layers
    probabilities = True
    gradient, scores = _network_gradient, _network_scores

    def sizes(self, records: Shape) -> tuple[int, ...]:
        """Return the number of inputs and of neurons of each layer."""
        return (records.features, *self.config.hidden, records.models)

    def parameters(self, records: Shape) -> int:
        """Return the number of weights and biases of all layers."""
        sizes = self.sizes(records)
        return sum((below + 1) * above for below, above in pairwise(sizes))

    def numbers(self, records: Shape, lam: float, offset: float) -> Layers:
        """Return the sizes."""
        first, *second = self.config.hidden
        tanh = self.config.activation == "tanh"
        return Layers(lam, offset, records.features, first, second[0] if second else 0, records.models, tanh)

    def initial(self, records: Shape, key: np.uint64) -> NDArray[np.float32]:
        """Return random weights (Glorot & Bengio 2010), the same at all nodes, and biases of zero.

        Models that are averaged must begin equal: else their neurons do not match (McMahan et al. 2017).
        """
        model, place, sizes = np.zeros(self.shape(records), np.float32), 0, self.sizes(records)
        for layer, (below, above) in enumerate(pairwise(sizes)):
            weights = np.arange(below * above, dtype=np.int32)
            signed = 2 * rng.uniform(key, weights, layer) - 1
            model[0, place : place + weights.size] = signed * spread_evenly(below, above)
            place += (below + 1) * above
        return model

    def room(self, records: Shape) -> int:
        """Return two numbers per neuron: its output and its derivative."""
        return 2 * sum(self.config.hidden) + records.models
