"""Records that are published once, with noise: against the references, and through churn, arrival and resume."""

import math

import naive
import numpy as np
import pytest
from helpers import ALPHA, at_cycle, finished, learning_tree, make_layer, make_raw, make_world, simulation, tree
from scipy import stats

from golfsim.core import threads
from golfsim.core.errors import UserError
from golfsim.privacy import gaussian, shuffling
from golfsim.privacy.mechanisms import ROUNDING, Guarantee, RandomResponse
from golfsim.runs.single import guarantees, privacy, together
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.sim import checkpoint
from golfsim.sim.simulation import Simulation
from golfsim.testing import rows
from protocols.data_perturbation import DataPerturbation

PRIVATE = ["per-class", "joint", "label+features"]
MODES = [*PRIVATE, "as-coded"]
PEERS = {"name": "peers", "use": "uniform"}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 2.0}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "published"}
TWO = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
SEVEN = {"set": "segmentation", "train": 120, "test": 40, "scale": ["minmax", "l1"], "bounds": "train"}


def unit_records(rng, counts, classes, features=4, norm="l1"):
    """Records of length 1 for nodes with so many each."""

    def one(n):
        x = rng.random((n, features)).astype(np.float32)
        length = x.sum(axis=1) if norm == "l1" else np.linalg.norm(x, axis=1)
        return x / length[:, None], rng.integers(0, classes, n)

    return [one(n) for n in counts]


def publish(raw, threads=1, **keys):
    """What a layer has published once all nodes have been online."""
    world = make_world(raw.capacity().size, threads=threads)
    layer = make_layer(DataPerturbation, world, records=raw, **keys)
    layer.step(at_cycle(world, 1))
    return layer


def slices(layer):
    """[records, slices, features]"""
    return layer.rows.x.reshape(layer.ledger.visits.size, -1, layer.features)


# Each mode against its reference


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("unit", ["record", "node"])
@pytest.mark.parametrize("epsilon", [math.inf, 3.0])
def test_what_is_published_is_that_of_the_reference(rng, classes, norm, unit, epsilon):
    records = unit_records(rng, [2, 0, 1, 3], classes, norm=norm)
    raw, key, models = make_raw(records, classes), naive.key(1, "layer", "noise"), 1 if classes == 2 else classes
    owner_has = np.repeat([2, 1, 3], [2, 1, 3]) if unit == "node" else np.ones(6)
    d = 4

    def noise(record, share, parts):
        each = epsilon * share / owner_has[record]
        width = d if norm == "l1" else 3 * d
        scale = 0 if math.isinf(each) else 2 / each
        return np.array([naive.NOISE[norm](key, 0, record, m * width, d, scale) for m in range(parts)])

    def published(mode, **keys):
        return slices(publish(raw, epsilon=epsilon, norm=norm, unit=unit, mode=mode, **keys))

    x, label = raw.rows.x, raw.rows.label
    per_class = [naive.publish_per_class(x[r], label[r], models, noise(r, 1 / models, models)) for r in range(6)]
    assert published("per-class") == pytest.approx(np.array(per_class), rel=1e-3, abs=1e-4)
    joint = per_class
    if classes > 2:
        joint = [naive.publish_joint(x[r], label[r], classes, noise(r, 1, classes)) for r in range(6)]
    assert published("joint") == pytest.approx(np.array(joint), rel=1e-3, abs=1e-3)
    if not math.isinf(epsilon):
        layer = publish(raw, epsilon=epsilon, norm=norm, unit=unit, mode="label+features", label_epsilon=1.0)
        features = [x[r] + noise(r, 2 / 3, 1)[0] for r in range(6)]
        assert layer.rows.x == pytest.approx(np.array(features), rel=1e-3, abs=1e-4)
        draws = [[naive.draw(key, 1, r, k) for k in range(2)] for r in range(6)]
        answers = [naive.respond(*draws[r], label[r], classes, 1.0 / owner_has[r]) for r in range(6)]
        assert layer.rows.label.tolist() == answers
    coded = publish(raw, epsilon=epsilon, norm=norm, unit=unit, mode="as-coded")
    expected = [naive.publish_as_coded(x[r], label[r], noise(r, 1, 1)[0]) for r in range(6)]
    assert coded.rows.x == pytest.approx(np.array([x for x, _ in expected]), rel=1e-3, abs=1e-4)
    assert coded.rows.label.tolist() == [label for _, label in expected]


