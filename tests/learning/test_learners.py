"""Learners: the gradients of networks, the optimisers, clipping and noise, and learners of users."""

import subprocess
import sys

import naive
import numpy as np
import pytest
from helpers import finished, learning_tree, needs_jit, rule_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.learning.gradients import mean_gradient
from golfsim.learning.kinds import with_room
from golfsim.learning.loading import installed, make
from golfsim.learning.online import Shape
from golfsim.learning.updates import Noise, learn, scores_of, update
from golfsim.privacy.ledger import Ledger, UniformSchedule
from golfsim.privacy.mechanisms import ROUNDING
from golfsim.protocol.records import Rows
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.sim.observers import predict
from golfsim.testing import LEARNER_CHECKS, Case, learner_contract
from golfsim.testing.learners import ONCE

SEEDS = st.integers(0, 10**6)
KINK = 1e-3  # no input of a ReLU may be nearer to 0: there the gradient jumps


class Network:
    """A network with random weights, and some records of one node."""

    def __init__(self, seed, table, features, classes, records=1, **keys):
        rng = np.random.default_rng(seed)
        self.table = table if isinstance(table, dict) else {"use": table}
        self.models = 1 if classes == 2 else classes
        self.shape = Shape(features, classes, self.models)
        self.learner = make(self.table)
        self.size = self.learner.parameters(self.shape)
        self.rule = with_room(rule_of(self.table, 0.01, False, features=features, classes=classes, **keys))
        self.w = np.zeros(self.learner.shape(self.shape), np.float32)
        self.w[0, : self.size] = rng.normal(size=self.size)
        self.x = rng.normal(size=(records, features)).astype(np.float32)
        self.label = rng.integers(0, classes, records).astype(np.int32)
        self.rows = Rows(self.x, self.label, np.array([0]), np.array([records]), False)

    @property
    def sizes(self):
        return (self.shape.features, *self.table.get("hidden", (32,)), self.models)

    def scores_at(self, parameters, x):
        if self.table["use"] == "softmax":
            return naive.flat_scores(parameters, self.shape.features, x)
        return naive.network_scores(parameters, self.sizes, x, self.table.get("activation", "relu"))

    def slope(self, parameters, r):
        return naive.slope_by_differences(
            lambda w: naive.loss_of_scores(self.scores_at(w, self.x[r]), self.label[r]), parameters
        )

    def mean_slope(self, parameters, clip=None, order=2):
        return np.mean([naive.clipped(self.slope(parameters, r), clip, order) for r in range(len(self.x))], axis=0)

    def far_from_kinks(self):
        """Whether no neuron of the hidden layers is about to turn on or off."""
        if self.table["use"] == "softmax" or self.table.get("activation") == "tanh":
            return True
        inputs = []
        for depth in range(1, len(self.sizes) - 1):
            used = sum((a + 1) * b for a, b in zip(self.sizes[:depth], self.sizes[1 : depth + 1], strict=True))
            inputs += [naive.network_scores(self.w[0, :used], self.sizes[: depth + 1], x, "relu") for x in self.x]
        return np.abs(np.concatenate(inputs)).min() > KINK


TABLES = [
    {"use": "softmax"},
    {"use": "mlp", "hidden": [3]},
    {"use": "mlp", "hidden": [4], "activation": "tanh"},
    {"use": "mlp", "hidden": [4, 3]},
    {"use": "mlp", "hidden": [2, 5], "activation": "tanh"},
]


@pytest.mark.parametrize("table", TABLES, ids=str)
@settings(max_examples=15)
@given(seed=SEEDS, features=st.integers(1, 6), classes=st.sampled_from([2, 3, 5]))
def test_a_step_goes_against_the_slope_of_the_loss(table, seed, features, classes):
    case = Network(seed, table | {"rate": 0.5}, features, classes)
    assume(case.far_from_kinks())
    out = np.empty_like(case.w)
    assert update(case.w, 0, np.int32(0), case.rows, 0, case.rule, out) == 1
    expected = case.w[0] - 0.5 * (case.slope(case.w[0], 0) + 0.01 * case.w[0])
    assert np.allclose(out[0], expected, atol=2e-5)


