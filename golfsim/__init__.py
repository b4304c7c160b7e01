"""golfsim: a cycle-driven simulator of gossip protocols that learn from data nobody gives away.

For notebooks::

    scenario = golfsim.Scenario.load("scenarios/quickstart.toml", {"cycles": 50})
    simulation = golfsim.Simulation(scenario)
    for cycle in simulation:
        print(cycle, simulation.layer("learning").age.mean())
    frame = simulation.log.frame()
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from golfsim.engine import Simulation
    from golfsim.errors import UserError
    from golfsim.log import load
    from golfsim.runner import run
    from golfsim.scenario import Scenario

_HOME = {
    "Scenario": "golfsim.scenario",
    "Simulation": "golfsim.engine",
    "UserError": "golfsim.errors",
    "load": "golfsim.log",
    "run": "golfsim.runner",
}

__all__ = ["Scenario", "Simulation", "UserError", "__version__", "load", "run"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: nothing happens at import."""
    if name not in _HOME:
        raise AttributeError(f"module “golfsim” has no attribute “{name}”")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