@pytest.mark.parametrize("data", [TWO, SEVEN], ids=["two classes", "seven"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("learner", ["pegasos", "logistic", "mean"])
def test_without_noise_golf_learns_bit_for_bit_what_it_learns_from_raw_records(data, mode, learner):
    golf = GOLF | {"learner": learner}
    common = {"data": data, "nodes": {"records": 2}, "cycles": 8, "transport": {"loss": 0.2}}
    with np.errstate(over="ignore"):  # exp of a huge margin: infinite, as it should be
        with_mode = finished(tree(PEERS, PUBLISHED | {"epsilon": math.inf, "mode": mode}, golf, **common))
        from_raw = finished(tree(PEERS, golf | {"records": "raw"}, **common))
    assert with_mode.layer("learning").w.tobytes() == from_raw.layer("learning").w.tobytes()
    assert [row for row in rows(with_mode) if row[1][0] == "learning"] == [
        row for row in rows(from_raw) if row[1][0] == "learning"
    ]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("mode", MODES)
def test_without_noise_decoding_gives_records_and_labels_back(rng, classes, mode):
    raw = make_raw(unit_records(rng, [3, 2], classes), classes)
    x, label = publish(raw, epsilon=math.inf, mode=mode).decoded(np.array([4, 0, 1, 2]))
    assert x == pytest.approx(raw.rows.x[[4, 0, 1, 2]], abs=1e-6)
    assert label.tolist() == raw.rows.label[[4, 0, 1, 2]].tolist()


def one_node(n, label, classes, d=2):
    """One node with n records that are all e_1."""
    return make_raw([(np.tile(np.eye(d)[0], (n, 1)), np.full(n, label))], classes)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_scales_of_all_modes_are_those_of_the_table(classes):
    """Their noise at ε = 4: per class 2c/ε; joint 2/ε a block, which decoding adds up over c; label+features 2/ε_x."""
    raw, models, n = one_node(4000, 1, classes), 1 if classes == 2 else classes, 4000

    def sd(mode, **keys):
        noise = slices(publish(raw, epsilon=4.0, mode=mode, **keys)) - slices(publish(raw, epsilon=math.inf, mode=mode))
        return noise.std()

    # The variance of Laplace(b) is 2b²; the sd of 8000 numbers or more has a relative sd of 1.3 %: four of these.
    assert sd("per-class") == pytest.approx(math.sqrt(2) * 2 * models / 4, rel=0.05)
    assert sd("joint") == pytest.approx(math.sqrt(2 * models) * 2 / 4, rel=0.05)
    assert sd("label+features", label_epsilon=1.5) == pytest.approx(math.sqrt(2) * 2 / 2.5, rel=0.05)
    labels = publish(raw, epsilon=4.0, mode="label+features", label_epsilon=1.5).rows.label
    expected = naive.response_probabilities(classes, 1.5)[1] * n
    assert stats.chisquare(np.bincount(labels, minlength=classes), expected).pvalue > ALPHA


def test_the_default_label_gets_a_quarter_or_as_much_as_makes_it_true_99_times_in_100():
    config = {"name": "layer", "use": "test", "mode": "label+features", "records": one_node(1, 0, 2)}
    small = DataPerturbation.Config(epsilon=1.0, **config)
    large = DataPerturbation.Config(epsilon=100.0, **config)
    assert small.epsilon_of_label(10) == 0.25
    assert naive.response_probabilities(10, large.epsilon_of_label(10))[0, 0] == pytest.approx(0.99)
    assert DataPerturbation.Config(**config | {"mode": "joint"}, epsilon=1.0).epsilon_of_label(3) == 0


# Independence


@pytest.mark.parametrize("mode", ["per-class", "joint"])
def test_noise_is_independent_between_classes_and_between_records(mode):
    raw = one_node(4000, 0, 3, d=1)
    noise = slices(publish(raw, epsilon=1.0, mode=mode)) - slices(publish(raw, epsilon=math.inf, mode=mode))
    noise = noise[:, :, 0]
    if mode == "joint":  # undo the decoding: z_m = 2 b_m − Σ b, so Σ z = (2 − c) Σ b
        total = noise.sum(axis=1, keepdims=True) / (2 - 3)
        noise = (noise + total) / 2
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        assert stats.spearmanr(noise[:, a], noise[:, b]).pvalue > ALPHA
        assert stats.spearmanr(abs(noise[:, a]), abs(noise[:, b])).pvalue > ALPHA
    assert stats.spearmanr(noise[:-1, 0], noise[1:, 0]).pvalue > ALPHA
    assert stats.spearmanr(noise[:-1, 1], noise[1:, 0]).pvalue > ALPHA


def test_the_noise_of_a_label_is_independent_of_that_of_the_features():
    layer = publish(one_node(4000, 0, 2, d=1), epsilon=2.0, mode="label+features", label_epsilon=0.5)
    noise = layer.rows.x[:, 0] - 1
    assert stats.ks_2samp(noise[layer.rows.label == 0], noise[layer.rows.label == 1]).pvalue > ALPHA


def test_published_noise_is_laplace():
    layer = publish(one_node(4000, 1, 2, d=2), epsilon=4.0)
    noise = (layer.rows.x - np.array([1, 0])).ravel()
    assert stats.kstest(noise, stats.laplace(scale=0.5).cdf).pvalue > ALPHA


# Once


def all_published(**tables):
    """A run of data perturbation among churn; yields it after each cycle."""
    layer = PUBLISHED | tables.pop("layer", {})
    run = simulation(tree(PEERS, layer, GOLF, **({"data": TWO, "nodes": {"records": 2}, "cycles": 25} | tables)))
    for _ in run:
        yield run


@pytest.mark.parametrize("back", ["keep", "afresh"])
@pytest.mark.parametrize("mode", MODES)
def test_a_record_is_published_when_its_node_first_comes_online_and_never_changes(mode, back):
    churn = [
        {"kind": "rate", "leave": 0.3, "rejoin": 0.3, "return": back},
        {"kind": "join", "share": 0.5, "until": 15},
    ]
    before = visits = None
    for run in all_published(churn=churn, layer={"mode": mode}):
        layer = run.layer("published")
        there = run.world.seen
        assert ((layer.stop - layer.first) == 2 * there).all()
        assert (layer.ledger.visits == np.repeat(there, 2)).all()
        assert layer.ledger.spent().max() == (math.inf if mode == "as-coded" else 2.0)
        assert run.latest["published"]["spent.exhausted"] == there.mean()
        if before is not None:
            was = np.repeat(visits, 2)
            z = layer.rows.x.reshape(was.size, -1)
            assert (z[was] == before[was]).all()
            assert not z[~np.repeat(there, 2)].any()
        before, visits = layer.rows.x.reshape(layer.ledger.visits.size, -1).copy(), there.copy()
    assert visits.all()


def test_the_noise_of_a_record_does_not_depend_on_when_it_is_published():
    early = finished(tree(PEERS, PUBLISHED, data=TWO, nodes={"records": 2}, cycles=20))
    churn = {"kind": "join", "share": 0.9, "until": 15}
    late = finished(tree(PEERS, PUBLISHED, data=TWO, nodes={"records": 2}, cycles=20, churn=churn))
    assert early.layer("published").z.tobytes() == late.layer("published").z.tobytes()


def test_a_resumed_run_publishes_the_same_and_spends_nothing_twice(tmp_path):
    table = tree(PEERS, PUBLISHED, data=TWO, nodes={"records": 2}, churn={"kind": "join", "share": 0.9, "until": 6})
    half = simulation(table)
    for _ in range(3):
        half.step()
    checkpoint.save(half, tmp_path / "state")
    resumed = simulation(table)
    checkpoint.load(resumed, tmp_path / "state")
    assert 0 < resumed.layer("published").ledger.visits.sum() < 80
    for _ in resumed:
        assert resumed.layer("published").ledger.visits.max() == 1
    assert resumed.layer("published").z.tobytes() == finished(table).layer("published").z.tobytes()


def test_records_are_published_as_they_arrive_and_retired_ones_are_used_no_more():
    arrival = {"start": 0.25, "rate": 0.5, "keep": 3}
    sizes = []
    for run in all_published(nodes={"records": 8, "arrival": arrival}):
        layer, raw = run.layer("published"), run.raw
        assert (layer.rows.first == raw.rows.first).all()
        assert (layer.rows.stop == raw.rows.stop).all()
        assert layer.ledger.visits.max() == 1
        sizes.append(layer.ledger.visits.sum())
    assert sizes[0] < sizes[5] < sizes[-1] == 80
    assert sizes == sorted(sizes)


def test_records_that_arrive_while_a_node_is_away_are_published_when_it_is_back():
    churn = {"kind": "rate", "leave": 0.3, "rejoin": 0.3}
    behind = 0
    for run in all_published(nodes={"records": 8, "arrival": {"start": 0.25, "rate": 0.5}}, churn=churn):
        layer, raw, online = run.layer("published"), run.raw, run.world.online
        assert (layer.rows.stop[online] == raw.rows.stop[online]).all()
        assert (layer.rows.stop <= raw.rows.stop).all()
        behind += (layer.rows.stop < raw.rows.stop).sum()
    assert behind > 0


def test_what_is_published_of_a_node_never_begins_after_its_end():
    churn = {"kind": "rate", "leave": 0.3, "rejoin": 0.1}
    for run in all_published(nodes={"records": 20, "arrival": {"start": 0.05, "rate": 1.0, "keep": 1}}, churn=churn):
        assert (run.layer("published").rows.first <= run.layer("published").rows.stop).all()


def test_a_flipped_label_changes_nothing_that_was_published():
    bad = [{"kind": "flip-labels", "share": 1.0, "from": 3}]
    honest, flipped = (finished(tree(PEERS, PUBLISHED, data=TWO, nodes={"records": 2}, adversary=a)) for a in ([], bad))
    assert (honest.raw.rows.label != flipped.raw.rows.label).all()
    assert honest.layer("published").z.tobytes() == flipped.layer("published").z.tobytes()


@pytest.mark.parametrize("mode", MODES)
def test_any_number_of_threads_publishes_the_same(monkeypatch, rng, mode):
    monkeypatch.setattr(threads, "SMALLEST_SHARE", 4)
    raw = make_raw(unit_records(rng, [7, 0, 20, 30], 3), 3)
    one, three = (publish(raw, threads=threads, epsilon=1.0, mode=mode) for threads in (1, 3))
    assert one.z.tobytes() == three.z.tobytes()
    assert one.label.tobytes() == three.label.tobytes()


# What is refused and what is said


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("mode", MODES)
def test_records_longer_than_1_are_refused_with_the_key_and_what_to_do(rng, norm, mode):
    records = unit_records(rng, [2, 2], 2, norm=norm)
    records[1][0][0] *= 1.001
    with pytest.raises(UserError, match=rf"the longest record has {norm.upper()} length 1\.001") as caught:
        publish(make_raw(records, 2), epsilon=1.0, norm=norm, mode=mode)
    assert caught.value.key == "layer.norm"
    assert f'"{norm}" to scale in [data]' in caught.value.hint


def test_the_scale_covers_the_longest_record_that_is_let_in(rng):
    records = unit_records(rng, [1], 2)
    records[0][0][0] *= 1 + 0.9 * ROUNDING / 2
    layer = publish(make_raw(records, 2), epsilon=1.0)
    assert layer._scale[0] >= 2 * float(np.abs(records[0][0][0].astype(np.float64)).sum())


def test_a_scenario_without_unit_length_is_refused_before_it_runs():
    with pytest.raises(UserError, match="the guarantee needs at most 1"):
        simulation(tree(PEERS, PUBLISHED, data=TWO | {"scale": ["minmax"]}, nodes={"records": 2}))


@pytest.mark.parametrize(
    "keys",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"label_epsilon": 1.0},
        {"mode": "joint", "label_epsilon": 1.0},
        {"mode": "as-coded", "label_epsilon": 1.0},
        {"mode": "label+features", "label_epsilon": 2.0},
        {"mode": "label+features", "label_epsilon": 0.0},
        {"norm": "l3"},
        {"unit": "person"},
    ],
)
def test_impossible_settings_are_refused(keys):
    with pytest.raises(ScenarioError, match="published"):
        simulation(tree(PEERS, PUBLISHED | keys, data=TWO, nodes={"records": 2}))


