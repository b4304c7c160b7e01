"""The figure of what nodes reveal to each other."""

import networkx as nx
import numpy as np
import pytest

from golfsim import plot
from golfsim.core.errors import UserError

LINKS = nx.to_scipy_sparse_array(nx.path_graph(5), format="csr")


def test_it_has_a_matrix_a_curve_over_distance_and_the_graph():
    values = np.array([[9.0, 4.0, 3.0, 2.0, 1.0], [4.0, 9.0, 4.0, 3.0, 2.0]])
    matrix = plot.pairwise(values, [0, 1], LINKS, reference=values / 2)
    _, curve, graph, _ = matrix.figure.axes
    shown = matrix.images[0].get_array()
    assert np.argwhere(np.ma.getmaskarray(shown)).tolist() == [[0, 0], [1, 1]]
    mean, published = (line.get_ydata().tolist() for line in curve.lines)
    assert mean == [4, 3, 2, 1]
    assert published == [2, 1.5, 1, 0.5]
    assert graph.collections[1].get_array().tolist() == [4, 3, 2, 1]


def test_values_of_another_shape_are_refused():
    with pytest.raises(UserError, match="1 × 4 values for 1 observers and 5 nodes"):
        plot.pairwise(np.zeros((1, 4)), [0], LINKS)
