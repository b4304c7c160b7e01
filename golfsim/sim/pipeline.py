"""Let the end of a layer's turn overlap with the next cycle, without changing any number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from golfsim.core.threads import Beside
from golfsim.network.world import AtOnce, World
from golfsim.protocol.base import Protocol
from golfsim.protocol.turns import further_turn


class Pipeline(AtOnce):
    """Run the last work of a turn in another thread while layers that allow it (`overlaps`) take their next turns.

    With small models Newscast takes its turn of the next cycle while Golf still delivers the models of this one. The
    work is finished before anything else reads the arrays that it changes: `settle` waits for it.
    """

    def __init__(self, layers: Iterable[Protocol[Any]], threads: int) -> None:
        self.active = threads > 1 and any(layer.overlaps for layer in layers)
        self._work = Beside()

    def later(self, work: Callable[[], None]) -> None:
        """Do a piece of work later, at the latest in `settle`. It must not use the world, which changes meanwhile."""
        if self.active:
            self._work.begin(work)
        else:
            work()

    def settle(self) -> None:
        """Wait until all work is done."""
        self._work.end()

    def turn(self, layer: Protocol[Any], world: World) -> None:
        """Let a layer act, after all work is done unless its turn may overlap with it; `times` times if it says so."""
        if not layer.overlaps:
            self.settle()
        layer.step(world)
        for number in range(1, layer.config.times):
            self.settle()  # the work of a turn uses its keys
            with further_turn(layer, world, number):
                layer.step(world)
                self.settle()
