"""What a scenario will do, told before anything runs."""

import numpy as np
import pytest
from helpers import HERE, learning_tree, simulation, tree

from golfsim.cli import preview
from golfsim.data import loading
from golfsim.scenario.model import Scenario

PEERS = {"name": "peers", "use": "newscast", "view": 4}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
CHURN = {"kind": "rate", "leave": 0.3, "rejoin": 0.2}


def described(table):
    return preview.describe(Scenario.of(table, HERE))


@pytest.mark.parametrize("stop", [None, {"when": "learning.error.mean < 0.0"}])
def test_counts_are_those_of_the_run_by_the_users_numbers(stop):
    nodes = {"number": 30, "records": {"kind": "zipf", "exponent": 1.0}, "split": {"kind": "label-skew", "alpha": 0.3}}
    table = learning_tree(PEERS, GOLF, nodes=nodes, **({"stop": stop} if stop else {}))
    found, run = described(table), simulation(table)
    data = loading.load(run.scenario.data, run.seed, HERE)
    assert found.nodes == 30
    assert found.classes == data.classes
    assert found.counts.shape == (30, 2)
    assert found.counts.sum(axis=0).tolist() == np.bincount(data.y).tolist()
    rows = run.raw.rows
    for node, label in enumerate(run.world.label):
        mine = rows.label[rows.first[node] : rows.stop[node]]
        assert found.counts[label].tolist() == np.bincount(mine, minlength=2).tolist()


def test_who_is_online_is_what_the_run_will_show():
    table = learning_tree(PEERS, GOLF, cycles=20, churn=CHURN)
    found, run = described(table), simulation(table)
    online, came = [], []
    for _ in run:
        online.append(int(run.world.online.sum()))
        came.append(run.world.came.size)
    assert found.online.tolist() == online
    assert found.came.tolist() == came
    assert found.online[0] == found.came[0]


def test_text_says_the_figures():
    table = learning_tree(PEERS, GOLF, nodes={"number": 20, "records": 4}, cycles=5)
    lines = preview.text(described(table)).splitlines()
    assert lines[0] == "20 nodes"
    assert lines[1] == "80 training records; records per node: 4"
    assert len(lines) == 8
    total = sum(int(line.split(")")[1].split()[0]) for line in lines[3:5])
    assert total == 80
    assert lines[-2] == "nodes online: 20 over 5 cycles; 20 in the first cycle"
    assert lines[-1] == "nodes that come online: 0.00 per cycle after the first"


def test_text_gives_quantiles_and_shares():
    counts = np.array([[1, 0], [2, 2], [0, 5], [0, 0]])
    found = preview.Description(4, ("no", "yes"), counts, np.array([4, 2, 3]), np.array([4, 0, 1]))
    text = preview.text(found)
    assert "10 training records; records per node: 0 … 5 (quartiles 0.75, 2.5, 4.25)" in text
    assert "no                      3                   2  0.00 … 1.00 (quartiles 0.25, 0.50, 0.75)" in text
    assert "yes                     7                   2  0.00 … 1.00 (quartiles 0.25, 0.50, 0.75)" in text
    assert "classes per node: 1.00 on average" in text
    assert "nodes online: 2 … 4 (quartiles 2.5, 3, 3.5) over 3 cycles; 4 in the first cycle" in text
    assert "nodes that come online: 0.50 per cycle after the first" in text


def test_a_network_without_data_is_described_by_who_is_online():
    found = described(tree(PEERS, nodes=15, cycles=4, churn={"kind": "crash", "at": 3, "number": 5}))
    assert found.counts.shape == (15, 0)
    assert preview.text(found).splitlines() == [
        "15 nodes",
        "nodes online: 10 … 15 (quartiles 10, 12.5, 15) over 4 cycles; 15 in the first cycle",
        "nodes that come online: 0.00 per cycle after the first",
    ]


@pytest.mark.parametrize("cycles", [1, 2])
def test_one_node_one_cycle_no_records(cycles):
    found = described(learning_tree(PEERS, GOLF, nodes={"number": 1, "records": 0, "leave_out": True}, cycles=cycles))
    assert found.counts.tolist() == [[0, 0]]
    assert "nan" not in preview.text(found)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_is_drawn(tmp_path, suffix):
    nodes = {"number": 300, "records": {"kind": "lognormal", "sigma": 1.5}}
    data = {"set": "random", "train": 6000, "test": 10}
    found = described(learning_tree(PEERS, GOLF, data=data, nodes=nodes, churn=CHURN))
    preview.save(found, tmp_path / f"picture.{suffix}")
    assert (tmp_path / f"picture.{suffix}").stat().st_size > 2000


def test_the_picture_shows_classes_sizes_and_who_is_online():
    import matplotlib.pyplot as plt

    found = described(learning_tree(PEERS, GOLF, cycles=9, churn=CHURN))
    figure = preview.draw(found)
    classes, sizes, online = figure.axes[:3]
    assert [text.get_text() for text in classes.get_xticklabels()] == list(found.classes)
    assert sum(bar.get_height() for bar in sizes.patches) == found.nodes
    assert online.lines[0].get_ydata().tolist() == found.online.tolist()
    assert online.lines[0].get_xdata().tolist() == list(range(1, 10))
    plt.close(figure)


def test_without_data_the_picture_has_one_panel():
    import matplotlib.pyplot as plt

    figure = preview.draw(described(tree(PEERS, nodes=5, cycles=3)))
    assert len(figure.axes) == 1
    plt.close(figure)
