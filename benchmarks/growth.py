"""Draw the growth of the cost, from the results of `golfsim bench` on this machine.

golfsim bench protocols growth --json > figures.json && python benchmarks/growth.py figures.json docs/images/growth.png
"""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

NANO = 1e9


def by_nodes(rows):
    """Return nanoseconds per node-cycle over the number of nodes, for each stack of layers."""
    found = {}
    for row in rows:
        if "node-cycles/s" in row and "faults" not in row["name"]:
            found.setdefault(row["name"], []).append((row["nodes"], NANO / row["node-cycles/s"]))
    return found


def by_view(rows):
    return {"Newscast, 20,000 nodes": [(r["view"], r["ns per node"]) for r in rows if r["name"] == "Newscast by view"]}


def by_model(rows):
    def size(row):
        return row["features"] * (1 if row["classes"] == 2 else row["classes"])

    models = [row for row in rows if row["name"] == "Golf by model"]
    two = sorted((size(row), row["ns per node"]) for row in models if row["classes"] == 2)
    more = sorted((size(row), row["ns per node"]) for row in models if row["classes"] > 2)
    return {"two classes": two, "several classes": more}


PANELS = (
    ("number of nodes", by_nodes, "log", "linear"),
    ("size of the view", by_view, "linear", "linear"),
    ("parameters per model", by_model, "log", "log"),
)


def main() -> None:
    rows = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for axes, (label, curves, across, up) in zip(figure.subplots(1, 3), PANELS, strict=True):
        for marker, (name, points) in zip("osD^", curves(rows).items(), strict=False):
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=name)
        axes.set(xlabel=label, xscale=across, yscale=up, ylabel="ns per node and cycle")
        if up == "linear":
            axes.set_ylim(0, 1.35 * axes.get_ylim()[1])
        axes.legend(fontsize=7, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(sys.argv[2], dpi=150)


if __name__ == "__main__":
    main()
