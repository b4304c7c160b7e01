"""Preview of a scenario before it runs: which node has which records, and which nodes are online when."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.words import counted
from golfsim.data import loading
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTILES = (0, 0.25, 0.5, 0.75, 1)


@dataclass(frozen=True)
class Description:
    """Numbers that describe the network and the data of one run."""

    nodes: int
    classes: tuple[str, ...]
    counts: NDArray[np.int64]  # [nodes, classes], the user's numbering; no columns without data
    online: NDArray[np.int64]  # after each cycle
    came: NDArray[np.int64]  # nodes that came online in each cycle
    note: str = ""  # shown above each figure of these data


def describe(scenario: Scenario) -> Description:
    """Place the records and simulate the churn of the first run."""
    simulation = Simulation(scenario.change({"protocol": []} if not scenario.stop else {}))
    world, raw = simulation.world, simulation.raw
    classes: tuple[str, ...] = ()
    counts = np.zeros((world.nodes, 0), np.int64)
    if raw and scenario.data:
        classes = loading.load(scenario.data, simulation.seed, scenario.folder).classes or ("(numbers)",)
        counts = raw.class_counts()[np.argsort(world.label)]
    online, came = [], []
    for _ in range(scenario.cycles):
        world.advance()
        online.append(world.order.size)
        came.append(world.came.size)
    return Description(world.nodes, classes, counts, np.array(online), np.array(came), simulation.log.note)


def figures(found: Description) -> dict[str, Any]:
    """Return the numbers for programs."""
    return {
        "nodes": found.nodes,
        "records": found.counts.sum(axis=1).tolist(),
        "classes": dict(zip(found.classes, found.counts.sum(axis=0).tolist(), strict=True)),
        "online": found.online.tolist(),
        "came": found.came.tolist(),
        "note": found.note,
    }


def text(found: Description) -> str:
    """Return the numbers as a few lines of text."""
    lines = [counted(found.nodes, "node")]
    if found.classes:
        sizes = found.counts.sum(axis=1)
        lines += [
            f"{counted(sizes.sum(), 'training record')}; records per node: {_quantiles(sizes)}",
            "class             records  nodes that have it  share of the records of a node",
        ]
        share = found.counts / np.maximum(sizes, 1)[:, None]
        for c, name in enumerate(found.classes):
            own = found.counts[:, c]
            lines.append(f"{name:16} {own.sum():8} {(own > 0).sum():19}  {_quantiles(share[sizes > 0, c], '.2f')}")
        lines.append(f"classes per node: {(found.counts > 0).sum(axis=1).mean():.2f} on average")
    lines.append(
        f"nodes online: {_quantiles(found.online)} over {counted(found.online.size, 'cycle')}; "
        f"{found.online[0]} in the first cycle"
    )
    came = found.came[1:].mean() if found.came.size > 1 else 0.0
    lines.append(f"nodes that come online: {came:.2f} per cycle after the first")
    return "\n".join(lines)


def _quantiles(values: NDArray[Any], form: str = "g") -> str:
    if not values.size:
        return "none"
    low, first, middle, third, high = (format(float(v), form) for v in np.quantile(values, QUANTILES))
    return low if low == high else f"{low} … {high} (quartiles {first}, {middle}, {third})"


def draw(found: Description) -> Figure:
    """Draw the classes of the nodes, the records per node, and the nodes online over time."""
    import matplotlib.pyplot as plt

    from golfsim.report.figures import STYLE, say

    with plt.rc_context(STYLE):
        panels = 3 if found.classes else 1
        figure, axes = plt.subplots(1, panels, figsize=(3.4 * panels, 2.8), layout="constrained", squeeze=False)
        if found.classes:
            _draw_classes(axes[0, 0], found)
            _draw_sizes(axes[0, 1], found.counts.sum(axis=1))
        last = axes[0, -1]
        last.plot(np.arange(1, found.online.size + 1), found.online, color="C0", drawstyle="steps-mid")
        last.set(xlabel="cycle", ylabel="nodes online", ylim=(0, found.nodes * 1.05))
        say(figure, found.note)
    return figure


def _draw_classes(ax: Any, found: Description) -> None:
    """Draw nodes × classes: the class shares of up to 200 nodes, sorted by their largest class."""
    sizes = found.counts.sum(axis=1)
    share = found.counts[sizes > 0] / sizes[sizes > 0, None]
    share = share[np.lexsort((share.max(axis=1), share.argmax(axis=1)))]
    rows = share[np.linspace(0, len(share) - 1, min(len(share), 200)).astype(int)]
    image = ax.imshow(rows, aspect="auto", vmin=0, vmax=1, cmap="cividis", interpolation="nearest")
    ax.set(xlabel="class", ylabel="nodes, sorted", yticks=[], xticks=range(len(found.classes)))
    ax.set_xticklabels(found.classes, rotation=45 if max(map(len, found.classes)) > 4 else 0)
    ax.grid(visible=False)
    ax.figure.colorbar(image, ax=ax, label="share of the records of the node")


def _draw_sizes(ax: Any, sizes: NDArray[np.int64]) -> None:
    values, count = np.unique(sizes, return_counts=True)
    if values.size <= 30:
        ax.bar(values, count, width=0.8, color="C0")
        ax.set_xlim(values.min() - 1.5, values.max() + 1.5)
    else:
        ax.hist(sizes, bins=40, color="C0")
    ax.set(xlabel="records per node", ylabel="number of nodes")
    ax.xaxis.get_major_locator().set_params(integer=True)


def save(found: Description, path: Path) -> None:
    """Draw the figure into a file."""
    import matplotlib.pyplot as plt

    from golfsim.report.figures import STYLE

    figure = draw(found)
    with plt.rc_context(STYLE):
        figure.savefig(path)
    plt.close(figure)
