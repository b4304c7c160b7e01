"""One contract for every protocol, ours and a user's. A new protocol joins with an entry in `ENTRIES`."""

from dataclasses import dataclass, replace
from typing import get_origin

import naive
import numpy as np
import pytest
from helpers import AVERAGING, HERE, assert_same_state, finished, learning_tree, needs_jit, rows, simulation, tree

from golfsim.core import threads
from golfsim.protocol.base import find, installed
from golfsim.protocol.overlay import Overlay
from golfsim.protocol.records import Records
from golfsim.runs import batch
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint


@dataclass(frozen=True)
class Entry:
    """The smallest table that runs a protocol, the layers it builds on, and whether it needs data."""

    layer: dict
    below: tuple = ()
    data: bool = False
    once: bool = False  # it acts the first time only, as long as nobody comes

    @property
    def protocol(self):
        return find(self.layer["use"], HERE)


PEERS = {"name": "peers", "use": "uniform"}
VIEWS = {"name": "peers", "use": "newscast", "view": 5}
GOLF = {"use": "golf", "peers": "peers", "records": "raw"}
OUTPUT = {"use": "regularised_erm", "lambda": 0.01, "noise": "output", "epsilon": 5.0}
ANONML = {"use": "anonml", "peers": "peers", "epsilon": 5.0, "partitions": 2, "groups": 3}
CIRCUITS = {
    "cuts": "exact", "relays": 2, "window": 20, "stagger": 2, "staggering": "delay", "deadline": 3, "colluding": 0.3,
    "repeats": 0.2, "outsiders": 0.2, "forgeries": 0.2,
}  # fmt: skip
LOCAL = {"name": "local", "use": "regularised_erm", "lambda": 0.1}
GROUPS = {"use": "group_aggregation", "local": "local", "group": 4, "epsilon": 5.0}
OVER_VIEWS = {"peers": "peers", "formation": "overlay"}

ENTRIES = {
    "uniform": Entry({"use": "uniform"}),
    "static_overlay": Entry({"use": "static_overlay", "neighbours": 4}),
    "newscast": Entry({"use": "newscast", "view": 6}),
    "golf": Entry(GOLF, (PEERS,), data=True),
    "golf, everything remembered": Entry(GOLF | {"variant": "mu", "cache": 3}, (PEERS,), data=True),
    "golf over newscast": Entry(GOLF, (VIEWS,), data=True),
    "golf with noisy gradients": Entry(GOLF | {"epsilon": 5.0}, (PEERS,), data=True),
    "random_walk": Entry(GOLF | {"use": "random_walk"}, (PEERS,), data=True),
    "gradient_perturbation": Entry(GOLF | {"use": "gradient_perturbation", "epsilon": 5.0}, (PEERS,), data=True),
    "data_perturbation": Entry({"use": "data_perturbation", "epsilon": 5.0}, data=True, once=True),
    "regularised_erm": Entry({"use": "regularised_erm", "lambda": 0.01}, data=True, once=True),
    "regularised_erm with noise": Entry(OUTPUT, data=True, once=True),
    "regularised_erm, perturbed objective": Entry(OUTPUT | {"noise": "objective"}, data=True, once=True),
    "anonml": Entry(ANONML | {"window": 20, "deadline": 1}, (PEERS,), data=True),
    "anonml through circuits": Entry(ANONML | CIRCUITS, (VIEWS,), data=True),
    "group_aggregation": Entry(GROUPS, (LOCAL,), data=True),
    "group_aggregation, sums in the clear": Entry(GROUPS | {"sum": "plain", "quorum": 2}, (LOCAL,), data=True),
    "group_aggregation over newscast": Entry(GROUPS | OVER_VIEWS, (VIEWS, LOCAL), data=True),
    "group_aggregation, sums in the clear over newscast": Entry(
        GROUPS | OVER_VIEWS | {"sum": "plain"}, (VIEWS, LOCAL), data=True
    ),
    "group_aggregation by gossip": Entry(
        GROUPS | OVER_VIEWS | {"publish": "gossip", "quorum": 2, "cap": 2}, (VIEWS, LOCAL), data=True
    ),
    "a user's own": Entry({key: AVERAGING[key] for key in ("use", "peers")}, (PEERS,)),
}
DATA = {"set": "random", "test": 30, "scale": ["minmax", "l1"]}  # private layers need records of length 1
NODES = 61  # a number that no other dimension of a state has
CHURN = {"kind": "rate", "leave": 0.2, "rejoin": 0.3}
FAULTS = {"loss": {"loss": 0.3}, "delay": {"delay": [1, 4]}}


