"""The audit of whole strategies: what is right passes, and what is broken on purpose is found out.

An audit that should pass fails at most once in 1000 seeds (its confidence is 99.9 %); one that should fail was seen to
do so with a bound well above the stated ε.
"""

import json
import math

import numpy as np
import pytest
from entries import ANONML, ENTRIES, GOLF, GOSSIPED, GRAPH, GROUPS, LOCAL, OUTPUT, PEERS
from entries import scenario as contract_scenario
from helpers import HERE, learning_tree, needs_jit, tree
from typer.testing import CliRunner

from golfsim.audit import auditing, bounds, neighbours, network, scores
from golfsim.audit.network import Network
from golfsim.cli.app import app
from golfsim.core.errors import UserError
from golfsim.privacy.ledger import Ledger
from golfsim.privacy.mechanisms import GammaNorm, Gaussian, Laplace, RandomResponse
from golfsim.privacy.noise import GAMMA_NORM, GAUSSIAN, LAPLACE
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import points
from golfsim.testing import DATA
from protocols import regularised_erm
from protocols.anonml import histograms, questions
from protocols.anonml.histograms import Reports, perturbation
from protocols.data_perturbation import protocol as data_perturbation
from protocols.data_perturbation import sampled
from protocols.group_aggregation.protocol import GroupAggregation
from protocols.regularised_erm import RegularisedErm

pytestmark = needs_jit

SURE = 0.999
ERROR = (1 - SURE) / 2
L2 = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l2"]}
SEGMENTS = {"set": "segmentation", "scale": ["minmax", "l1"]}  # of seven classes
PUBLISHED = {"use": "data_perturbation", "epsilon": 2.0}
NORMAL = {"noise": "gaussian", "delta": 0.05, "norm": "l2"}  # events that a small δ allows are too rare to be counted


def strategy(layer, *below, data=DATA, **tables):
    """The scenario of one private layer, “subject”."""
    return Scenario.of(learning_tree(*below, {"name": "subject"} | layer, data=data, **tables), HERE)


def a_pair(change, others="agree"):
    """Only this one of the pairs that are the worst by construction: no search."""
    return lambda size: [
        pair for pair in neighbours.constructed(size.features, size.norm) if pair.name == f"{change}; others {others}"
    ]


def found(scenario, pairs=auditing.all_pairs):
    """What an audit finds about the only private layer; runs of groups take ten times as long as others."""
    runs = 300 if any(table["use"] == "group_aggregation" for table in scenario.protocol) else 800
    (finding,) = auditing.audit(scenario, runs=runs, confidence=SURE, pairs=pairs).findings
    return finding


