"""Call a networkx generator of graphs within limits: some take an `n` that is not the number of nodes.

`hypercube_graph` with n = 64 would fill any memory, and only after a long time.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from golfsim.core.memory import at_most, available, readable

SPARE, PER_EDGE = 2**30, 2**10  # bytes: more than networkx needs for a graph in which every node knows every other
_lock = threading.Lock()


class TooLarge(Exception):
    """A generator makes more than a network of this size can need."""


def call(generator: Any, nodes: int, seed: int, arguments: dict[str, Any]) -> Any:
    """Return what a generator returns for a network of this size, or raise TooLarge.

    The number of nodes and the seed are passed if the generator has these arguments and they are not given.
    """
    implied = {"n": nodes, "seed": seed}
    takes = arguments_of(generator)
    room = min(available(), SPARE + PER_EDGE * nodes**2)
    try:
        with at_most(room), _at_most_nodes(10 * nodes + 1000):  # some generators remove nodes at the end
            return generator(**{name: value for name, value in implied.items() if name in takes} | arguments)
    except MemoryError:
        raise TooLarge(f"needs more than {readable(room)} of memory") from None


def arguments_of(generator: Any) -> set[str]:
    """Return the names of the arguments of a generator."""
    return set(inspect.signature(generator).parameters)


@contextmanager
def _at_most_nodes(limit: int) -> Iterator[None]:
    """Let networkx raise TooLarge as soon as a graph has more nodes."""
    import networkx as nx

    class Nodes(dict[Any, Any]):
        def __setitem__(self, node: Any, attributes: Any) -> None:
            if len(self) >= limit:
                raise TooLarge(f"makes a graph of more than {limit} nodes")
            super().__setitem__(node, attributes)

    with _lock:
        usual, nx.Graph.node_dict_factory = nx.Graph.node_dict_factory, Nodes
        try:
            yield
        finally:
            nx.Graph.node_dict_factory = usual
