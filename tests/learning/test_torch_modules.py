"""PyTorch modules as learners: the same models as golfsim's own networks, the same bits, and what is refused."""

import numpy as np
import pytest
from helpers import HERE, assert_same_state, finished, learning_tree, needs_jit, simulation
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.core.provenance import about_this_machine
from golfsim.core.rng import key
from golfsim.learning import many
from golfsim.learning.learners.torch_modules import TorchLearner, one_thread, split
from golfsim.learning.loading import make
from golfsim.learning.many import Together, add_clipped, learn_many, padded
from golfsim.learning.online import Shape
from golfsim.learning.updates import Noise
from golfsim.privacy.ledger import Budget
from golfsim.protocol.records import Rows
from golfsim.scenario.messages import ScenarioError
from golfsim.sim import checkpoint
from golfsim.testing import learner_contract

torch = pytest.importorskip("torch")

OURS = {"use": "mlp", "hidden": [4], "activation": "tanh"}
MODULE = {"use": "torch_nets.py:Hidden"}
PEERS = {"name": "peers", "use": "uniform"}
LINKS = {"name": "peers", "use": "static_overlay", "neighbours": 4}
DATA = {"set": "segmentation", "train": 120, "test": 60, "scale": ["minmax", "l2"]}
TWO = {"set": "spambase", "train": 120, "test": 60, "scale": ["minmax", "l1"]}
NO_NOISE, NO_BUDGET = Noise(False, 0, False, np.uint64(0)), Budget(0, 0, 0.0, np.zeros(0, np.int32))
SHAPE = Shape(5, 3, 3)


WITHOUT_PEERS = ("federated_averaging", "central_learner", "local_learner")


def of_layer(learner, peers=PEERS, data=DATA, **table):
    layer = {"name": "subject", "use": "golf", "peers": "peers", "records": "raw", "learner": learner, "lambda": 0.01}
    tables = {"data": data, "nodes": {"records": 3}, "cycles": 8, "observe": {"every": 4, "nodes": 10}}
    if table.get("use") in WITHOUT_PEERS:
        del layer["peers"]
    top = {name: table.pop(name) for name in ("churn", "transport", "adversary", "nodes", "cycles") if name in table}
    return learning_tree(peers, layer | table, **(tables | top))


@pytest.fixture
def same_start(monkeypatch):
    """Let modules begin with the parameters of golfsim's own network."""
    monkeypatch.setattr(TorchLearner, "initial", lambda self, records, key: initial_of(self, records, key))


def initial_of(learner, records, key):
    ours = make(OURS | {"optimiser": learner.config.optimiser})
    return ours.initial(records, key)