def probe(protocol):
    """A layer that shows in the log what a layer without metrics of its own does."""
    if issubclass(protocol, Overlay):
        return [AVERAGING | {"name": "probe", "peers": "subject"}]
    if issubclass(protocol, Records):
        return [GOLF | {"name": "probe", "records": "subject"}]
    return []


def scenario(entry, *, probed=True, number=NODES, **tables):
    """The entry's protocol as the layer “subject”, among all that it needs."""
    above = probe(entry.protocol) if probed else []
    below = list(entry.below)
    if probed and issubclass(entry.protocol, Records) and not any(layer["name"] == "peers" for layer in below):
        below.append(PEERS)
    layers = [*below, {"name": "subject"} | entry.layer, *above]
    if entry.data:
        return learning_tree(*layers, number=number, data=DATA | {"train": 2 * number}, **tables)
    return tree(*layers, nodes=number, **tables)


def accepted(entry, faults=("loss", "delay"), probed=True):
    """The transport with those of the faults that all layers accept."""
    layers = [*entry.below, entry.layer, *(probe(entry.protocol) if probed else [])]
    common = frozenset.intersection(*(find(layer["use"], HERE).accepts for layer in layers))
    return {key: value for fault in faults if fault in common for key, value in FAULTS[fault].items()}


@pytest.fixture(params=ENTRIES.values(), ids=list(ENTRIES))
def entry(request):
    return request.param


def test_every_installed_protocol_has_an_entry():
    assert set(installed()) <= {entry.layer["use"] for entry in ENTRIES.values()}


def test_the_same_seed_gives_the_same_rows_and_state(entry):
    one, other = (finished(scenario(entry, churn=CHURN, transport=accepted(entry))) for _ in range(2))
    assert len(rows(one)) > 6
    assert rows(one) == rows(other)
    assert_same_state(one, other)


def test_another_seed_gives_other_rows(entry):
    one, other = (finished(scenario(entry, seed=seed)) for seed in (1, 2))
    assert one.log.names == other.log.names
    assert one.log.values != other.log.values


@pytest.mark.parametrize("faults", [(), ("loss",), ("loss", "delay")], ids=["no faults", "loss", "loss and delay"])
def test_one_two_and_four_threads_give_the_same_bits(entry, faults, monkeypatch):
    monkeypatch.setattr(threads, "SMALLEST_SHARE", 4)  # so that small networks are shared out, too
    transport = accepted(entry, faults, probed=False)
    table = scenario(entry, probed=False, number=301, cycles=5, churn=CHURN, transport=transport)
    one, two, four = (finished(table, threads=threads) for threads in (1, 2, 4))
    assert rows(one) == rows(two) == rows(four)
    assert_same_state(one, two)
    assert_same_state(one, four)


@needs_jit
def test_one_and_two_workers_give_the_same_log_of_every_protocol(tmp_path):
    cases = [{"label": name, "protocol": scenario(entry)["protocol"]} for name, entry in ENTRIES.items()]
    many = Scenario.of(scenario(ENTRIES["golf"], number=31, cycles=4, case=cases), HERE)
    logs = [{}, {}]
    for workers, log in enumerate(logs, start=1):
        batch.run(many, tmp_path / str(workers), batch.Execution(workers=workers, threads=1))
        folder = tmp_path / str(workers)
        log |= {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("log.parquet")}
    assert len(logs[0]) == len(ENTRIES)
    assert logs[0] == logs[1]


def per_node(layer):
    """The arrays of a layer's state that have a row for each node."""
    return {name: array for name, array in layer.state().items() if array.ndim and len(array) == NODES}


