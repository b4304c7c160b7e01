"""A sensitive feature that is guessed from everything else, against what theory says."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import HERE, at_cycle, finished, make_layer, make_raw, make_world, needs_jit, simulation, tree

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.protocol.learner import score
from golfsim.protocol.records import Published
from golfsim.scenario.model import Scenario
from golfsim.sim import attribute
from protocols.data_perturbation import DataPerturbation

PEERS = {"name": "peers", "use": "uniform"}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 2.0}
SPAM = {"set": "spambase", "train": 800, "test": 400, "scale": ["minmax", "l1"]}
KEY = rng.key(1, "observe", "attack")


def measured(layer, sensitive=4, data=SPAM, **tables):
    observe = {"every": 1, "nodes": 5, "attacks": ["attribute"], "sensitive": sensitive}
    return finished(tree(PEERS, layer, data=data, nodes={"records": 1}, **({"cycles": 1, "observe": observe} | tables)))


def correct(epsilon, **keys):
    return measured(PUBLISHED | {"epsilon": epsilon} | keys).latest["published"]


def binary(generator, records, distance, features=3):
    """Records whose feature 0 is 0 or `distance`, and public ones."""
    x = generator.random((records, features)) * (1 - distance) / features
    x[:, 0] = distance * generator.integers(0, 2, records)
    return x.astype(np.float32), generator.integers(0, 2, records).astype(np.int32)


@needs_jit
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0])
@pytest.mark.parametrize("mode", ["per-class", "as-coded"])
def test_a_binary_feature_is_guessed_as_often_as_laplace_noise_allows(rng, epsilon, mode):
    distance = 0.5
    x, y = binary(rng, 4000, distance)
    raw, world = make_raw([(x, y)], 2), make_world(1)
    layer = make_layer(DataPerturbation, world, records=raw, epsilon=epsilon, mode=mode)
    layer.step(at_cycle(world, 1))
    test = binary(rng, 50, distance)
    found = attribute.of_published(layer, raw, attribute.sensitive(0, (), test[0], ()), test, KEY, world)
    # Of two values at a distance d, the nearer one is the true one unless the noise exceeds d/2: with scale b = 2/ε
    # this happens with probability e^(−d/2b)/2. The sd of a share of 4000 is .008 at most; four of these.
    assert found["attribute.correct"] == pytest.approx(1 - np.exp(-distance * epsilon / 4) / 2, abs=0.032)
    assert found["attribute.base"] == pytest.approx(0.5, abs=0.032)
    assert found["attribute.known"] == pytest.approx(0.5, abs=0.05)


@needs_jit
@pytest.mark.parametrize("mode", ["per-class", "label+features", "sampled"])
def test_more_epsilon_tells_more(mode):
    found = [correct(epsilon, mode=mode)["attribute.correct"] for epsilon in (1.0, 30.0, 1000.0)]
    assert found[0] < found[1] < found[2]


@needs_jit
@pytest.mark.parametrize("scale", [["minmax", "l1"], ["minmax", "l2"], ["minmax", "l1", "bias"], ["minmax"]])
def test_without_noise_every_value_is_known(scale):
    run = simulation(tree(PEERS, data=SPAM | {"scale": scale}, nodes={"records": 1}, cycles=1))
    raw, test = run.raw, run.observer._test
    what = attribute.sensitive(4, raw.about.features, test.x, tuple(scale))
    found = attribute.of_published(Plain(raw), raw, what, (test.x, test.y), KEY, run.world)
    assert found["attribute.correct"] > 0.999


class Plain(Published):
    """A layer that publishes the records of another one without noise."""

    def __init__(self, raw):
        self._raw = raw

    @property
    def rows(self):
        return self._raw.rows

    def decoded(self, records):
        return self._raw.rows.x[records], self._raw.rows.label[records]


def test_a_candidate_has_the_length_that_all_records_have():
    data = {"set": "segmentation", "train": 50, "test": 30}
    for name, order in (("l1", 1), ("l2", 2)):
        run = simulation(tree(PEERS, data=data | {"scale": ["minmax", name, "bias"]}, nodes={"records": 1}, cycles=1))
        x, names = run.raw.rows.x, run.raw.about.features
        what = attribute.sensitive(names[5], names, run.observer._test.x, ("minmax", name, "bias"))
        found = what.candidate(what.known(x), 0.3)
        assert np.linalg.norm(found[:, :-1], order, axis=1) == pytest.approx(1, abs=1e-6)
        assert (found[:, 5] == 0.3).all()
        assert (found[:, -1] == 1).all()
        for record, true in zip(what.known(x), x, strict=True):  # the true value gives the true record
            assert what.candidate(record[None], true[5]) == pytest.approx(true[None], abs=1e-6)


def test_the_attacker_does_not_know_the_value_by_the_length():
    what = attribute.Sensitive(1, 0.1, np.zeros(1), np.ones(1), "l1", np.zeros(3, np.bool_))
    one, other = (np.array([[0.3, value, 0.6]]) for value in (0.1, 0.7))
    known = [what.known(x / x.sum()) for x in (one, other)]
    assert known[0] == pytest.approx(known[1])
    assert known[0][0, 1] == 0


def test_the_guess_depends_on_what_was_published_only(rng):
    x, y = binary(rng, 300, 0.5)
    world, raw = make_world(1), make_raw([(x, y)], 2)
    layer = make_layer(DataPerturbation, world, records=raw, epsilon=10.0)
    layer.step(at_cycle(world, 1))
    test = binary(rng, 50, 0.5)
    what = attribute.sensitive(0, (), test[0], ())
    before = attribute.of_published(layer, raw, what, test, KEY, world)["attribute.correct"]
    raw._x[:, 0] = 0.5 - raw._x[:, 0]  # every truth is turned round, and nothing else
    assert attribute.of_published(layer, raw, what, test, KEY, world)["attribute.correct"] == pytest.approx(1 - before)


WAYS = [
    ({"mode": mode, "norm": norm}, classes)
    for mode in ("per-class", "joint", "label+features")
    for norm in ("l1", "l2")
    for classes in (2, 3)
]


@pytest.mark.parametrize(("way", "classes"), [*WAYS, ({"noise": "gaussian", "delta": 1e-5, "norm": "l2"}, 3)])
def test_the_misfit_is_the_length_of_the_noise_that_a_candidate_implies(rng, way, classes):
    x = rng.random((5, 4)).astype(np.float32)
    x /= x.sum(axis=1, keepdims=True)
    label = np.array([0, 1, 2, 1, 0], np.int32) % classes

    def released(values, epsilon):
        world = make_world(1)
        layer = make_layer(
            DataPerturbation, world, records=make_raw([(values, label)], classes), epsilon=epsilon, **way
        )
        layer.step(at_cycle(world, 1))
        numbers = layer.released()[: layer.z.size]
        return layer, numbers.reshape(5, -1, 4)

    layer, noisy = released(x, 3.0)
    candidate = rng.random((5, 4)).astype(np.float32) / 4
    noise = noisy - released(candidate, float("inf"))[1]
    if "delta" in way:
        expected = np.square(noise).sum(axis=(1, 2))
    elif way["norm"] == "l1":
        expected = np.abs(noise).sum(axis=(1, 2))
    else:
        expected = np.sqrt(np.square(noise).sum(axis=2)).sum(axis=1)
    found = layer.misfit(np.arange(5, dtype=np.int32), candidate.astype(np.float64), label)
    assert found == pytest.approx(expected, rel=1e-5)


# Models


def of_models(w, x, y, test):
    layer = SimpleNamespace(scores=lambda nodes, records: score(w[nodes], records))
    raw, holders = make_raw([(x, y)], 2), np.arange(len(w), dtype=np.int32)
    what = attribute.sensitive(0, (), test[0], ())
    return attribute.of_models(layer, holders, raw, what, test, KEY, make_world(1))


@pytest.mark.parametrize("weight", [2.0, -2.0])
def test_a_model_tells_the_value_that_goes_with_the_label(rng, weight):
    x, y = binary(rng, 400, 0.5)
    y = (x[:, 0] > 0).astype(np.int32) if weight > 0 else (x[:, 0] == 0).astype(np.int32)
    w = np.array([[[weight, 0, 0]]], np.float32)
    found = of_models(w, x, y, (x, y))
    assert found["attribute.correct"] == 1
    assert found["attribute.known"] == 1  # the label alone tells it as well
    assert of_models(-w, x, y, (x, y))["attribute.correct"] == 0


def test_a_model_without_the_feature_tells_nothing(rng):
    x, y = binary(rng, 400, 0.5)
    found = of_models(np.array([[[0, 1, 1]]], np.float32), x, y, (x, y))
    assert found["attribute.correct"] == (x[:, 0] == 0).mean()


def test_models_that_learn_from_published_records_are_not_attacked():
    learning = {"name": "learning", "use": "golf", "peers": "peers", "records": "published"}
    observe = {"every": 3, "nodes": 5, "attacks": ["attribute"], "sensitive": "word_freq_george"}
    made = tree(PEERS, PUBLISHED, learning, data=SPAM | {"train": 40}, nodes={"records": 1}, cycles=3, observe=observe)
    found = finished(made).latest
    assert {name for name in found["published"] if "attribute" in name} == {metric.name for metric in attribute.METRICS}
    assert not [name for name in found["learning"] if "attribute" in name]
    made["protocol"] = [PEERS, learning | {"records": "raw"}]
    assert "attribute.correct" in finished(made).latest["learning"]


# What is public


@pytest.mark.parametrize(
    ("values", "median"), [([0, 0, 0, 1], 0), ([0, 1, 1, 1], 0), ([1, 2, 3, 4], 3), ([0, 0, 2, 2], 0), ([4, 1], 1)]
)
def test_the_sides_are_divided_at_the_median_of_the_public_records(values, median):
    x = np.array(values, np.float32)[:, None]
    what = attribute.sensitive(0, (), x, ())
    assert what.median == median
    assert 0 < what.above(x).sum() < len(values)
    assert set(what.low.tolist()) | set(what.high.tolist()) == set(map(float, values))


def test_a_sensitive_feature_that_tells_nothing_or_is_not_there_is_refused():
    x, names = np.ones((4, 2), np.float32), ("age", "income")
    for wanted, said in ((0, "the same value"), ("agee", "no feature “agee”"), (2, "numbers 0 … 1")):
        with pytest.raises(UserError, match=said) as caught:
            attribute.sensitive(wanted, names, x, ())
        assert caught.value.key == "observe.sensitive"


@pytest.mark.parametrize(
    ("observe", "said"),
    [({"attacks": ["attribute"]}, "required with the attack"), ({"sensitive": 1}, "only with the attack")],
)
def test_the_attack_and_its_feature_need_each_other(observe, said):
    with pytest.raises(UserError, match=f"sensitive: {said}"):
        Scenario.of(tree(PEERS, PUBLISHED, data=SPAM, nodes={}, observe=observe), HERE)