LABEL, ACROSS = a_pair("different label"), a_pair("both opposed to the first axis by 0.55")
BOTH, OPPOSITE = a_pair("different features and label"), a_pair("opposite features")
# A layer, those below it, data, the pair that is the worst for it, and the share of ε that so few runs should see at
# least. 0: they see too little of it to say; that they see enough when it is broken is tested below.
STRATEGIES = {
    "records of two classes": (PUBLISHED, (), DATA, LABEL, 0.5),
    "records of seven classes": (PUBLISHED, (), SEGMENTS, OPPOSITE, 0.0),
    "joint": (PUBLISHED | {"mode": "joint"}, (), SEGMENTS, BOTH, 0.2),
    "label and features": (PUBLISHED | {"mode": "label+features"}, (), DATA, BOTH, 0.2),
    "records with gaussian noise": (PUBLISHED | NORMAL, (), L2, LABEL, 0.2),
    "gaussian gradients": (
        GOLF | {"use": "gradient_perturbation", "epsilon": 2.0} | NORMAL, (PEERS,), L2, LABEL, 0.1,
    ),
    "whole nodes": (PUBLISHED | {"unit": "node"}, (), DATA, LABEL, 0.5),
    "two samples": (
        PUBLISHED | {"mode": "sampled", "samples": 2, "channel": "response"}, (), DATA, LABEL, 0.2,
    ),
    "a subset": (PUBLISHED | {"mode": "sampled", "samples": 1, "channel": "subset"}, (), SEGMENTS, LABEL, 0.2),
    "perturbed bits": (PUBLISHED | {"mode": "sampled", "samples": 1, "channel": "unary"}, (), DATA, LABEL, 0.2),
    "noisy gradients": (GOLF | {"use": "gradient_perturbation", "epsilon": 2.0}, (PEERS,), DATA, LABEL, 0.3),
    "noisy gradients, two visits": (
        GOLF | {"use": "gradient_perturbation", "epsilon": 2.0, "schedule": {"kind": "uniform", "visits": 2}},
        (PEERS,), DATA, LABEL, 0.0,
    ),
    "noisy gradients as coded": (
        GOLF | {"use": "gradient_perturbation", "epsilon": 2.0 / 7, "rule": "as-coded"}, (PEERS,), SEGMENTS, LABEL, 0.0,
    ),
    "golf": (GOLF | {"epsilon": 2.0}, (PEERS,), DATA, LABEL, 0.3),
    "output": (OUTPUT | {"epsilon": 2.0}, (), DATA, ACROSS, 0.0),
    "objective": (OUTPUT | {"epsilon": 2.0, "noise": "objective"}, (), DATA, ACROSS, 0.0),
    "gaussian": (OUTPUT | {"epsilon": 2.0, "noise": "gaussian", "delta": 0.05}, (), DATA, ACROSS, 0.0),
    "the curator's noise": (GROUPS | {"epsilon": 2.0, "trust": "curator"}, (LOCAL,), DATA, ACROSS, 0.0),
    "nobody trusted": (GROUPS | {"epsilon": 2.0}, (LOCAL,), DATA, ACROSS, 0.0),
    "shares of the honest": (
        GROUPS | {"epsilon": 2.0, "trust": "honest", "honest": 2}, (LOCAL,), DATA, ACROSS, 0.0,
    ),
    "the curator's gaussian noise": (
        GROUPS | {"epsilon": 2.0, "trust": "curator", "noise": "gaussian", "delta": 0.05}, (LOCAL,), DATA, ACROSS, 0.0,
    ),
    "gossip with noise": (GOSSIPED | {"epsilon": 2.0, "peers": "graph"}, (GRAPH,), L2, BOTH, 0.0),
    "histograms": (ANONML | {"epsilon": 2.0}, (PEERS,), DATA, BOTH, 0.1),
}  # fmt: skip


@pytest.mark.parametrize("noise", ["output", "objective", "gaussian"])
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_half_of_the_noise_of_a_fit_is_found_out(loss, noise, monkeypatch):
    """Records at the worst place move a Huber model by all of its sensitivity, and a logistic one by three quarters."""
    layer = {"use": "regularised_erm", "lambda": 0.01, "loss": loss, "noise": noise, "epsilon": 1.0}
    layer |= {"delta": 0.05} if noise == "gaussian" else {}
    whole, objective, deviation = Laplace.scale.fget, regularised_erm.objective_2011, RegularisedErm._deviation
    monkeypatch.setattr(RegularisedErm, "_deviation", lambda self: deviation(self) / 2)
    monkeypatch.setattr(GammaNorm, "scale", property(lambda self: whole(self) / 2))
    monkeypatch.setattr(
        regularised_erm, "objective_2011", lambda *a: objective(*a)._replace(scale=objective(*a).scale / 2)
    )
    pairs = (
        a_pair("different label", "are orthogonal")
        if loss == "huber"
        else a_pair("both opposed to the first axis by 0.4")
    )
    (finding,) = auditing.audit(strategy(layer, data=L2), runs=4000, confidence=SURE, pairs=pairs).findings
    assert finding.bound > finding.stated == 1


def test_as_coded_no_epsilon_is_stated_and_a_different_label_is_seen_without_error():
    finding = found(strategy(PUBLISHED | {"mode": "as-coded"}), LABEL)
    assert finding.stated is None
    assert not finding.broken
    assert "label not private" in finding.note
    assert finding.bound > 3  # no bound of so few runs can be above 4.1
    alike = found(strategy(PUBLISHED | {"mode": "as-coded"}), a_pair("different features"))
    assert 0.2 * 2 < alike.bound <= 2  # measured: .71; so few runs see a part of ε


def test_the_last_bits_of_unrounded_noise_are_found_out(monkeypatch):
    """The noise has the right scale, but 1 + noise is a multiple of a coarser last place than 0 + noise is."""

    def unrounded(records, lo, hi, rows, models, norm, scale, key, z):
        drawn = np.random.default_rng(int(key))
        for record in records[lo:hi]:
            sign = 1 if rows.label[record] else -1
            z[record] = sign * rows.x[record] + drawn.laplace(scale=scale[record], size=z.shape[1]).astype(np.float32)

    scenario = strategy(PUBLISHED | {"epsilon": 1.0})
    assert not auditing.audit(scenario, runs=4000, confidence=SURE).broken
    monkeypatch.setattr(data_perturbation, "publish_per_class", unrounded)
    (finding,) = auditing.audit(scenario, runs=4000, confidence=SURE).findings
    assert finding.bound > 2
    assert "lowest bits" in finding.score


