"""Points of the scenarios that come with golfsim, a few runs each."""

from functools import cache

import numpy as np

from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import points
from golfsim.sim.simulation import Simulation


@cache
def points_of(name):
    """Each point's scenario with the values that tell it apart."""
    return [(point.values, point.scenario) for point in points(Scenario.load(name))]


def point(name, **values):
    """The one point with these values; dots in keys are written as double underscores."""
    wanted = {key.replace("__", "."): value for key, value in values.items()}
    (found,) = [scenario for point, scenario in points_of(name) if all(point[k] == v for k, v in wanted.items())]
    return found


def runs_of(scenario, runs, *metrics):
    """The last value of each metric, “layer metric”, for each of the first runs: an array a metric."""
    found = []
    for number in range(1, runs + 1):
        run = Simulation(scenario, number)
        for _ in run:
            pass
        found.append([run.latest[layer][metric] for layer, metric in (name.split() for name in metrics)])
    return np.array(found).T


def guarantee(scenario, layer):
    """What a layer guarantees after one run."""
    run = Simulation(scenario)
    for _ in run:
        pass
    return run.layer(layer).guarantee()
