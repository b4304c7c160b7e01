"""No record is used beyond its budget, whatever happens to nodes and messages."""

import math

import numpy as np
from helpers import simulation, tree
from hypothesis import given, settings
from hypothesis import strategies as st

PEERS = {"name": "peers", "use": "uniform"}
RING = {"name": "peers", "use": "static_overlay", "neighbours": 2}
EPSILON = 3.0

SCHEDULES = st.one_of(
    st.just({"kind": "halving"}),
    st.builds(lambda visits: {"kind": "uniform", "visits": visits}, st.integers(1, 7)),
)
WALKS = st.fixed_dictionaries(
    {
        "use": st.just("gradient_perturbation"),
        "walkers": st.integers(1, 6),
        "hops": st.sampled_from([1, 2, 5, "all"]),
        "path": st.sampled_from(["walk", "tour"]),
        "restart": st.sampled_from(["never", "afresh", "resend"]),
        "schedule": SCHEDULES,
    }
)
GOLFS = st.fixed_dictionaries(
    {
        "use": st.just("golf"),
        "variant": st.sampled_from(["algorithm1", "rw", "mu", "um"]),
        "cache": st.sampled_from([0, 2]),
        "schedule": SCHEDULES,
    }
)
CHURN = st.fixed_dictionaries(
    {
        "kind": st.just("rate"),
        "leave": st.sampled_from([0.0, 0.2, 0.6]),
        "rejoin": st.sampled_from([0.3, 1.0]),
        "return": st.sampled_from(["keep", "afresh"]),
    }
)
ARRIVAL = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"start": st.sampled_from([0.0, 0.5]), "rate": st.sampled_from([0.3, 1.0])},
        optional={"keep": st.integers(1, 2)},
    ),
)


def scenario(layer, peers, seed, records, churn, loss, order, arrival):
    base = {"name": "learning", "peers": "peers", "records": "raw", "epsilon": EPSILON, "learner": "pegasos"}
    nodes = {"records": records} | ({"arrival": arrival} if arrival else {})
    data = {"set": "random", "train": 24, "test": 6, "scale": ["minmax", "l1"]}
    return tree(
        peers, base | layer, seed=seed, cycles=9, order=order, data=data, nodes=nodes, churn=churn,
        transport={"loss": loss},
    )  # fmt: skip


@settings(max_examples=80)
@given(
    layer=st.one_of(WALKS, GOLFS),
    peers=st.sampled_from([PEERS, RING]),
    seed=st.integers(0, 1000),
    records=st.sampled_from([1, 2, 3]),
    churn=CHURN,
    loss=st.sampled_from([0.0, 0.3]),
    order=st.sampled_from(["fixed", "shuffled"]),
    arrival=ARRIVAL,
)
def test_no_record_is_used_beyond_its_budget(layer, peers, seed, records, churn, loss, order, arrival):
    """Exhausted records are made NaN: whoever still used one would show it for ever."""
    loss = 0.0 if layer.get("path") == "tour" else loss  # a tour knows no loss
    run = simulation(scenario(layer, peers, seed, records, churn, loss, order, arrival))
    learning, schedule = run.layer("learning"), layer["schedule"]
    ledger, before = learning.ledger, np.zeros(24, np.int32)
    for _ in run:
        assert (ledger.visits >= before).all()
        assert (ledger.spent() <= EPSILON).all()
        assert np.isfinite(learning.w).all()
        if run.world.online.any():
            assert run.latest["learning"]["spent.max"] == ledger.spent().max()
            assert run.latest["learning"]["spent.mean"] == ledger.spent().mean()
        if schedule["kind"] == "uniform":
            assert ledger.visits.max() <= schedule["visits"]
            run.raw._x[ledger.visits == schedule["visits"]] = np.nan
        if layer["use"] == "gradient_perturbation" and not arrival:
            assert learning.visits[0] == ledger.visits[::records].sum()
        before = ledger.visits.copy()


@settings(max_examples=40)
@given(
    mode=st.sampled_from(["per-class", "joint", "label+features", "as-coded"]),
    unit=st.sampled_from(["record", "node"]),
    seed=st.integers(0, 1000),
    churn=CHURN,
    arrival=ARRIVAL,
)
def test_a_published_record_is_never_looked_at_again(mode, unit, seed, churn, arrival):
    nodes = {"records": 3} | ({"arrival": arrival} if arrival else {})
    data = {"set": "random", "train": 24, "test": 6, "scale": ["minmax", "l1"]}
    published = {"name": "published", "use": "data_perturbation", "epsilon": EPSILON, "mode": mode, "unit": unit}
    golf = {"name": "learning", "use": "golf", "peers": "peers", "records": "published"}
    run = simulation(
        tree(PEERS, published, golf, seed=seed, cycles=9, data=data, nodes=nodes, churn=churn, transport={"loss": 0.3})
    )
    layer, before = run.layer("published"), np.zeros(24, np.int32)
    for _ in run:
        visits = layer.ledger.visits
        assert (visits >= before).all()
        assert visits.max(initial=0) <= 1
        assert (layer.ledger.spent() <= (math.inf if mode == "as-coded" else EPSILON)).all()
        assert np.isfinite(layer.z).all()
        assert np.isfinite(run.layer("learning").w).all()
        run.raw._x[visits == 1] = np.nan
        run.raw._label[visits == 1] = -1
        before = visits.copy()