@pytest.mark.parametrize("value", [0.75, 3.0, -(2.0**-40), 5e-324, 1 / 3])
def test_the_lowest_bit_of_a_number_is_its_last_place_that_is_set(value):
    (bit,) = scores.lowest_bits(np.array([value]))
    assert value / 2.0 ** max(bit, -1000) / 2.0 ** min(bit + 1000, 0) % 2 == 1
    assert scores.lowest_bits(np.zeros(1)) == 0


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_is_seen_to_spend_something_and_not_more_than_it_states(name):
    layer, below, data, pair, share = STRATEGIES[name]
    finding = found(strategy(layer, *below, data=data), pairs=pair)
    assert finding.stated == pytest.approx(2.0)
    assert finding.unit == layer.get("unit", "record")
    assert 2.0 * share <= finding.bound <= 2.0


# Broken on purpose


def assert_found_out(name):
    layer, below, data, pair, _ = STRATEGIES[name]
    finding = found(strategy(layer, *below, data=data), pairs=pair)
    assert finding.stated == 2.0
    assert finding.broken, finding


def test_noise_for_a_sensitivity_of_1_is_found_out(monkeypatch):
    scale = Laplace.scale.fget
    monkeypatch.setattr(Laplace, "scale", property(lambda self: scale(self) / 2))
    assert_found_out("records of two classes")


def test_noise_shared_between_classes_is_found_out(monkeypatch):
    def shared(records, lo, hi, rows, models, norm, scale, key, z):
        noise = np.zeros_like(rows.x)
        original(records, lo, hi, rows._replace(x=noise), 1, norm, scale, key, noise)
        signs = np.where(rows.label[:, None] == np.arange(models), 1, -1)[:, :, None]
        z.reshape(-1, models, z.shape[1])[:] = signs * rows.x[:, None] + noise[:, None]

    original = data_perturbation.publish_per_class
    monkeypatch.setattr(data_perturbation, "publish_per_class", shared)
    assert_found_out("records of seven classes")


def test_an_unnoised_label_is_found_out(monkeypatch):
    monkeypatch.setattr(RandomResponse, "p", 1.0)
    assert_found_out("label and features")


@pytest.mark.parametrize("name", ["two samples", "a subset", "perturbed bits"])
def test_a_channel_with_twice_its_epsilon_is_found_out(monkeypatch, name):
    """With two samples this is what a forgotten division by their number gives."""
    right = sampled.report
    monkeypatch.setattr(sampled, "report", lambda kind, epsilon, values: right(kind, 2 * epsilon, values))
    layer, below, data, pair, _ = STRATEGIES[name]
    audit = auditing.audit(strategy(layer, *below, data=data), runs=2400, confidence=SURE, pairs=pair)
    assert audit.findings[0].stated == 2.0
    assert audit.broken


def test_noise_for_a_record_does_not_pass_for_that_of_a_node(monkeypatch):
    monkeypatch.setattr(
        data_perturbation.DataPerturbation,
        "_records_of_owner",
        lambda self: np.full(self.config.records.rows.label.size, 0.5),
    )
    assert_found_out("whole nodes")


def test_a_ledger_that_forgets_is_found_out(monkeypatch):
    plain = Ledger.budget.fget
    monkeypatch.setattr(Ledger, "budget", property(lambda self: plain(self)._replace(visits=0 * self.visits)))
    assert_found_out("noisy gradients")
    assert_found_out("golf")


def test_a_whole_budget_for_each_of_two_visits_is_found_out(monkeypatch):
    plain = Ledger.budget.fget
    monkeypatch.setattr(Ledger, "budget", property(lambda self: plain(self)._replace(epsilon=4 * self._epsilon)))
    assert_found_out("noisy gradients, two visits")


def test_noise_not_divided_by_the_number_of_models_is_found_out(monkeypatch):
    plain = Ledger.budget.fget
    monkeypatch.setattr(Ledger, "budget", property(lambda self: plain(self)._replace(epsilon=7 * self._epsilon)))
    finding = found(strategy(GOLF | {"epsilon": 2.0}, PEERS, data=SEGMENTS), pairs=OPPOSITE)
    assert finding.broken, finding