@pytest.mark.parametrize("order", ["fixed", "shuffled"])
def test_nothing_happens_to_a_node_while_it_is_offline_and_nothing_becomes_nan(entry, order):
    transport = accepted(entry, probed=False)
    run = simulation(scenario(entry, probed=False, cycles=15, churn=CHURN, transport=transport, order=order))
    layer, away = run.layer("subject"), 0
    while not run.finished:
        before = {name: array.copy() for name, array in per_node(layer).items()}
        run.step()
        offline, known = ~run.world.online, run.world.seen
        away += offline.sum()
        for name, array in per_node(layer).items():
            assert array[offline].tobytes() == before[name][offline].tobytes(), name
            assert array.dtype.kind != "f" or np.isfinite(array[known]).all(), name
    assert away > NODES
    assert np.isfinite(run.log.values).all()


@pytest.mark.parametrize("left", [0, 1])
def test_it_goes_on_when_nobody_or_only_one_is_left(entry, left):
    crash = {"kind": "crash", "at": 3, "number": NODES - left}
    run = finished(scenario(entry, churn=crash, transport=accepted(entry)))
    assert run.world.cycle == 6
    assert run.world.online.sum() == left
    assert set(run.log.cycles) == ({1, 2, 3, 4, 5, 6} if left else {1, 2})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_survived_or_refused_with_a_message(entry, fault):
    table = scenario(entry, probed=False, cycles=12, transport=FAULTS[fault])
    refusing = [
        layer["name"]
        for layer in [*entry.below, {"name": "subject"} | entry.layer]
        if fault not in find(layer["use"], HERE).accepts
    ]
    if refusing:
        who = "|".join(refusing)
        with pytest.raises(ScenarioError, match=rf"transport\.{fault}: “({who})” .* does not support {fault}"):
            simulation(table)
        return
    totals = finished(table).world.transport.totals("subject")
    parts = [totals[f"messages.{what}"] for what in ("delivered", "lost", "under_way")]
    assert min(parts) >= 0
    assert sum(parts) == totals["messages.sent"]
    if totals["messages.sent"]:
        assert totals["messages.delivered"] > 0
        assert totals["messages.lost" if fault == "loss" else "messages.under_way"] > 0


@pytest.mark.parametrize("at", [1, 4])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_resumed_run_ends_as_an_uninterrupted_one(entry, at, threads, tmp_path):
    table = scenario(entry, churn=CHURN, transport=accepted(entry), order="shuffled")
    half = simulation(table)
    for _ in range(at):
        half.step()
    checkpoint.save(half, tmp_path / "state")
    resumed = simulation(table, threads=threads)
    checkpoint.load(resumed, tmp_path / "state")
    assert list(resumed) == list(range(at + 1, 7))
    whole = finished(table)
    assert rows(resumed) == rows(whole)
    assert_same_state(resumed, whole)


def test_a_layer_rests_outside_its_schedule(entry):
    layer = entry.layer | {"first": 3, "until": 7, "every": 2}
    run = simulation(scenario(replace(entry, layer=layer), probed=False, cycles=10))
    changed = []
    run.step()
    while not run.finished:
        before = {name: array.tobytes() for name, array in run.layer("subject").state().items()}
        sent = run.world.transport.totals("subject")["messages.sent"]
        run.step()
        after = {name: array.tobytes() for name, array in run.layer("subject").state().items()}
        if after != before or run.world.transport.totals("subject")["messages.sent"] != sent:
            changed.append(run.world.cycle)
    turns = [3] if entry.once else [3, 5, 7]
    assert changed == (turns if run.layer("subject").state() else [])


@pytest.mark.parametrize(("every", "delay"), [(2, 1), (3, 1), (4, 2), (5, 3)])
def test_a_layer_that_rests_gets_its_mail_when_it_acts_again(entry, every, delay):
    if not accepted(entry, ("delay",), probed=False):
        pytest.skip("accepts no delay")
    rests = replace(entry, layer=entry.layer | {"every": every})
    table = scenario(rests, probed=False, cycles=1 + every, transport={"delay": delay})  # two turns
    run = simulation(table)
    run.step()
    first_turn = run.world.transport.totals("subject")["messages.sent"]
    while not run.finished:
        run.step()
    assert run.world.transport.totals("subject")["messages.delivered"] == first_turn


