"""The audit with one run: canaries in a scenario of many nodes, for every private strategy, and broken ones.

An audit that should pass fails at most once in 1000 seeds (its confidence is 99.9 %); one that should fail was seen to
do so with a bound well above the stated ε.
"""

import json
import math

import numpy as np
import pytest
from entries import ANONML, GOLF, GROUPS, LOCAL, OUTPUT, PEERS
from helpers import HERE, learning_tree, make_raw, needs_jit, tree
from typer.testing import CliRunner

from golfsim.audit import guesses, one_run
from golfsim.cli.app import app
from golfsim.core.errors import UserError
from golfsim.privacy.ledger import Ledger
from golfsim.privacy.mechanisms import Laplace
from golfsim.privacy.noise import GAMMA_NORM, GAUSSIAN, LAPLACE
from golfsim.protocol.canaries import Canaries, Content, closer
from golfsim.scenario.model import Scenario
from protocols.anonml import questions
from protocols.data_perturbation import sampled
from protocols.group_aggregation.protocol import GroupAggregation
from protocols.regularised_erm import RegularisedErm

pytestmark = needs_jit

SURE = 0.999
NUMBER = 600
L1 = {"set": "random", "train": 2 * NUMBER, "test": 30, "scale": ["minmax", "l1"]}
L2 = L1 | {"scale": ["minmax", "l2"]}
PUBLISHED = {"use": "data_perturbation", "epsilon": 2.0}
WALK = GOLF | {"use": "gradient_perturbation", "epsilon": 2.0, "walkers": 200}
STRONG = {"lambda": 4.0}  # so strong that a record cannot make the model of its node classify it
FITTED = OUTPUT | STRONG


def strategy(layer, *below, data=L1, cycles=12, **tables):
    """A scenario of 600 nodes with two records each and one private layer, “subject”."""
    whole = learning_tree(*below, {"name": "subject"} | layer, data=data, cycles=cycles, **tables)
    return Scenario.of(whole | {"observe": {"every": cycles, "nodes": 5}}, HERE)


def found(scenario, **how):
    (finding,) = one_run.audit(scenario, canaries=NUMBER, confidence=SURE, **how).findings
    return finding


# A layer, those below it, data, and the share of ε that the coins of 300 canaries should show at least; 0: so few
# canaries see too little of it.
STRATEGIES = {
    "records of two classes": (PUBLISHED, (), L1, 0.3),
    "joint": (PUBLISHED | {"mode": "joint"}, (), L1, 0.3),
    "label and features": (PUBLISHED | {"mode": "label+features"}, (), L1, 0.1),
    "whole nodes": (PUBLISHED | {"unit": "node"}, (), L1, 0.1),
    "records with L2 noise": (PUBLISHED | {"norm": "l2"}, (), L2, 0.3),
    "records with Gaussian noise": (
        PUBLISHED | {"norm": "l2", "noise": "gaussian", "delta": 1e-5, "epsilon": 8.0}, (), L2, 0.1,
    ),
    "a sample": (PUBLISHED | {"mode": "sampled", "samples": 1, "channel": "response"}, (), L1, 0.4),
    "perturbed bits": (PUBLISHED | {"mode": "sampled", "samples": 1, "channel": "unary"}, (), L1, 0.4),
    "a walk": (WALK, (PEERS,), L1, 0.0),
    "golf": (GOLF | {"epsilon": 2.0}, (PEERS,), L1, 0.0),
    "golf of whole nodes": (GOLF | {"epsilon": 2.0, "unit": "node"}, (PEERS,), L1, 0.0),
    "output": (FITTED | {"epsilon": 2.0}, (), L2, 0.0),
    "objective": (FITTED | {"epsilon": 2.0, "noise": "objective"}, (), L2, 0.0),
    "nobody trusted": (GROUPS | {"epsilon": 2.0}, (LOCAL | STRONG,), L2, 0.0),
    "the curator's noise": (GROUPS | {"epsilon": 2.0, "trust": "curator"}, (LOCAL | STRONG,), L2, 0.0),
    "shares of the honest": (GROUPS | {"epsilon": 2.0, "trust": "honest", "honest": 2}, (LOCAL | STRONG,), L2, 0.0),
    "histograms": (ANONML | {"epsilon": 2.0}, (PEERS,), L1, 0.0),
}  # fmt: skip


def scenario_of(name):
    layer, below, data, _ = STRATEGIES[name]
    return strategy(layer, *below, data=data)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_is_seen_to_spend_something_and_not_more_than_it_states(name):
    layer, _, _, share = STRATEGIES[name]
    finding = found(scenario_of(name))
    assert finding.made > 0
    assert finding.unit == layer.get("unit", "record")
    assert finding.stated == pytest.approx(layer["epsilon"])
    assert finding.stated * share <= finding.bound <= finding.stated