def test_output_noise_for_another_form_of_lambda_is_found_out(monkeypatch):
    plain = RegularisedErm._sensitivity
    monkeypatch.setattr(RegularisedErm, "_sensitivity", lambda self, n, lam: plain(self, n, lam) * 2 / n)
    assert_found_out("output")


def test_noise_in_the_objective_divided_by_the_records_once_more_is_found_out(monkeypatch):
    plain = regularised_erm.objective_2011

    def divided(epsilon, c, n, lam):
        right = plain(epsilon, c, n, lam)
        return right._replace(scale=right.scale / n)

    monkeypatch.setattr(regularised_erm, "objective_2011", divided)
    assert_found_out("objective")


@pytest.mark.parametrize("name", ["the curator's noise", "nobody trusted", "shares of the honest"])
def test_noise_for_a_mean_divided_by_the_records_once_more_is_found_out(name, monkeypatch):
    plain = GroupAggregation._scale
    monkeypatch.setattr(GroupAggregation, "_scale", lambda self, moves: plain(self, moves) / 32)
    assert_found_out(name)


def test_the_whole_budget_for_each_answer_is_found_out(monkeypatch):
    plain = questions.Costs.split
    whole = staticmethod(lambda epsilon, *rest: plain(epsilon * 4, *rest))
    monkeypatch.setattr(questions.Costs, "split", whole)
    assert_found_out("histograms")


def test_noise_from_draws_that_are_not_called_secret_is_found_out(monkeypatch):
    """Others could know it: it is the same in every run of an audit."""
    monkeypatch.setattr(data_perturbation.DataPerturbation, "secret", frozenset())
    assert_found_out("records of two classes")


# Mechanisms alone

DRAWS = 8000
KINDS = {Laplace: LAPLACE, GammaNorm: GAMMA_NORM, Gaussian: GAUSSIAN}


def noisy(mechanism, at, seed):
    """Many vectors with the noise of a mechanism."""
    w = np.tile(np.asarray(at, np.float64), (DRAWS, 1))
    nodes, scale = np.arange(DRAWS, dtype=np.int32), np.full(DRAWS, mechanism.scale)
    kind = KINDS[type(mechanism)]
    regularised_erm.perturb_fits(nodes, 0, DRAWS, 0 * nodes, 1, kind, scale, np.uint64(seed), w)
    return w


@pytest.mark.parametrize("sensitivity", [2.0, 1.0], ids=["right", "broken"])
@pytest.mark.parametrize("delta", [1e-5, 0.01])
def test_gaussian_noise_on_vectors_has_its_epsilon_at_its_delta_unless_it_is_broken(delta, sensitivity):
    """Half of the noise has 4.39 at δ = 1e-5 and 5.14 at 0.01, of which so few draws show less."""
    mechanism = Gaussian(epsilon=2.0, delta=delta, sensitivity=sensitivity)
    _, bound = auditing.tell_apart(noisy(mechanism, [1, 0], 1), noisy(mechanism, [-1, 0], 2), ERROR, delta)
    assert 0.2 <= bound <= 2 if sensitivity == 2 else bound > (1.2 if delta < 0.01 else 2)


def strings(name, epsilon, value, seed):
    """The perturbed strings, bit by bit, of many peers with the same value of five."""
    peers = np.arange(DRAWS, dtype=np.int32)
    reports = Reports(peers, 0 * peers, 0 * peers, np.full(DRAWS, value, np.int32))
    plan = histograms.plan_of([perturbation(name, epsilon=epsilon, values=5)])
    return histograms.bits_of(histograms.words_of(np.uint64(seed), 0, reports, plan), 5).astype(np.float64)


@pytest.mark.parametrize("kind", [Laplace, GammaNorm])
@pytest.mark.parametrize("sensitivity", [2.0, 1.0], ids=["right", "broken"])
def test_noise_on_vectors_has_its_epsilon_unless_it_is_broken(kind, sensitivity):
    mechanism = kind(epsilon=1.5, sensitivity=sensitivity)
    _, bound = auditing.tell_apart(noisy(mechanism, [1, 0], 1), noisy(mechanism, [-1, 0], 2), ERROR)
    assert 0.8 <= bound <= 1.5 if sensitivity == 2 else bound > 1.5


