"""Walks whose tokens take time."""

import pytest
from helpers import simulation, tree
from hypothesis import given, settings
from hypothesis import strategies as st

from golfsim.core.errors import UserError

DATA = {"set": "random", "train": 40, "test": 10, "scale": ["minmax", "l1"]}
WALK = {"name": "walk", "use": "random_walk", "peers": "peers", "records": "raw", "walkers": 9}
VIEWS = {"name": "peers", "use": "newscast", "view": 4}
CHURN = {"kind": "rate", "leave": 0.1, "rejoin": 0.3}
CUT = [{"share": 0.4, "from": 3, "until": 9}]


def walk(transport, layer=WALK, cycles=15, **tables):
    return simulation(tree(VIEWS, layer, data=DATA, nodes={}, cycles=cycles, transport=transport, **tables))


@settings(max_examples=30)
@given(
    delay=st.sampled_from([1, 3, [1, 4]]),
    loss=st.sampled_from([0.0, 0.3]),
    cut=st.sampled_from([[], CUT]),
    restart=st.sampled_from(["never", "afresh", "resend"]),
    seed=st.integers(0, 10**6),
)
def test_every_token_is_held_under_way_or_gone_and_every_delivery_is_a_visit(delay, loss, cut, restart, seed):
    run = walk({"delay": delay, "loss": loss, "partition": cut}, WALK | {"restart": restart}, churn=CHURN, seed=seed)
    layer = run.layer("walk")
    for _ in run:
        totals = run.world.transport.totals("walk")
        assert not ((layer.at >= 0) & (layer.to >= 0)).any()
        assert totals["messages.under_way"] == (layer.to >= 0).sum()
        assert totals["messages.delivered"] == layer.visits.sum()
        if restart == "resend":
            assert layer.holders(run.world).tolist() == list(range(9)) or not run.world.seen.any()


def test_a_token_arrives_after_its_delay_and_not_before():
    run = walk({"delay": 3}, cycles=10)
    made = []
    for _ in run:
        made.append(int(run.layer("walk").visits[0]))
    # Sent in cycle 1, it arrives in 4, goes on at once, and arrives again in 7 and 10.
    assert made == [0, 0, 0, 9, 9, 9, 18, 18, 18, 27]


def test_a_token_goes_to_somebody_its_holder_knows():
    run = walk({"delay": 1})
    layer, seen = run.layer("walk"), 0
    for _ in run:
        links = run.layer("peers").links(run.world).toarray()
        under_way = layer.to >= 0
        assert links[layer.held[under_way], layer.to[under_way]].all()
        seen += int(under_way.sum())
    assert seen > 100


def test_no_slow_token_crosses_a_cut():
    run = walk({"delay": 1, "partition": [{"share": 0.5, "from": 1, "until": 15}]}, WALK | {"restart": "resend"})
    layer, crossed = run.layer("walk"), 0
    for _ in run:
        side = run.world.transport.side()
        under_way = layer.to >= 0
        crossed += int((side[layer.held[under_way]] != side[layer.to[under_way]]).sum())
    assert crossed == 0
    assert run.world.transport.totals("walk")["messages.lost"] > 0


def test_a_token_with_a_delay_visits_one_node_per_cycle():
    with pytest.raises(UserError, match="one node per cycle") as error:
        walk({"delay": 2}, WALK | {"hops": 5})
    assert error.value.key == "walk.hops"