@pytest.mark.parametrize("table", TABLES, ids=str)
@settings(max_examples=15)
@given(seed=SEEDS, features=st.integers(1, 20), classes=st.sampled_from([2, 3]))
def test_scores_are_those_of_the_network(table, seed, features, classes):
    case = Network(seed, table, features, classes)
    out = np.empty((1, case.models), np.float32)
    scores_of(case.rule, case.w, 0, case.x, 0, out, 0)
    assert np.allclose(out[0], case.scores_at(case.w[0], case.x[0]), atol=1e-4)


def test_a_network_has_one_score_per_class_beside_the_votes_of_its_cache():
    golf = {"name": "golf", "use": "golf", "peers": "peers", "records": "raw", "learner": "mlp", "cache": 2}
    run = finished(learning_tree({"name": "peers", "use": "uniform"}, golf, cycles=2))
    scores, _ = predict(run.layer("golf"), np.arange(5, dtype=np.int32), np.ones((3, 2), np.float32), 1)
    assert scores.shape == (3, 5, 1)


@pytest.mark.parametrize("optimiser", naive.OPTIMISERS)
@pytest.mark.parametrize("fade", [0.0, 0.5])
def test_optimisers_make_the_steps_of_their_papers(optimiser, fade):
    table = {"use": "mlp", "hidden": [3], "activation": "tanh", "rate": 0.05, "optimiser": optimiser, "fade": fade}
    case = Network(11, table, 4, 3, records=3)
    size, (rule, rows) = case.size, naive.OPTIMISERS[optimiser]
    w, memory, age = case.w[0, :size].astype(np.float64), [np.zeros(size) for _ in range(rows)], np.int32(0)
    for t in range(1, 7):
        out = np.empty_like(case.w)
        age = update(case.w, 0, age, case.rows, 0, case.rule, out)
        case.w = out
        w, memory = rule(w, memory, case.mean_slope(w), t, 0.05 / (1 + fade * (t - 1)), 0.01)
        assert age == t
        assert np.allclose(out[0], np.concatenate([w, *memory]), atol=3e-4)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_gradient_of_each_record_is_clipped_before_the_mean(norm):
    table = {"use": "mlp", "hidden": [3], "activation": "tanh", "rate": 1.0, "clip": 0.7}
    case = Network(5, table, 4, 3, records=4, norm=norm)
    order = 1 if norm == "l1" else 2
    longer = [np.linalg.norm(case.slope(case.w[0], r), order) > 0.7 for r in range(4)]
    assert any(longer)
    out = np.empty_like(case.w)
    update(case.w, 0, np.int32(0), case.rows, 0, case.rule, out)
    expected = case.w[0] - case.mean_slope(case.w[0], 0.7, order) - 0.01 * case.w[0]
    assert np.allclose(out[0], expected, atol=1e-4)


def test_a_gradient_that_overflows_counts_as_zero():
    table = {"use": "softmax", "rate": 1.0, "clip": 0.7}
    case, alone = Network(5, table, 4, 3, records=2), Network(5, table, 4, 3, records=2)
    case.x[1] = 3e38
    with np.errstate(over="ignore", invalid="ignore"):
        mean_gradient(case.w, 0, case.rows, 0, 2, case.rule)
    mean_gradient(alone.w, 0, alone.rows, 0, 1, alone.rule)
    assert np.array_equal(case.rule.room.gradient, alone.rule.room.gradient / 2)