@pytest.mark.parametrize("name", ["random-response", "rappor", "pq"])
@pytest.mark.parametrize("factor", [1, 2], ids=["right", "broken"])
def test_perturbed_strings_have_their_epsilon_unless_they_are_broken(name, factor):
    _, bound = auditing.tell_apart(strings(name, 1.5 * factor, 1, 1), strings(name, 1.5 * factor, 3, 2), ERROR)
    assert 0.9 <= bound <= 1.5 if factor == 1 else bound > 1.5


# The statistics


def test_a_bound_is_above_the_truth_as_seldom_as_it_says(rng):
    # Of 100 audits with an error rate of 20 % at most 31 may be wrong; more come once in 300 seeds.
    wrong = 0
    for _ in range(100):
        one, other = (rng.laplace(at, 1.0, (200, 1)) for at in (0.5, -0.5))
        wrong += auditing.tell_apart(one, other, 0.1)[1] > 1.0
    assert wrong <= 31


def test_no_bound_exceeds_what_this_number_of_runs_can_show():
    sure = bounds.lower_bound(np.ones(400), np.zeros(400), 0.025)
    assert sure == pytest.approx(bounds.ceiling(200, 0.025))
    assert bounds.ceiling(200, 0.025) < math.log(200)


def test_noise_that_is_carried_on_is_taken_off(rng):
    """The second number repeats the first one's noise and tells the data sets apart: alone it hides it."""
    noise = rng.laplace(0, 10, (2, 500, 1))
    one, other = (
        np.hstack([n, n + shift + rng.normal(0, 0.1, n.shape)]) for n, shift in zip(noise, (1, -1), strict=True)
    )
    new = scores.innovations(one, other)
    assert np.abs(one[:, 1].mean() - other[:, 1].mean()) < 3
    assert new(one)[:, 1].min() > new(other)[:, 1].max()


# The network


def test_only_what_is_secret_differs_from_run_to_run():
    network = Network(strategy(GROUPS | {"trust": "curator"}, LOCAL))
    layers = network.stack(neighbours.constructed(2, "l2")[0], 0, "record")
    runs = [network.run(layers, noise)["subject"] for noise in (1, 1, 2)]
    assert runs[0].tolist() == runs[1].tolist()
    assert runs[0].tolist() != runs[2].tolist()
    assert {layer.key("group") for layer in layers.values()} == {
        layer.key("group") for layer in network.stack(neighbours.constructed(2, "l2")[0], 1, "record").values()
    }


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.data])
def test_every_layer_that_touches_private_data_says_what_it_releases(name):
    network = Network(Scenario.of(contract_scenario(ENTRIES[name], probed=False), HERE))
    pairs = neighbours.constructed(network.size.features, network.size.norm)[:3]  # class means may be equal in some
    found = [network.run(network.stack(pair, side, "record"), 1) for pair in pairs for side in (0, 1)]
    assert all(any(numbers[layer].any() for numbers in found) for layer in found[0])


def test_layers_that_only_use_what_was_published_are_not_run():
    learning = {"name": "learning"} | GOLF | {"records": "subject"}
    table = learning_tree(PEERS, {"name": "subject"} | PUBLISHED, learning, data=DATA)
    network = Network(Scenario.of(table, HERE))
    assert network.private == ["subject"]
    assert [layer["name"] for layer in network.scenario.protocol] == ["subject"]


def test_layers_that_use_the_same_records_are_audited_together():
    other = {"name": "other"} | PUBLISHED
    scenario = Scenario.of(learning_tree({"name": "subject"} | PUBLISHED, other, data=DATA), HERE)
    findings = auditing.audit(scenario, runs=600, confidence=SURE, pairs=LABEL).findings
    assert [(f.layer, f.stated) for f in findings] == [("subject", 2.0), ("other", 2.0), ("together", 4.0)]
    assert findings[2].bound > max(findings[0].bound, findings[1].bound)


# The scenarios that come with golfsim

HOW_IT_IS_USED = {
    "predict", "publish", "tie", "prune", "cap", "fanout", "formation", "peers", "training", "vote", "learner", "score",
    "staggering", "aggregator", "groups", "relays", "window", "stagger", "colluding", "repeats", "outsiders",
    "forgeries", "depth", "min_records",
}  # fmt: skip
FILES = sorted((HERE.parent / "scenarios").rglob("*.toml"))
done = set()


def shape(scenario):
    """What decides how records are protected: layers without numbers, and without what becomes of what is released."""
    network = Network(scenario)
    settings = [{k: v if isinstance(v, str | dict) else 0 for k, v in t.items()} for t in network.scenario.protocol]
    kept = [[f"{k}={v}" for k, v in table.items() if k not in HOW_IT_IS_USED | {"name"}] for table in settings]
    return json.dumps([kept, network.classes > 2]) if network.private else ""


