"""Who holds which records."""

import numpy as np
import pytest
from helpers import ALPHA, learning_tree, p_of_chi_square, simulation
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.data.placement import NodesConfig, Placement
from golfsim.data.placement import place as place_labelled


def place(config, records, seed):
    """Place records of two classes."""
    y = np.arange(records, dtype=np.int32) % 2
    found = place_labelled(config, y, ("no", "yes"), {}, seed)
    return found.rows, found.counts


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 10**6))
def test_each_record_is_at_exactly_one_node(nodes, each, seed):
    rows, counts = place(NodesConfig(records=each), nodes * each, seed)
    assert counts.tolist() == [each] * nodes
    assert sorted(rows.tolist()) == list(range(nodes * each))


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 40), st.integers(0, 10**6))
def test_records_are_repeated_or_left_out_as_evenly_as_can_be(nodes, each, records, seed):
    wanted = nodes * each
    config = NodesConfig(number=nodes, records=each, repeat=wanted > records, leave_out=wanted < records)
    rows, counts = place(config, records, seed)
    assert rows.size == counts.sum() == wanted
    assert counts.tolist() == [each] * nodes
    times = np.bincount(rows, minlength=records)
    assert times.size == records
    assert set(times.tolist()) <= {wanted // records, -(-wanted // records)}


@pytest.mark.parametrize(
    ("keys", "records", "key", "hint"),
    [
        ({"records": 3}, 10, "nodes.records", "leave_out"),
        ({"number": 2, "records": 3}, 10, "nodes.number", "leave_out"),
        ({"number": 2, "records": 3, "repeat": True}, 10, "nodes.number", "leave_out"),
        ({"number": 4, "records": 3}, 10, "nodes.number", "repeat"),
        ({"number": 4, "records": 3, "leave_out": True}, 10, "nodes.number", "repeat"),
        ({"records": 11, "leave_out": True}, 10, "nodes.records", ""),
    ],
)
def test_records_that_do_not_fit_are_the_users_error(keys, records, key, hint):
    with pytest.raises(UserError) as caught:
        place(NodesConfig(**keys), records, 1)
    assert caught.value.key == key
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(("keys", "nodes"), [({"records": 3}, 4), ({"number": 7, "records": 3}, 7), ({}, 12)])
def test_the_number_of_nodes_follows_from_the_records_unless_given(keys, nodes):
    assert place(NodesConfig(**keys, repeat=True), 12, 1)[1].size == nodes


def test_placement_is_random_and_a_function_of_the_seed():
    one, same, other = (place(NodesConfig(), 30, seed)[0].tolist() for seed in (1, 1, 2))
    assert one == same != other
    first = [place(NodesConfig(), 6, seed)[0][0] for seed in range(1200)]
    assert p_of_chi_square(np.bincount(first, minlength=6)) > ALPHA


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 10**6))
def test_a_node_holds_the_records_of_the_users_node_with_its_label(counts, seed):
    rng = np.random.default_rng(seed)
    counts = np.array(counts)
    label = rng.permutation(len(counts)).astype(np.int32)
    rows = rng.permutation(counts.sum())
    starts = np.cumsum(counts) - counts
    moved = Placement(rows, counts, np.zeros(counts.size, np.int64)).renumbered(label)
    new, stop = moved.rows, np.cumsum(moved.counts)
    begin = 0
    for node, users in enumerate(label):
        assert new[begin : stop[node]].tolist() == rows[starts[users] : starts[users] + counts[users]].tolist()
        begin = stop[node]
    assert begin == counts.sum()


def test_a_runs_raw_layer_holds_the_training_records_as_placed():
    from golfsim.data import loading

    golf = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
    run = simulation(learning_tree({"name": "peers", "use": "uniform"}, golf))
    data = loading.load(run.scenario.data, run.seed, run.scenario.folder)
    rows, counts = place(run.scenario.nodes, len(data.x), run.seed)
    placed = np.split(rows, np.cumsum(counts)[:-1])
    raw = run.layer("learning").config.records.rows
    assert run.world.nodes == 40
    assert not raw.folded
    for node, users in enumerate(run.world.label):
        mine = slice(raw.first[node], raw.stop[node])
        assert (raw.x[mine] == data.x[placed[users]]).all()
        assert (raw.label[mine] == data.y[placed[users]]).all()
    assert raw.stop[-1] == len(data.x)