@pytest.mark.parametrize("unit", ["record", "node"])
@pytest.mark.parametrize("mode", PRIVATE)
def test_the_guarantee_is_epsilon_for_the_unit_and_learning_from_it_has_the_same(mode, unit):
    table = tree(PEERS, PUBLISHED | {"mode": mode, "unit": unit}, GOLF, data=TWO, nodes={"records": 2})
    run = simulation(table)
    for layer in ("published", "learning"):
        assert str(run.layer(layer).guarantee()) == f"ε = 2 per {unit}, proven"


@pytest.mark.parametrize("unit", ["record", "node"])
def test_as_coded_no_epsilon_is_proven_because_the_label_is_published(unit):
    layer = PUBLISHED | {"mode": "as-coded", "unit": unit}
    run = finished(tree(PEERS, layer, GOLF, data=TWO, nodes={"records": 2}))
    for name in ("published", "learning"):
        assert run.layer(name).guarantee().epsilon is None
        stated = f"not private: label not private; for the features only: ε = 2 per {unit}"
        assert str(run.layer(name).guarantee()) == guarantees(run)[name] == stated
    assert privacy(run)["published"]["proven"] is None
    assert privacy(run)["published"]["released"] == "records with noise, labels without noise"
    assert run.latest["published"]["spent.max"] == math.inf
    assert guarantees(finished(tree(PEERS, layer, layer | {"name": "again"}, data=TWO, nodes={"records": 2})))[
        "together"
    ].startswith("not private")