def likely(size):
    """One pair that is bad for all layers of a norm."""
    return (ACROSS if size.norm == "l2" else LABEL)(size)


def with_public_bounds(scenario):
    return scenario.change({"data.bounds": "public"}) if scenario.data and scenario.data.bounds == "train" else scenario


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_shipped_scenario_is_not_seen_to_spend_more_than_it_states(file):
    """At points from all over its sweep, and each way of protecting records once for all files.

    200 runs see little; that they see the same each time is what counts here.
    """
    every = points(with_public_bounds(Scenario.load(file)))
    for point in every[:: max(len(every) // 6, 1)]:
        kind = shape(point.scenario)
        if kind and kind not in done:
            done.add(kind)
            subjects = auditing.subjects_of(point.scenario)
            findings = auditing.audited(subjects, runs=200, confidence=SURE, pairs=likely).findings
            assert findings
            assert [finding for finding in findings if finding.broken] == []


# The command


@pytest.fixture
def told(tmp_path):
    """Run the command on a scenario; its exit code and what it says."""

    def run(tables, *options):
        file = tmp_path / "scenario.toml"
        file.write_text(Scenario.of(tables, HERE).dump(), encoding="utf-8")
        result = CliRunner().invoke(app, ["audit", str(file), "--runs", "200", *options])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    return run


def test_the_command_shows_the_stated_epsilon_and_the_lower_bound(told):
    code, output = told(learning_tree({"name": "subject"} | PUBLISHED, data=DATA))
    assert code == 0
    assert "subject" in output
    assert "no lower bound exceeds the stated ε" in output


def test_the_command_says_what_is_broken_and_ends_with_1(told, monkeypatch):
    monkeypatch.setattr(data_perturbation.DataPerturbation, "secret", frozenset())
    code, output = told(learning_tree({"name": "subject"} | PUBLISHED, data=DATA))
    assert code == 1
    assert "broken: “subject” states ε = 2, but its ε is at least" in output


def test_the_command_says_that_nothing_is_stated_and_how_much_runs_can_show(told):
    code, output = told(learning_tree(PEERS, {"name": "subject"} | GOLF, data=DATA), "--json")
    findings = json.loads(output)
    assert code == 0
    assert findings["findings"][0]["stated"] is None
    assert findings["findings"][0]["bound"] == pytest.approx(findings["ceiling"])


def test_a_scenario_without_private_layers_has_nothing_to_audit(told):
    assert "nothing to audit" in told(tree(PEERS))[1]


def test_a_mistake_in_a_setting_is_reported_with_its_place(told):
    with pytest.raises(UserError, match=r"subject\.epsilon"):
        told(learning_tree({"name": "subject"} | PUBLISHED, data=DATA), "--set", "subject.epsilon=-1")


MANY = GOLF | {"use": "gradient_perturbation", "epsilon": 4.0, "schedule": {"kind": "uniform", "visits": 16}}
WIDE = {"privacy": {"delta": 0.05}}  # see NORMAL


def test_with_a_delta_the_visits_of_the_audit_are_stated_and_bounded_at_it_too():
    sum_of, at_delta = auditing.audit(strategy(MANY, PEERS, **WIDE), runs=800, confidence=SURE, pairs=LABEL).findings
    assert (sum_of.stated, sum_of.delta) == (4, 0)
    assert at_delta.delta == 0.05
    assert at_delta.stated < 3  # 16 visits of ε = 1/4
    assert not sum_of.broken
    assert not at_delta.broken
    assert "visits of the audit" in at_delta.note


def test_half_of_gaussian_noise_is_found_out(monkeypatch):
    whole = Gaussian.scale.fget
    monkeypatch.setattr(Gaussian, "scale", property(lambda self: whole(self) / 2))
    finding = found(strategy(PUBLISHED | NORMAL, data=L2), LABEL)
    assert finding.bound > finding.stated == 2


def test_a_composition_that_states_too_little_is_found_out(monkeypatch):
    few = MANY | {"schedule": {"kind": "uniform", "visits": 4}}
    monkeypatch.setattr(network, "spent", lambda ledgers, delta: np.array([0.3]))
    *_, at_delta = auditing.audit(strategy(few, PEERS, **WIDE), runs=800, confidence=SURE, pairs=LABEL).findings
    assert at_delta.bound > 0.3