CASES = {
    "algorithm1": {},
    "rw": {"variant": "rw"},
    "mu": {"variant": "mu", "average": "age"},
    "um": {"variant": "um", "average": "age"},
    "own": {"variant": "own", "average": "age", "limit": 5},
    "two classes": {"data": TWO},
    "one by one": {"batch": "one-by-one", "average": "age"},
    "momentum": {"learned": {"optimiser": "momentum", "rate": 0.05}},
    "adam": {"learned": {"optimiser": "adam", "rate": 0.01, "fade": 0.1}},
    "clipped": {"learned": {"clip": 0.2}},
    "median": {"merge": "median", "cache": 3, "clip": 2.0},
    "cache": {"cache": 2, "variant": "um"},
    "only older": {"accept": "older", "variant": "own"},
    "parts": {"variant": "own", "message": {"parts": 3}},
    "sample": {"variant": "own", "message": {"sample": 0.3}},
    "largest": {"variant": "own", "message": {"top": 0.3}},
    "float16": {"message": {"codec": "float16"}},
    "pivot": {"message": {"codec": "pivot"}},
    "tokens": {"flow": {"kind": "simple", "capacity": 5}},
    "tokens and the largest": {"variant": "own", "message": {"top": 0.3}, "flow": {"kind": "simple", "capacity": 5}},
    "faults": {
        "churn": [{"kind": "rate", "leave": 0.1, "rejoin": 0.5}],
        "transport": {"loss": 0.3, "delay": [1, 3]},
        "variant": "mu",
    },
    "adversaries": {"adversary": [{"kind": "noise", "share": 0.2}, {"kind": "old", "share": 0.2, "from": 2}]},
    "late adversaries": {"adversary": [{"kind": "negative", "share": 0.2}], "transport": {"delay": [1, 2]}},
    "noise": {"epsilon": 5.0, "schedule": {"kind": "uniform", "visits": 3}, "learned": {"clip": 0.3}},
    "noise in both": {
        "epsilon": 50.0,
        "variant": "um",
        "norm": "l2",
        "unit": "node",
        "schedule": {"kind": "halving"},
        "learned": {"clip": 0.3},
    },
    "sizes": {"nodes": {"number": 20, "records": {"kind": "lognormal", "sigma": 1.0}}},
    "walk": {"use": "random_walk", "walkers": 7, "hops": 3, "average": "second-half"},
    "slow walk": {"use": "random_walk", "walkers": 7, "transport": {"loss": 0.1, "delay": [1, 2]}, "restart": "resend"},
    "private walk": {
        "use": "gradient_perturbation",
        "walkers": 12,
        "hops": 2,
        "epsilon": 20.0,
        "norm": "l2",
        "schedule": {"kind": "uniform", "visits": 2},
        "learned": {"clip": 0.3},
    },
    "federated": {"use": "federated_averaging", "share": 0.5, "learned": {"optimiser": "momentum", "rate": 0.05}},
    "federated, late": {
        "use": "federated_averaging",
        "clients": 9,
        "epochs": 2,
        "batch": 2,
        "deadline": 3,
        "message": {"codec": "float16"},
        "transport": {"loss": 0.1, "delay": [1, 2]},
        "nodes": {"number": 20, "records": {"kind": "lognormal", "sigma": 1.0}},
    },
    "federated, adversaries": {"use": "federated_averaging", "adversary": [{"kind": "negative", "share": 0.2}]},
    "decentralised": {
        "use": "decentralised_sgd",
        "steps": 3,
        "batch": 2,
        "churn": [{"kind": "rate", "leave": 0.1, "rejoin": 0.5}],
    },
    "alone": {"use": "local_learner", "steps": 2, "batch": 1, "learned": {"optimiser": "adam", "rate": 0.01}},
    "alone, all records": {
        "use": "local_learner",
        "nodes": {"number": 20, "records": {"kind": "lognormal", "sigma": 1.0}},
        "learned": {"clip": 0.2},
    },
    "central": {"use": "central_learner", "cycles": 2, "learned": {"rate": 0.1}},
}


@pytest.mark.parametrize("case", CASES)
def test_a_module_learns_what_the_network_of_golfsim_learns(case, same_start):
    table = {"data": TWO | {"scale": ["minmax", "l1"]}} if "epsilon" in CASES[case] else {}
    table |= CASES[case]
    if table.get("norm") == "l2":
        table["data"] = DATA
    learned = {"rate": 0.5} | table.pop("learned", {})
    links = table.get("message", {}).get("codec") == "pivot" or table.get("use") == "decentralised_sgd"
    peers = LINKS if links else PEERS
    ours, theirs = (finished(of_layer(one | learned, peers, **table)) for one in (OURS, MODULE))
    one, other = (run.layer("subject") for run in (ours, theirs))
    assert (one.age == other.age).all()
    assert one.age.max() > 0
    assert np.abs(one.w - one._initial).max() > 0.01
    assert np.allclose(one.w, other.w, rtol=1e-3, atol=1e-4)
    mine, its = ours.latest["subject"], theirs.latest["subject"]
    assert mine.keys() == its.keys()
    for name in mine:
        assert its[name] == pytest.approx(mine[name], abs=0.05), name


def test_softmax_regression_is_a_linear_layer(monkeypatch):
    monkeypatch.setattr(TorchLearner, "initial", lambda self, records, key: np.zeros(self.shape(records), np.float32))
    ours, theirs = (
        finished(of_layer({"use": use, "rate": 0.5})).layer("subject") for use in ("softmax", "torch_nets.py:Flat")
    )
    features, classes = ours._seen.features, ours._seen.classes
    weights = theirs.w[:, 0, : classes * features].reshape(-1, classes, features)
    one = ours.w.reshape(-1, classes, features + 1)
    assert np.allclose(one[:, :, :features], weights, atol=1e-6)
    assert np.allclose(one[:, :, features], theirs.w[:, 0, classes * features :], atol=1e-6)


def few_models(use, number=5, seed=3, **settings):
    learner = make({"use": f"torch_nets.py:{use}", "rate": 0.3} | settings, HERE)
    rng = np.random.default_rng(seed)
    w = np.zeros((number, learner.shape(SHAPE)[1]), np.float32)
    w[:, : learner.parameters(SHAPE)] = rng.normal(size=(number, learner.parameters(SHAPE)))
    sizes = rng.integers(0, 12, number)
    stop = np.cumsum(sizes)
    x = rng.normal(size=(stop[-1], SHAPE.features)).astype(np.float32)
    rows = Rows(x, rng.integers(0, SHAPE.classes, stop[-1]).astype(np.int32), stop - sizes, stop, False)
    return learner, w, rows