def test_as_coded_the_guarantee_states_what_the_features_lack_too():
    data = TWO | {"bounds": "train"}
    run = simulation(tree(PEERS, PUBLISHED | {"mode": "as-coded"}, data=data, nodes={"records": 2}))
    note = run.layer("published").guarantee().note
    assert note.startswith("label not private; for the features only: ε = 2 per record except for")


def test_learning_from_raw_records_or_without_noise_is_not_private():
    run = simulation(
        tree(PEERS, PUBLISHED | {"epsilon": math.inf}, GOLF | {"records": "raw"}, data=TWO, nodes={"records": 2})
    )
    assert str(run.layer("learning").guarantee()) == "not private"
    assert str(run.layer("published").guarantee()) == "not private"


def test_publishing_what_was_published_already_is_refused_or_has_the_first_epsilon():
    first = PUBLISHED | {"name": "first", "epsilon": 100.0, "mode": "label+features"}
    try:
        run = simulation(tree(PEERS, first, PUBLISHED | {"records": "first"}, data=TWO, nodes={"records": 2}))
    except UserError:
        return
    assert run.layer("published").guarantee().epsilon >= 100


def test_a_record_that_several_nodes_hold_has_no_smaller_guarantee_than_it_gets():
    run = finished(tree(PEERS, PUBLISHED, data=TWO, nodes={"number": 160, "records": 1, "repeat": True}))
    same, copies = np.unique(np.column_stack([run.raw.rows.x, run.raw.rows.label]), axis=0, return_counts=True)
    assert len(same) == 80
    assert run.layer("published").guarantee().epsilon >= 2.0 * copies.max()