# Broken on purpose


def assert_found_out(name, **changes):
    layer, below, data, _ = STRATEGIES[name]
    finding = found(strategy(layer | changes, *below, data=data))
    assert finding.broken, finding


def test_a_quarter_of_the_noise_on_records_is_found_out(monkeypatch):
    scale = Laplace.scale.fget
    monkeypatch.setattr(Laplace, "scale", property(lambda self: scale(self) / 4))
    assert_found_out("records of two classes")


def test_a_channel_with_four_times_its_epsilon_is_found_out(monkeypatch):
    right = sampled.report
    monkeypatch.setattr(sampled, "report", lambda kind, epsilon, values: right(kind, 4 * epsilon, values))
    assert_found_out("a sample")


@pytest.mark.parametrize("name", ["golf", "a walk"])
def test_a_ledger_with_ten_times_the_budget_is_found_out(name, monkeypatch):
    plain = Ledger.budget.fget
    monkeypatch.setattr(Ledger, "budget", property(lambda self: plain(self)._replace(epsilon=10 * self._epsilon)))
    assert_found_out(name)


def test_output_noise_divided_by_ten_is_found_out(monkeypatch):
    plain = RegularisedErm._sensitivity
    monkeypatch.setattr(RegularisedErm, "_sensitivity", lambda self, n, lam: plain(self, n, lam) / 10)
    assert_found_out("output")


@pytest.mark.parametrize("name", ["nobody trusted", "the curator's noise", "shares of the honest"])
def test_noise_of_groups_divided_by_eighty_is_found_out(name, monkeypatch):
    """Only for a small ε: several canaries in a mean hide each other, also without any noise."""
    plain = GroupAggregation._scale
    monkeypatch.setattr(GroupAggregation, "_scale", lambda self, moves: plain(self, moves) / 80)
    assert_found_out(name, epsilon=0.5)


def test_ten_times_the_budget_for_each_answer_is_found_out(monkeypatch):
    plain = questions.Costs.split
    whole = staticmethod(lambda epsilon, *rest: plain(epsilon * 10, *rest))
    monkeypatch.setattr(questions.Costs, "split", whole)
    finding = found(scenario_of("histograms"))
    assert finding.bound > 2.0


# Canaries


def canaries(rows, first, stop):
    one, other = Content(np.array([1, 0], np.float32), 1), Content(np.array([0, 1], np.float32), 0)
    return Canaries(np.arange(len(first), dtype=np.int32), np.array(first), np.array(stop), one, other)


def test_a_canary_replaces_its_records_and_no_others():
    raw = make_raw([(np.full((3, 2), 0.5), [1, 1, 0]), (np.full((1, 2), 0.5), [1])], 2)
    planted = canaries(raw.rows, [1, 3], [3, 4])
    planted.plant(raw.rows, np.array([True, False]))
    assert raw.rows.x.tolist() == [[0.5, 0.5], [1, 0], [1, 0], [0, 1]]
    assert raw.rows.label.tolist() == [1, 1, 1, 0]
    inside, outside = planted.candidates(raw.rows)
    assert inside.x.tolist() == [[0.5, 0.5], [1, 0], [1, 0], [1, 0]]
    assert outside.label.tolist() == [1, 0, 0, 0]
    assert raw.rows.label.tolist() == [1, 1, 1, 0]
    assert planted.records.tolist() == [1, 2, 3]
    assert planted.mean(np.array([[1.0], [2.0], [5.0]])).tolist() == [[1.5], [5.0]]


@pytest.mark.parametrize(("unit", "sizes"), [("record", {1}), ("node", {2})])
def test_a_canary_is_one_unit_of_the_guarantee_and_observers_have_none(unit, sizes):
    raw = make_raw([(np.zeros((2, 2)), [0, 1])] * 60, 2)
    one = Content(np.zeros(2, np.float32), 1)
    placed = one_run.place(raw, 1, unit, 45, (one, one), 10)
    assert set(placed.stop - placed.first) == sizes
    assert (placed.first == 2 * placed.node).all()
    assert placed.node.size == len(set(placed.node)) == 45
    assert not set(placed.node) & set(placed.observers)