@pytest.mark.parametrize("unit", ["record", "node"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_noise_is_that_of_the_clipped_gradient(norm, unit):
    table = {"use": "softmax", "rate": 0.5, "clip": 0.3}
    case = Network(8, table, 4, 3, records=2, norm=norm)
    ledger = Ledger(UniformSchedule(kind="uniform", visits=1), 3.0, 2)
    key, per_record = np.uint64(77), unit == "record"
    noise = Noise(True, 0 if norm == "l1" else 1, per_record, key)
    out = np.empty_like(case.w)
    assert learn(case.w, 0, np.int32(0), case.rows, 0, case.rule, noise, ledger.budget, out) == 1
    scale = 2 * 0.3 * (1 + ROUNDING) / (2 if per_record else 1) / 3.0
    draw = naive.laplace_noise if norm == "l1" else naive.gamma_norm_noise
    gradient = case.mean_slope(case.w[0], 0.3, 1 if norm == "l1" else 2) + draw(key, 1, 0, 0, case.size, scale)
    assert np.allclose(out[0], case.w[0] - 0.5 * (gradient + 0.01 * case.w[0]), atol=1e-4)
    assert learn(out, 0, np.int32(1), case.rows, 0, case.rule, noise, ledger.budget, case.w) == 1  # nothing is left


def test_all_nodes_begin_with_the_same_network_and_its_weights_are_spread():
    shape = Shape(200, 2, 1)
    model = make({"use": "mlp", "hidden": [100], "optimiser": "adam"}).initial(shape, np.uint64(5))
    weights, rest = model[0, :20_000], model[0, 20_000:]
    edge = np.sqrt(6 / 300)
    assert 0.99 * edge < np.abs(weights).max() <= edge
    assert weights.std() == pytest.approx(edge / np.sqrt(3), rel=0.03)
    assert (rest[:100] == 0).all()  # the biases
    assert (rest[201:] == 0).all()  # what Adam remembers


def complaint(**golf):
    tree = learning_tree(
        {"name": "peers", "use": "uniform"},
        {"name": "golf", "use": "golf", "peers": "peers", "records": "raw"} | golf,
        cycles=2,
    )
    with pytest.raises(ScenarioError) as told:
        Scenario.of(tree)
    return str(told.value)


def test_mistakes_in_the_settings_of_a_learner_are_explained():
    assert "there is no learner “mpl”" in complaint(learner="mpl")
    assert "mlp" in complaint(learner="mpl")
    assert "hiden" in complaint(learner={"use": "mlp", "hiden": [3]})
    assert "hidden" in complaint(learner={"use": "mlp", "hiden": [3]})
    assert "learner.rate" in complaint(learner={"use": "mlp", "rate": -1})
    assert "table with “use”" in complaint(learner={"hidden": [3]})
    assert "“offset”" in complaint(learner="mlp", offset=3) or "offset" in complaint(learner="mlp", offset=3)


@pytest.mark.parametrize("name", sorted(installed()))
def test_a_learner_is_written_as_a_scenario_names_it(name):
    assert make(name).as_setting() is not None
    assert make(make(name).as_setting()).config == make(name).config


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize(
    "learner",
    [
        "perceptron",
        {"use": "mlp", "hidden": [3], "optimiser": "adam"},
        {"use": "softmax", "clip": 1.0},
        {"use": "kmeans", "clusters": 3},
        "centroid",
        {"use": "linear_regression", "clip": 1.0},
        {"use": "matrix_factorisation", "rank": 2},
    ],
    ids=str,
)
def test_learners_keep_the_contract(learner):
    learner_contract(learner)


@pytest.mark.parametrize("check", [name for name in LEARNER_CHECKS if name not in ONCE])
@pytest.mark.parametrize("name", sorted(installed()))
@pytest.mark.parametrize("classes", [2, 3])
def test_kernels_of_learners_keep_the_contract(check, name, classes):
    LEARNER_CHECKS[check](Case(make(name), name, classes))


OWN = """
from golfsim.learning import GradientLearner, LinearLearner, OnlineLearner, inlined, leaf


@inlined
def step(s, margin, t):
    return 3.0 / t if margin < 0 else 1.0 / t


@inlined
def decay(s, t):
    return 1.0


@inlined
def reach(s, t):
    return {reach}


class Mine(LinearLearner):
    step, decay, reach = step, decay, reach


@leaf
def spoil(s, a, i, b, j, share, room):
    b[j, 0] += 1
    {spoil}


@leaf
def update(s, w, i, t, rows, first, stop, room):
    w[i, 0] += rows.x[first, 0]


@leaf
def scores(s, w, i, x, r, out, o, room):
    out[o, 0] = w[i, 0]


class Any(OnlineLearner):
    update, scores, merge = update, scores, spoil

    def shape(self, records):
        return 1, 1

    def outputs(self, records):
        return 1
"""


def own_case(tmp_path, name, reach="3.0 / t", spoil="pass"):
    (tmp_path / "own.py").write_text(OWN.format(reach=reach, spoil=spoil), encoding="utf-8")
    return Case(make(f"own.py:{name}", tmp_path), f"own.py:{name}", 2, tmp_path)


def test_the_contract_of_learners_sees_a_step_that_is_too_long(tmp_path):
    LEARNER_CHECKS["no_step_is_longer_than_stated"](own_case(tmp_path, "Mine"))
    (tmp_path / "b").mkdir()
    with pytest.raises(AssertionError, match="longer than"):
        LEARNER_CHECKS["no_step_is_longer_than_stated"](own_case(tmp_path / "b", "Mine", reach="1.0 / t"))


def test_the_contract_of_learners_sees_a_merge_that_changes_other_models(tmp_path):
    with pytest.raises(AssertionError, match="merged with itself"):
        LEARNER_CHECKS["merging_changes_one_model"](own_case(tmp_path, "Any"))
    (tmp_path / "b").mkdir()
    with pytest.raises(AssertionError, match="another node"):
        LEARNER_CHECKS["merging_changes_one_model"](own_case(tmp_path / "b", "Any", spoil="b[j + 1, 0] = 0"))


MISTAKES = {
    "no kernel “scores”": "class Mine(GradientLearner):\n    gradient = six",
    "“gradient” of class Mine is not a kernel": "class Mine(GradientLearner):\n    gradient, scores = plain, scores",
    "takes 3 arguments (s, w, i)": "class Mine(GradientLearner):\n    gradient, scores = six, three",
    "no kernel “update”": "class Mine(OnlineLearner):\n    scores = scores",
    "never calls “inital”": "class Mine(GradientLearner):\n    gradient, scores = six, scores\n"
    "    def inital(self): ...",
    "add this line to the class: Config = Mines": "class Mines(GradientConfig):\n    pass\n"
    "class Mine(GradientLearner[Mines]):\n    gradient, scores = six, scores",
}
PRELUDE = """
from golfsim.learning import GradientConfig, GradientLearner, OnlineLearner, leaf

def plain(s, w, i, x, r, label, out, work): ...

@leaf
def six(s, w, i, x, r, label, out, work):
    out[0, 0] += 1

@leaf
def scores(s, w, i, x, r, out, o, room):
    out[o, 0] = 1

@leaf
def three(s, w, i):
    w[i, 0] = 1

"""


@needs_jit
@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_in_the_class_of_a_learner_are_found_when_it_is_loaded(message, tmp_path):
    (tmp_path / "mine.py").write_text(PRELUDE + MISTAKES[message], encoding="utf-8")
    with pytest.raises(UserError) as told:
        make("mine.py:Mine", tmp_path)
    assert message in str(told.value)


def test_without_torch_the_message_says_what_to_install(monkeypatch, tmp_path):
    (tmp_path / "own_net.py").write_text("import torch\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError) as told:
        make("own_net.py:Net", tmp_path)
    assert 'pip install "golfsim[torch]"' in str(told.value)
    assert "line 1 needs PyTorch" in str(told.value)


def test_torch_is_not_imported_for_other_learners():
    code = (
        "import sys, golfsim; from golfsim.learning.loading import make; make('mlp'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