def test_a_label_is_answered_with_the_probability_of_its_epsilon(rng):
    layer = publish(make_raw(unit_records(rng, [2, 3], 4), 4), epsilon=8.0, mode="label+features", unit="node")
    label_epsilon = layer.config.epsilon_of_label(4)
    assert label_epsilon == 2.0
    expected = [RandomResponse(epsilon=label_epsilon / n, values=4).p for n in (2, 2, 3, 3, 3)]
    assert layer._truth == pytest.approx(expected)


def test_the_guarantees_of_layers_that_use_the_same_records_add_up():
    parts = [Guarantee(2.0), Guarantee(3.0)]
    assert together(parts) == Guarantee(5.0)
    assert together([*parts, Guarantee(None)]).epsilon is None
    assert together([*parts, Guarantee(1.0, "node")]).epsilon is None


def test_a_run_states_the_guarantee_of_all_its_layers_together():
    again = PUBLISHED | {"name": "again", "epsilon": 3.0}
    run = finished(tree(PEERS, PUBLISHED, again, data=TWO, nodes={"records": 2}))
    total = PUBLISHED["epsilon"] + 3.0
    assert guarantees(run)["together"] == f"ε = {total:g} per record, proven"
    assert "together" not in guarantees(finished(tree(PEERS, PUBLISHED, data=TWO, nodes={"records": 2})))


