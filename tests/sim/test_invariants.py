"""What must hold after each cycle: seen to hold for every protocol, and seen to fail for a broken one. Sane numbers."""

import numpy as np
import pytest
from entries import ENTRIES, accepted, scenario
from helpers import HERE, finished, learning_tree, simulation, tree

from golfsim.core.errors import UserError
from golfsim.runs import batch
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.sim.invariants import Violation
from golfsim.testing import CHURN, rows

NODES = 9
BROKEN = {"name": "mine", "use": "user_protocols/broken.py:Broken", "at": 3, "node": 4}
DELAY = {"delay": 2}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))
def test_everything_holds_for_every_protocol_and_watching_changes_no_number(entry):
    table = scenario(entry, cycles=6, churn=CHURN, transport=accepted(entry))
    assert rows(finished(table, paranoid=True)) == rows(finished(table))


def broken(fault, **tables):
    tables = {"transport": DELAY, "cycles": 5} | tables
    return simulation(tree(BROKEN | {"fault": fault}, nodes=NODES, **tables), paranoid=True)


def test_a_protocol_without_a_fault_passes():
    assert [cycle for cycle in broken("none")] == [1, 2, 3, 4, 5]


FAULTS = {
    "know_itself": "views: node 4, cycle 3: the view contains the node itself",
    "know_twice": r"views: node 4, cycle 3: the view contains node \d twice",
    "refund": "ledger: node 4, cycle 3: “ledger” . has spent less than in the cycle before",
    "overspend": "ledger: node 4, cycle 3: “ledger” . was used more than 2 times",
    "overflow": r"models finite: node 4, cycle 3: “w” is inf at index 1: overflow beyond ±3.4e\+38",
    "forget_a_letter": "messages conserved: all nodes, cycle 3: 28 sent, 9 delivered, 0 lost: expected 19 in",
    "count_backwards": "messages conserved: all nodes, cycle 3: a counter of messages has decreased",
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.items(), ids=list(FAULTS))
def test_what_does_not_hold_is_named_with_layer_node_and_cycle(fault, message):
    run = broken(fault)
    with pytest.raises(Violation, match=f"mine: {message}"):
        list(run)
    assert run.world.cycle == 3


def test_a_node_that_is_touched_while_it_is_offline_is_named():
    run = broken("touch", churn={"kind": "crash", "at": 2, "number": NODES - 1})
    with pytest.raises(
        Violation, match="mine: offline nodes untouched: node 4, cycle 3: “value” of an offline node has"
    ):
        list(run)


def test_unwatched_only_models_that_are_not_finite_end_a_run():
    for fault in FAULTS:
        table = tree(BROKEN | {"fault": fault}, nodes=NODES, transport=DELAY, cycles=5)
        if fault == "overflow":
            with pytest.raises(Violation, match="models finite: node 4, cycle 3"):
                finished(table)
        else:
            finished(table)


def test_a_violation_fails_the_run_and_names_the_file_and_line(tmp_path):
    import tomlkit

    (tmp_path / "broken.py").write_text((HERE / "user_protocols/broken.py").read_text())
    layer = BROKEN | {"fault": "refund", "use": "broken.py:Broken"}
    file = tmp_path / "s.toml"
    file.write_text(tomlkit.dumps(tree(layer, nodes=NODES, transport=DELAY, runs=2)))
    made = batch.run(Scenario.load(file), tmp_path / "r", batch.Execution(workers=2, paranoid=True))
    assert len(made.failures) == 2
    assert f"{file}:9: mine: ledger: node 4, cycle 3" in made.complaint()
    assert not batch.run(Scenario.load(file), tmp_path / "r", batch.Execution()).failures


# Numbers that overflow

GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
PEERS = {"name": "peers", "use": "uniform"}


def huge(folder, size, **golf):
    """Nodes that learn from records as large as that, without scaling."""
    x = np.array([[size, 1.0], [-size, 2.0], [size, 3.0], [-size, 1.0]] * 10, np.float64)
    np.savez(folder / "d.npz", x=x, y=np.arange(40) % 2)
    data = {"file": "d.npz", "test": 4}
    return learning_tree(PEERS, GOLF | golf, data=data, nodes={"records": 1}, cycles=3)


@pytest.mark.needs_jit  # in plain Python the tests' own strictness is faster
@pytest.mark.parametrize("use", ["golf", "random_walk"])
def test_a_step_of_one_over_lambda_that_runs_over_is_named(tmp_path, use):
    table = huge(tmp_path, 1e30, **{"lambda": 1e-12, "use": use})
    run = Scenario.of(table, tmp_path)
    with pytest.raises(ScenarioError, match=r"learning: models finite: .*, cycle 1: “w” is .*\n    scale the features"):
        batch.run(run, tmp_path / "r", batch.Execution())


@pytest.mark.needs_jit  # in plain Python the tests' own strictness is faster
def test_scores_that_run_over_although_models_are_finite_are_named(tmp_path):
    from golfsim.sim.simulation import Simulation

    run = Simulation(Scenario.of(huge(tmp_path, 1e30, **{"lambda": 1e-4}), tmp_path))
    with pytest.raises(UserError, match="learning: the scores of its models overflow"):
        list(run)


@pytest.mark.parametrize("lam", [1e-12, 1e-4, 1e3])
@pytest.mark.parametrize("learner", ["pegasos", "logistic", "mean"])
def test_small_lambdas_alone_stay_finite(lam, learner):
    run = finished(learning_tree(PEERS, GOLF | {"lambda": lam, "learner": learner}, cycles=5), paranoid=True)
    assert np.isfinite(run.log.values).all()


def test_records_too_long_to_be_measured_are_refused_by_private_layers(tmp_path):
    table = huge(tmp_path, 1e30) | {"protocol": [{"name": "published", "use": "data_perturbation", "epsilon": 1.0}]}
    for norm, length in (("l1", r"1e\+30"), ("l2", "inf")):
        table["protocol"][0]["norm"] = norm
        with pytest.raises(ScenarioError, match=rf"the longest record has {norm.upper()} length {length}"):
            batch.run(Scenario.of(table, tmp_path), tmp_path / "r", batch.Execution())
