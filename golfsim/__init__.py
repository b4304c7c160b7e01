"""golfsim: a cycle-driven simulator of gossip protocols that learn from private data.

For notebooks::

    scenario = golfsim.Scenario.load("quickstart", {"cycles": 50})
    simulation = golfsim.Simulation(scenario)
    for cycle in simulation:
        print(cycle, simulation.layer("learning").age.mean())
    frame = simulation.log.frame()
    golfsim.plot.convergence(frame)
"""

from typing import TYPE_CHECKING, Any

from golfsim._version import __version__

if TYPE_CHECKING:
    from golfsim import plot
    from golfsim.comparing.comparison import compare
    from golfsim.core.errors import UserError
    from golfsim.runs.logs import load, load_degrees, load_links, load_nodes, load_spent
    from golfsim.runs.single import run
    from golfsim.scenario.model import Scenario
    from golfsim.sim.simulation import Simulation
    from golfsim.sklearn import GossipClassifier

_HOME = {
    "GossipClassifier": "golfsim.sklearn",
    "Scenario": "golfsim.scenario.model",
    "Simulation": "golfsim.sim.simulation",
    "UserError": "golfsim.core.errors",
    "compare": "golfsim.comparing.comparison",
    "load": "golfsim.runs.logs",
    "load_degrees": "golfsim.runs.logs",
    "load_links": "golfsim.runs.logs",
    "load_nodes": "golfsim.runs.logs",
    "load_spent": "golfsim.runs.logs",
    "run": "golfsim.runs.single",
}

__all__ = [
    "GossipClassifier", "Scenario", "Simulation", "UserError", "__version__", "compare", "load", "load_degrees",
    "load_links", "load_nodes", "load_spent", "plot", "run",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `import golfsim` is quick."""
    from importlib import import_module

    if name == "plot":
        return import_module("golfsim.plot")
    if name not in _HOME:
        raise AttributeError(f"module “golfsim” has no attribute “{name}”")
    return getattr(import_module(_HOME[name]), name)