def test_a_layer_of_somebody_elses_that_reads_raw_records_makes_the_sum_not_private(tmp_path):
    (tmp_path / "peeking.py").write_text(
        "from typing import Any\n"
        "from golfsim.protocol import Layer, LayerConfig, Protocol\n"
        "from golfsim.protocol.records import Records\n"
        "class Settings(LayerConfig):\n"
        "    records: Layer[Records[Any]]\n"
        "class Peeking(Protocol[Settings]):\n"
        "    Config = Settings\n"
    )
    layers = [PUBLISHED | {"name": name} for name in ("one", "two")]
    peeking = {"name": "peeking", "use": "peeking.py:Peeking"}
    for records, private in (("raw", False), ("one", True)):
        stack = tree(PEERS, *layers, peeking | {"records": records}, data=TWO, nodes={"records": 2})
        told = guarantees(Simulation(Scenario.of(stack, folder=tmp_path)))
        assert told["together"].startswith("ε = 4 per record") == private
        assert ("peeking" in told) != private


def test_a_layer_of_somebody_elses_that_spreads_local_models_makes_the_sum_not_private(tmp_path):
    (tmp_path / "spreading.py").write_text(
        "from golfsim.protocol import Layer, LayerConfig, Protocol\n"
        "from protocols.regularised_erm import RegularisedErm\n"
        "class Settings(LayerConfig):\n"
        "    models: Layer[RegularisedErm]\n"
        "class Spreading(Protocol[Settings]):\n"
        "    Config = Settings\n"
    )
    local = {"name": "local", "use": "regularised_erm", "lambda": 0.1}
    noisy = local | {"noise": "output", "epsilon": 1.0, "records": "raw"}
    spreading = {"name": "spreading", "use": "spreading.py:Spreading", "models": "local"}
    data = TWO | {"scale": ["minmax", "l2"]}
    for models, private in ((local, False), (noisy, True), (local | {"records": "published"}, True)):
        published = PUBLISHED | {"norm": "l2"}
        stack = tree(PEERS, published, models, spreading, data=data, nodes={"records": 2})
        told = guarantees(Simulation(Scenario.of(stack, folder=tmp_path)))
        assert ("spreading" in told) != private
        assert (told.get("together") == "not private") != private


def test_shuffled_symbols_have_a_central_epsilon_and_a_larger_local_one():
    data = {"set": "random", "train": 400, "test": 20, "scale": ["minmax", "l1"]}
    layer = {"name": "published", "use": "data_perturbation", "epsilon": 1.0, "mode": "sampled", "shuffle_delta": 1e-5}
    run = finished(learning_tree(layer, number=200, data=data, cycles=2))
    published = run.layer("published")
    local, central = published.guarantee(), published.central()
    assert local.epsilon == shuffling.local_of(400, 1.0, 1e-5) > 1.0
    assert 0.99 < central.epsilon <= 1.0
    assert central.delta == 1e-5
    assert "400 records" in central.note
    assert published.ledger.total == local.epsilon
    assert published.sampled._problem.epsilons == (local.epsilon,)
    assert published.disclosure().trust == "the shuffler"


def test_a_record_at_several_nodes_has_several_times_the_sensitivity():
    raw = make_raw([(np.ones((1, 1)), [0])] * 3, 2)
    raw._copies = 3
    stated = raw.guarantee_of(0.5, "record", 1e-6)
    assert stated.epsilon == pytest.approx(gaussian.epsilon_of(3 * gaussian.mu_of(0.5, 1e-6), 1e-6), rel=1e-4)
    assert stated.epsilon > 1.5
    assert stated.delta == 1e-6
    label = raw.guarantee_of(0.5, "record", 1e-6, 0.2)  # a part of .2 is pure: three times that, and Gaussian noise
    assert label.epsilon == pytest.approx(0.6 + gaussian.epsilon_of(3 * gaussian.mu_of(0.3, 1e-6), 1e-6), rel=1e-4)
    assert raw.guarantee_of(50.0, "record").epsilon == 150.0