def together(learner, rows):
    return Together(learner, SHAPE, rows, learner.rule(SHAPE, 0.01, False), NO_NOISE, NO_BUDGET, 1)


def by_autograd(learner, model, rows, first, stop, clip=None):
    """The mean gradient of records, clipped one by one, without torch.func."""
    net = learner._built(SHAPE, 0)
    for name, value in split(torch.tensor(model), learner._parts(SHAPE)).items():
        dict(net.named_parameters())[name].data[:] = value
    total = np.zeros(model.shape)
    for r in range(first, stop):
        net.zero_grad()
        scores = net(torch.tensor(rows.x[r : r + 1]))
        torch.nn.functional.cross_entropy(scores, torch.tensor(rows.label[r : r + 1]).long()).backward()
        gradient = np.concatenate([one.grad.numpy().ravel() for one in net.parameters()]).astype(np.float64)
        length = np.linalg.norm(gradient)
        total += gradient * (clip / length if clip and length > clip else 1)
    return total / (stop - first)


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("use", ["Hidden", "Convolved"])
@pytest.mark.parametrize("how", [(None, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("at_once", [True, False])
def test_updates_are_those_of_stochastic_gradient_descent(use, how, clip, at_once, monkeypatch):
    for limit in ("MANY", "FEW"):
        monkeypatch.setattr(f"golfsim.learning.learners.torch_modules.{limit}", 100 if at_once else 0)
    batch, epochs = how
    settings = {"epochs": epochs} | ({"batch": batch} if batch else {}) | ({"clip": clip} if clip else {})
    learner, w, rows = few_models(use, **settings)
    age, expected = np.full(len(w), 4, np.int32), w.astype(np.float64)
    nodes = np.array([3, 0, 0, 4, 2], np.int32)
    updates = np.zeros(len(w), int)
    for k, node in enumerate(nodes):
        first, stop = int(rows.first[node]), int(rows.stop[node])
        for _ in range(epochs):
            for lo in range(first, stop, batch or 1000):
                gradient = by_autograd(
                    learner, expected[k].astype(np.float32), rows, lo, min(lo + (batch or 1000), stop), clip
                )
                expected[k] -= 0.3 * (gradient + 0.01 * expected[k])
                updates[k] += 1
    learn_many(together(learner, rows), w, age, nodes)
    assert np.allclose(w, expected, atol=2e-4)
    assert (age == 4 + updates).all()
    assert updates.max() > 1 or batch is None


@pytest.mark.parametrize("clip", [None, 0.5])
def test_pieces_and_chunks_add_up(clip, monkeypatch):
    settings = {"clip": clip} if clip else {}
    results = []
    for piece, most in ((1024, 2**26), (2, 2**9)):
        monkeypatch.setattr("golfsim.learning.learners.torch_modules.PIECE", piece)
        monkeypatch.setattr("golfsim.learning.learners.torch_modules.MOST", most)
        learner, w, rows = few_models("Convolved", 9, **settings)
        learn_many(together(learner, rows), w, np.zeros(9, np.int32), np.arange(9, dtype=np.int32))
        results.append(w)
        monkeypatch.setattr(many, "TOGETHER", 2)
    assert np.allclose(*results, atol=1e-5)


def test_scores_are_those_of_the_module():
    learner, w, rows = few_models("Convolved")
    scores = learner.scores_many(SHAPE, w, rows.x)
    net = learner._built(SHAPE, 0)
    for k in range(len(w)):
        for name, value in split(torch.tensor(w[k]), learner._parts(SHAPE)).items():
            dict(net.named_parameters())[name].data[:] = value
        assert np.allclose(scores[:, k], net(torch.tensor(rows.x)).detach().numpy(), atol=1e-5)


def test_a_gradient_without_a_length_is_left_out():
    one = np.array([[3, 4], [np.inf, 0], [np.nan, 1], [0.3, 0]], np.float32)
    out = np.zeros((2, 2))
    share = np.array([0.5, 1, 1, 1], np.float32)
    add_clipped(one, np.array([0, 0, 1, 1]), share, 1.0, False, out)
    assert np.allclose(out, [[0.3, 0.4], [0.3, 0]])
    add_clipped(one, np.array([0, 0, 1, 1]), share, 1.0, True, out)
    assert np.allclose(out, [[0.3 + 1.5 / 7, 0.4 + 2 / 7], [0.6, 0]])


@given(st.integers(1, 10**6))
def test_at_most_a_third_of_the_places_is_empty(records):
    assert records <= padded(records) <= max(1.5 * records, records + 1)


@pytest.mark.parametrize(
    "table", [{}, {"variant": "um"}, {"use": "random_walk", "walkers": 20, "hops": 2}], ids=lambda table: str(table)
)
def test_threads_and_interruptions_change_no_bit(table, tmp_path, monkeypatch):
    monkeypatch.setattr(many, "TOGETHER", 3)
    tree = of_layer(MODULE | {"clip": 0.5}, **table)
    one = finished(tree, threads=1)
    assert_same_state(one, finished(tree, threads=1))
    assert_same_state(one, finished(tree, threads=2))
    half, again = simulation(tree), simulation(tree, threads=2)
    for _ in range(3):
        half.step()
    checkpoint.save(half, tmp_path / "state")
    checkpoint.load(again, tmp_path / "state")
    for _ in again:
        pass
    assert_same_state(one, again)


def test_golfsim_leaves_torch_as_it_was_and_tells_its_version():
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    finished(of_layer(MODULE, cycles=2))
    assert about_this_machine()["versions"]["torch"] == torch.__version__
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    with one_thread():
        assert torch.get_num_threads() == 1
        with one_thread():
            pass
        assert torch.get_num_threads() == 1


def test_all_nodes_begin_with_the_model_that_the_key_draws():
    learner = make(MODULE, HERE)
    one, again, other = (learner.initial(SHAPE, key(seed, "subject", "initial")) for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()
    layer = finished(of_layer(MODULE, cycles=1, adversary=[])).layer("subject")
    assert (layer._initial == layer.config.learner.initial(layer._seen, layer.key("initial"))).all()


def test_arguments_reach_the_constructor():
    small, large = (make(MODULE | {"arguments": {"hidden": hidden}}, HERE) for hidden in (2, 30))
    assert small.parameters(SHAPE) == 2 * 6 + 3 * 3
    assert large.parameters(SHAPE) == 30 * 6 + 3 * 31
    assert make(large.as_setting(), HERE).config == large.config


def complaint(use="Hidden", layer=None, **learner):
    with pytest.raises((ScenarioError, UserError)) as told:
        finished(of_layer({"use": f"torch_nets.py:{use}"} | learner, **(layer or {})))
    return str(told.value)


REFUSED = {
    "Statistics": "BatchNorm",
    "Beside": "together with others",
    "Dropped": "dropout (“drop”)",
    "Noisy": "random",
    "Unseeded": "torch's generator does not determine",
    "Frozen": "does not learn (“out.bias”)",
    "Double": "torch.float64 (“out.weight”)",
    "Wide": "expected [3, 7]",
    "Empty": "has no parameters",
    "Branching": "cannot be used for many nodes at once",
    "Broken": "no weights today",
}


@pytest.mark.parametrize("use", REFUSED)
def test_modules_whose_runs_would_not_repeat_are_refused(use):
    told = complaint(use)
    assert REFUSED[use] in told
    assert "torch_nets.py:" in told
    assert use in told


def test_mistakes_in_the_settings_of_a_module_are_explained():
    assert "no argument “hiden”" in complaint(arguments={"hiden": 3})
    assert "epochs" in complaint(epochs=0)
    assert "exclude each other" in complaint(batch=2, layer={"batch": "one-by-one"})
    noise = {"epsilon": 1.0, "data": TWO}
    assert "no largest length" in complaint(layer=noise)
    assert "one update with all records" in complaint(layer=noise, clip=1.0, epochs=2)
    assert "no learner class “Hiden”" in complaint("Hiden")
    assert "did you mean “Hidden”" in complaint("Hiden")
    for use in (*WITHOUT_PEERS, "decentralised_sgd"):
        assert "set those of the layer" in complaint(layer={"use": use}, batch=2)


def test_layers_that_learn_with_kernels_only_refuse_modules(monkeypatch):
    from protocols.random_walk import Walk

    monkeypatch.setattr(Walk, "batches", False)
    assert "cannot learn with a PyTorch module" in complaint(layer={"use": "random_walk"})


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize("learner", [MODULE, MODULE | {"batch": 2, "epochs": 2, "clip": 1.0}], ids=str)
def test_modules_keep_the_contract(learner):
    learner_contract(learner, folder=HERE)