def test_another_layer_changes_no_numbers(entry):
    alone = finished(scenario(entry, churn=CHURN, transport=accepted(entry, ("loss",))))
    table = scenario(entry, churn=CHURN, transport=accepted(entry, ("loss",)))
    table["protocol"] = [
        {"name": "bystander", "use": "newscast", "view": 3},
        *table["protocol"],
        AVERAGING | {"name": "onlooker", "peers": "bystander"},
    ]
    crowded = finished(table)
    kept = [row for row in rows(crowded) if row[1][0] not in ("bystander", "onlooker")]
    assert kept == rows(alone)


def test_its_draws_are_those_of_its_seed_name_and_purpose(entry):
    run = simulation(scenario(entry, seed=5), run=3)
    for name, layer in run.layers.items():
        assert int(layer.key("some purpose")) == naive.key(7, name, "some purpose")


def test_its_public_state_is_legal(entry):
    run = simulation(scenario(entry))
    run.step()
    for layer in run.layers.values():
        for name, array in layer.state().items():
            assert isinstance(array, np.ndarray), name
            assert array.dtype.kind in "biuf", name


def complaint(entry, change):
    """The messages about a scenario in which the subject's table has been changed."""
    table = scenario(entry, probed=False)
    change(next(layer for layer in table["protocol"] if layer["name"] == "subject"))
    with pytest.raises(ScenarioError) as caught:
        Scenario.of(table, HERE)
    return caught.value.messages


def keys_of(entry):
    return {field.alias or name: field for name, field in entry.protocol.Config.model_fields.items()}


def test_an_unknown_key_is_refused_by_name_and_the_nearest_one_is_named(entry):
    messages = complaint(entry, lambda layer: layer.update(evry=2))
    assert len(messages) == 1
    assert "subject.evry: unknown key" in messages[0]
    assert "every" in messages[0]


def test_a_value_of_a_wrong_type_is_refused_with_its_key(entry):
    for key, field in keys_of(entry).items():
        if key not in ("name", "use"):
            a_table = get_origin(field.annotation) is dict or field.discriminator
            wrong = 3 if a_table else {"not": "this"}
            messages = complaint(entry, lambda layer, key=key, wrong=wrong: layer.update({key: wrong}))
            assert len(messages) == 1, messages
            assert f"subject.{key}: expected" in messages[0]


@pytest.mark.parametrize("value", ["2", 2.0, True])
def test_a_value_is_not_converted(entry, value):
    messages = complaint(entry, lambda layer: layer.update(every=value))
    assert len(messages) == 1
    assert "subject.every: expected an integer" in messages[0]


def test_a_missing_required_key_is_named(entry):
    required = {key for key, field in keys_of(entry).items() if field.is_required()} - {"name", "use"}
    assert required <= set(entry.layer)
    for key in required:
        messages = complaint(entry, lambda layer, key=key: layer.pop(key))
        assert len(messages) == 1
        assert f"subject.{key}: missing" in messages[0]


def test_every_key_but_those_of_the_entry_has_a_default(entry):
    Scenario.of(scenario(entry, probed=False), HERE)
    config = simulation(scenario(entry, probed=False)).layer("subject").config
    assert {"name", "use"} <= config.model_fields_set <= {"name", *entry.layer, "lam"}


def test_push_pull_averaging_is_that_of_the_reference():
    table = scenario(ENTRIES["a user's own"], transport={"loss": 0.2})
    run = simulation(table)
    run.step()
    for cycle in range(2, 7):
        before = run.layer("subject").value.copy()
        run.step()
        peers = run.layer("peers").choose(run.world, run.world.order, run.layer("subject").key("peer"))
        key = naive.key(1, "subject", "transport.exchange")
        arrives = [naive.uniform(naive.draw(key, cycle, i, 0)) >= 0.2 for i in run.world.order]
        assert run.layer("subject").value.tolist() == naive.push_pull(before, run.world.order, peers, arrives)
    assert run.log.values[-1] < run.log.values[0] / 10