@pytest.mark.parametrize("kind", [LAPLACE, GAMMA_NORM, GAUSSIAN])
def test_the_evidence_is_the_log_likelihood_ratio_up_to_a_factor(kind, rng):
    z, a, b = rng.normal(size=(3, 5, 2, 3))
    length = {
        LAPLACE: lambda v: np.abs(v).sum(),
        GAMMA_NORM: lambda v: sum(math.sqrt((part**2).sum()) for part in v),
        GAUSSIAN: lambda v: (v**2).sum(),
    }[kind]
    expected = [length(z[c] - b[c]) - length(z[c] - a[c]) for c in range(5)]
    assert closer(z, a, b, kind) == pytest.approx(expected)


# Views

FAR = {"transport": {"loss": 0.2, "delay": [1, 3]}}


@pytest.mark.parametrize(("name", "factor"), [("golf", 1000), ("a walk", 10)])
def test_a_node_sees_less_than_colluders_and_they_see_less_than_everybody(name, factor, monkeypatch):
    """With too little noise: everybody sees all visits, 300 colluders some of them, and one node next to nothing."""
    plain = Ledger.budget.fget
    monkeypatch.setattr(Ledger, "budget", property(lambda self: plain(self)._replace(epsilon=factor * self._epsilon)))
    layer, below, data, _ = STRATEGIES[name]
    scenario = strategy(layer, *below, data=data, cycles=20)
    views = ["node", "300 colluders", "everybody"]
    one, some, all_ = (
        one_run.audit(scenario, canaries=300, confidence=SURE, view=view).findings[0].bound for view in views
    )
    assert one <= some < all_
    assert one < 0.5 < all_


def test_a_run_with_losses_delays_and_churn_is_audited_as_it_is():
    churn = [{"kind": "lognormal", "online": 0.8, "mu": 1.5, "sigma": 0.5}]
    finding = found(strategy(GOLF | {"epsilon": 2.0}, PEERS, **FAR, churn=churn))
    assert finding.made > 0
    assert finding.bound <= 2.0


def test_records_that_are_public_have_no_view_of_a_node():
    with pytest.raises(UserError, match="all nodes see everything that “subject” releases"):
        found(scenario_of("records of two classes"), view="node")


@pytest.mark.parametrize("view", ["nobody", "0 colluders", "colluders", "-3 colluders"])
def test_an_unknown_view_is_reported(view):
    with pytest.raises(UserError, match="expected “everybody”"):
        one_run.View.of(view)


# The command


@pytest.fixture
def told(tmp_path):
    """Run the command on a scenario; its exit code and what it says."""

    def run(tables, *options):
        file = tmp_path / "scenario.toml"
        file.write_text(Scenario.of(tables, HERE).dump(), encoding="utf-8")
        result = CliRunner().invoke(app, ["audit", str(file), "--one-run", *options])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    return run


def test_the_command_shows_the_stated_epsilon_and_the_lower_bound(told):
    code, output = told(learning_tree({"name": "subject"} | PUBLISHED, data=L1))
    assert code == 0
    assert "everybody" in output
    assert "no lower bound exceeds the stated ε" in output


def test_the_command_prints_json_and_ends_with_1_if_a_guarantee_is_broken(told, monkeypatch):
    monkeypatch.setattr(Laplace, "scale", 1e-6)
    code, output = told(learning_tree({"name": "subject"} | PUBLISHED, data=L1), "--json", "--canaries", "200")
    audit = json.loads(output)
    assert code == 1
    (finding,) = audit["findings"]
    assert finding["broken"]
    assert finding["canaries"] == 200
    assert finding["bound"] <= audit["ceiling"] == guesses.ceiling(200, 0.05)


def test_layers_that_use_the_same_records_are_audited_together():
    layers = [{"name": name} | PUBLISHED for name in ("one", "other")]
    scenario = Scenario.of(learning_tree(*layers, data=L1), HERE)
    findings = one_run.audit(scenario, canaries=NUMBER).findings
    assert [(f.layer, f.stated) for f in findings] == [("one", 2.0), ("other", 2.0), ("together", 4.0)]


def test_options_of_the_audit_with_one_run_need_it(tmp_path):
    file = tmp_path / "scenario.toml"
    file.write_text(Scenario.of(tree(PEERS), HERE).dump(), encoding="utf-8")
    with pytest.raises(UserError, match="belong to the audit with one run"):
        raise CliRunner().invoke(app, ["audit", str(file), "--view", "node"]).exception


def test_too_few_nodes_are_reported(told):
    with pytest.raises(UserError, match="at least 40 nodes with records"):
        told(learning_tree({"name": "subject"} | PUBLISHED, data=L1 | {"train": 40}))


def test_a_scenario_without_private_layers_has_nothing_to_audit(told):
    assert "nothing to audit" in told(tree(PEERS))[1]
