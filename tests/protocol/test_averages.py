"""What layers of averages share: the numbers they average, epochs, the size of the network, and their guarantee."""

import numpy as np
import pytest
from entries import GIVEN, LOCAL, PEERS, SUMS
from helpers import HERE, finished, learning_tree, needs_jit, simulation, tree

from golfsim.core.errors import UserError
from golfsim.learning.closed_form import FITS, Settings
from golfsim.protocol.learner import classify
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario

BOTH = pytest.mark.parametrize("use", ["averaging", "push_sum"])
MEANS = {"name": "means", "peers": "peers"}
COUNTING = MEANS | {"initial": "count"}
MODEL = {"name": "model", "use": "averaged_model", "averages": "means"}


def everyone(run):
    return np.arange(run.world.nodes, dtype=np.int32)


@BOTH
@pytest.mark.parametrize("width", [1, 3, 8, 19])
def test_every_node_learns_the_mean_of_each_number(use, width):
    run = finished(tree(PEERS, GIVEN | {"width": width}, MEANS | {"use": use, "of": "given"}, nodes=50, cycles=60))
    means, own = run.layer("means"), run.layer("given").values(run.world, everyone(run), False)
    assert means.known(everyone(run)).all()
    np.testing.assert_allclose(means.estimates(everyone(run)), np.tile(own.mean(axis=0), (50, 1)), rtol=1e-9)
    assert run.latest["means"]["value.mean"] == pytest.approx(own.mean())
    assert run.latest["means"]["value.variance"] == pytest.approx(0, abs=1e-15)


def test_the_variance_of_rows_is_the_mean_of_the_variances_of_their_numbers():
    layer = MEANS | {"use": "averaging", "of": "given", "first": 1}
    run = finished(tree(PEERS, GIVEN | {"width": 11}, layer, nodes=50, cycles=1))
    value = run.layer("means").value
    assert run.latest["means"]["value.variance"] == pytest.approx(value.var(axis=0).mean())
    own = run.layer("given").values(run.world, everyone(run), False)
    shift = 50 * ((value.mean(axis=0) - own.mean(axis=0)) ** 2).mean() / own.var(axis=0).mean()
    assert run.latest["means"]["value.shift"] == pytest.approx(shift, abs=1e-20)


def test_second_moments_are_asked_for():
    layer = MEANS | {"use": "averaging", "of": "given", "moments": 2}
    assert simulation(tree(PEERS, GIVEN, layer)).layer("means").value.shape == (30, 6)


@BOTH
def test_a_node_that_joins_later_brings_its_own_numbers(use):
    joins = {"kind": "join", "share": 0.5, "from": 5, "until": 8}
    layer = MEANS | {"use": use, "of": "given"}
    run = simulation(tree(PEERS, GIVEN, layer, nodes=40, cycles=60, churn=joins))
    run.step()
    assert run.world.online.sum() == 20
    assert run.layer("means").known(everyone(run)).sum() == 20
    for _ in run:
        pass
    own = run.layer("given").values(run.world, everyone(run), False)
    np.testing.assert_allclose(run.layer("means").estimates(everyone(run)), np.tile(own.mean(axis=0), (40, 1)))


# Epochs


@BOTH
def test_the_estimate_of_the_last_complete_epoch_is_readable_while_the_next_one_runs(use):
    run = simulation(tree(PEERS, GIVEN, MEANS | {"use": use, "of": "given", "epoch": 4}, cycles=12))
    layer, seen = run.layer("means"), []
    for cycle in run:
        assert layer.known(everyone(run)).all() == (cycle >= 4)
        seen.append(layer.estimates(everyone(run)).tobytes())
    assert (layer.complete == 3).all()
    changed = [cycle for cycle in range(2, 13) if seen[cycle - 1] != seen[cycle - 2]]
    assert changed == [4, 8, 12]


@pytest.mark.parametrize(
    ("first", "every", "complete"), [(1, 1, [5, 10]), (3, 1, [7, 12]), (1, 2, [5, 9]), (2, 3, [5])]
)
def test_an_epoch_ends_with_its_last_turn(first, every, complete):
    layer = MEANS | {"use": "averaging", "epoch": 5, "first": first, "every": every, "until": 12}
    run, found = simulation(tree(PEERS, layer, cycles=12)), []
    for cycle in run:
        if int(run.layer("means").complete[0]) > len(found):
            found.append(cycle)
    assert found[: len(complete)] == complete


@BOTH
@pytest.mark.parametrize("delay", [0, 2])
def test_nodes_that_come_during_an_epoch_take_no_part_until_the_next(use, delay):
    if use == "averaging" and delay:
        return
    joins = {"kind": "join", "share": 0.5, "from": 3, "until": 3}
    layer = MEANS | {"use": use, "of": "given", "epoch": 30}
    run = simulation(tree(PEERS, GIVEN, layer, nodes=40, cycles=60, churn=joins, transport={"delay": delay}))
    first, own = None, run.layer("given").values(run.world, everyone(run), False)
    for cycle in run:
        if cycle == 1:
            first = run.world.online.copy()
        if cycle == 30:
            known = run.layer("means").known(everyone(run))
            assert (known == first).all()
            one = run.layer("means").estimates(everyone(run))[first]
            if not delay:  # halves that are refused on arrival are lost
                np.testing.assert_allclose(one, np.tile(own[first].mean(axis=0), (20, 1)), rtol=2e-2)
    two = run.layer("means").estimates(everyone(run))
    np.testing.assert_allclose(two, np.tile(own.mean(axis=0), (40, 1)), rtol=2e-2)


@BOTH
def test_a_node_that_leaves_and_returns_takes_part_again_in_the_next_epoch(use):
    leave = {"kind": "rate", "leave": 0.3, "rejoin": 0.5}
    run = simulation(tree(PEERS, GIVEN, MEANS | {"use": use, "of": "given", "epoch": 3}, cycles=30, churn=leave))
    layer, world = run.layer("means"), run.world
    inside = np.zeros(30, bool)
    for cycle in run:
        inside = world.online.copy() if (cycle - 1) % 3 == 0 else inside & world.online
        part = np.zeros(30, bool)
        part[layer.taking_part(world)] = True
        assert (part == inside & (world.since <= layer.begun)).all()
        assert part[world.since > layer.begun].sum() == 0
    assert 1 < layer.complete.max() < 10


@BOTH
def test_the_size_of_a_network_that_shrinks_and_grows_is_followed_with_one_epoch_s_delay(use):
    churn = [{"kind": "crash", "at": 45, "share": 0.5}]
    run = simulation(tree(PEERS, COUNTING | {"use": use, "epoch": 30}, nodes=200, cycles=90, churn=churn))
    found = {cycle: run.latest["means"].get("size.mean") for cycle in run}
    assert found[29] is None
    assert found[30] == pytest.approx(200, rel=1e-3)
    assert found[59] == pytest.approx(200, rel=1e-3)
    assert found[89] == found[60]
    assert found[90] == pytest.approx(100, rel=1e-3)


def test_each_epoch_has_a_peak_of_its_own():
    run = simulation(tree(PEERS, COUNTING | {"use": "averaging", "epoch": 1, "peers": "peers"}, nodes=40, cycles=12))
    peaks = set()
    for _ in run:
        peaks.add(run.layer("means").value.max())
        assert run.layer("means").value.sum() == pytest.approx(1)
    layer = run.layer("means")
    places = set()
    for _ in range(12):
        run.world.advance()
        layer.take(run.world, run.world.order, restart=True)
        places.add(int(layer.value[:, 0].argmax()))
    assert len(places) > 5


def test_without_epochs_the_size_is_that_of_the_running_estimates():
    run = finished(tree(PEERS, COUNTING | {"use": "averaging"}, nodes=80, cycles=60))
    assert run.latest["means"]["size.mean"] == pytest.approx(80)
    assert run.latest["means"]["size.std"] == pytest.approx(0, abs=1e-3)


# Mistakes


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"of": "given", "initial": "peak"}, "initial: not allowed with of"),
        ({"moments": 2}, "moments: 2 needs of"),
        ({"epoch": 0}, "means.epoch: expected"),
        ({"of": "nobody"}, "means.of: there is no layer “nobody”"),
    ],
)
@BOTH
def test_what_cannot_be_averaged_is_refused_with_the_key(use, keys, message):
    with pytest.raises(ScenarioError, match=message):
        Scenario.of(tree(PEERS, GIVEN, MEANS | {"use": use} | keys), HERE)


def test_a_layer_without_numbers_is_refused():
    with pytest.raises(UserError, match="“peers” has no numbers to average") as caught:
        simulation(tree(PEERS, MEANS | {"use": "averaging", "of": "peers"}))
    assert caught.value.key == "means.of"


# Privacy


@pytest.mark.parametrize(
    ("keys", "epsilon", "private"), [({}, None, True), ({"noise": "output", "epsilon": 3.0}, 3.0, False)]
)
@BOTH
def test_averages_of_models_have_the_guarantee_of_the_models(use, keys, epsilon, private):
    data = {"set": "random", "train": 60, "test": 30, "scale": ["minmax", "l2"]}
    run = finished(learning_tree(PEERS, LOCAL | keys, MEANS | {"use": use, "of": "local"}, data=data, number=30))
    means = run.layer("means")
    assert means.guarantee().epsilon == epsilon
    assert means.touches_private_data == private
    assert means.released().size == (means.value.size if private else 0)
    w = run.layer("local").w.reshape(len(means.value), -1)
    estimates = means.estimates(everyone(run))
    assert np.abs(estimates - w.mean(axis=0)).max() < np.abs(w - w.mean(axis=0)).max()
    assert means.started == len(w)
    np.testing.assert_allclose(means.first_mean, w.mean(axis=0))


def test_models_of_golf_can_be_averaged_and_raw_ones_are_not_private():
    golf = {"name": "golf", "use": "golf", "peers": "peers", "records": "raw", "until": 1}
    run = finished(learning_tree(PEERS, golf, MEANS | {"use": "averaging", "of": "golf"}, cycles=40))
    w = run.layer("golf").w.reshape(40, -1).astype(float)
    np.testing.assert_allclose(run.layer("means").value, np.tile(w.mean(axis=0), (40, 1)), rtol=1e-3, atol=1e-6)
    assert run.layer("means").guarantee().epsilon is None


# Models from averages


@BOTH
@pytest.mark.parametrize("data", [{"set": "random"}, {"set": "segmentation"}])
def test_after_forty_cycles_every_node_has_the_central_model(use, data):
    data |= {"train": 80, "test": 30, "scale": ["minmax", "l1"]}
    run = finished(learning_tree(PEERS, SUMS, MEANS | {"use": use, "of": "sums"}, MODEL, data=data, cycles=50))
    model, sums = run.layer("model"), run.layer("sums")
    numbers = sums.values(run.world, everyone(run), False).sum(axis=0)
    central = FITS["centroid"](numbers, sums.classes, sums.features, Settings())
    models = model.models(everyone(run))
    assert models.shape == (40, sums.models, sums.features + 1)
    np.testing.assert_allclose(models, np.tile(central, (40, 1, 1)), rtol=1e-4, atol=1e-6)
    x = run.raw.rows.x[:7]
    expected = x @ central[:, :-1].T + central[:, -1]
    np.testing.assert_allclose(model.scores(everyone(run)[:3], x), np.repeat(expected[:, None], 3, 1), atol=1e-5)
    assert model.guarantee().epsilon == 7.0
    assert model.disclosure() == run.layer("means").disclosure()
    assert run.latest["model"]["error.mean"] < 0.4


PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 20.0}
SEVEN = {"set": "segmentation", "train": 200, "test": 60, "scale": ["minmax", "l1"], "bounds": "train"}


@needs_jit
@pytest.mark.parametrize("use", ["averaging", "push_sum"])
@pytest.mark.parametrize("mode", [{"mode": "label+features"}, {"mode": "sampled", "samples": 2}])
@pytest.mark.parametrize("learner", ["centroid", "lda"])
@pytest.mark.parametrize("epoch", [{}, {"epoch": 40}])
def test_after_forty_cycles_every_node_predicts_what_the_central_learner_predicts(use, mode, learner, epoch):
    """Nodes use the precision of the records as the central learner does: both shrink noisy numbers equally."""
    means = MEANS | {"use": use, "of": "published", "moments": 2 if learner == "lda" else 1} | epoch
    central = {"name": "central", "use": "optimum", "records": "published", "learner": learner}
    layers = (PEERS, PUBLISHED | mode, means, MODEL | {"learner": learner}, central)
    run = finished(learning_tree(*layers, data=SEVEN, nodes={"records": 1}, cycles=41))
    model, x = run.layer("model"), run.raw.rows.x
    precision = run.layer("published").precision()
    assert not precision.exact
    one = run.layer("central").scores(np.zeros(1, np.int32), x)
    np.testing.assert_allclose(
        model.scores(everyone(run), x), np.repeat(one, 200, 1), rtol=1e-3, atol=1e-4 * np.ptp(one)
    )
    assert (classify(model.scores(everyone(run), x)) == classify(one)).all()
    without = [
        FITS[learner](row, 7, run.raw.features, Settings()) for row in run.layer("means").estimates(everyone(run))
    ]
    assert not np.allclose(without[0], model.models(everyone(run))[0], rtol=1e-2)


def test_class_means_of_folded_records_of_two_classes_are_refused():
    two = {"set": "random", "train": 60, "test": 30, "scale": ["minmax", "l1"]}
    means = MEANS | {"use": "averaging", "of": "published"}
    with pytest.raises(UserError, match="“centroid” needs class means") as caught:
        simulation(learning_tree(PEERS, PUBLISHED, means, MODEL, data=two, nodes={"records": 1}))
    assert caught.value.key == "model.learner"
    assert "label+features" in caught.value.hint
    assert "sampled" in caught.value.hint
    learned = MODEL | {"learner": "lda"}
    run = finished(learning_tree(PEERS, PUBLISHED, means | {"moments": 2}, learned, data=two, nodes={"records": 1}))
    assert run.layer("model").models(everyone(run)).any()


def test_a_model_uses_the_number_of_nodes_of_the_epoch_of_its_estimate_whenever_it_is_looked_at():
    joins = {"kind": "join", "share": 0.5, "from": 4, "until": 4}
    layers = (
        PEERS,
        PUBLISHED | {"mode": "label+features"},
        MEANS | {"use": "averaging", "of": "published", "epoch": 3},
    )
    tables = {"data": SEVEN, "nodes": {"records": 1}, "cycles": 6, "churn": joins}
    always = simulation(learning_tree(*layers, MODEL, **tables))
    seldom = simulation(learning_tree(*layers, MODEL, **tables, observe={"every": 6, "nodes": 10}))
    for cycle, _ in zip(always, seldom, strict=True):
        nodes = np.flatnonzero(always.layer("means").known(everyone(always))).astype(np.int32)
        counts = always.layer("means").participants(nodes)
        assert (nodes.size, *set(counts.tolist())) == ((0,) if cycle < 3 else (100, 100) if cycle < 6 else (200, 200))
        assert always.layer("means").started == (100 if cycle < 4 else 200)
        if cycle == 5:
            assert (always.layer("model").models(nodes) == seldom.layer("model").models(nodes)).all()


def test_models_follow_the_estimates_and_only_nodes_with_an_estimate_have_one():
    joins = {"kind": "join", "share": 0.5, "from": 4, "until": 4}
    means = MEANS | {"use": "averaging", "of": "sums", "epoch": 3}
    run = simulation(learning_tree(PEERS, SUMS, means, MODEL, cycles=9, churn=joins))
    model, w, count = run.layer("model"), [], []
    for _ in run:
        count.append(model.holders(run.world).size)
        w.append(model.models(everyone(run)).tobytes())
    assert count == [0, 0, 20, 20, 20, 40, 40, 40, 40]
    assert [a != b for a, b in zip(w[1:], w[:-1], strict=True)] == [k % 3 == 2 for k in range(1, 9)]
    assert sorted(set(model.ages(everyone(run)))) == [4, 7]


MEAN = MODEL | {"learner": "mean"}


@BOTH
@pytest.mark.parametrize("data", [{"set": "random"}, {"set": "segmentation"}])
def test_the_mean_of_noisy_models_has_their_guarantee_and_reaches_every_node(use, data):
    data |= {"train": 80, "test": 30, "scale": ["minmax", "l2"]}
    noisy = LOCAL | {"noise": "output", "epsilon": 3.0}
    run = finished(learning_tree(PEERS, noisy, MEANS | {"use": use, "of": "local"}, MEAN, data=data, cycles=60))
    model, w, x = run.layer("model"), run.layer("local").w, run.raw.rows.x
    expected = x @ w.mean(axis=0).T
    np.testing.assert_allclose(
        model.scores(everyone(run), x), np.repeat(expected[:, None], 40, 1), atol=1e-5 * np.ptp(expected)
    )
    assert (classify(model.scores(everyone(run), x)) == classify(expected)[:, None]).all()
    assert (model.guarantee().epsilon, model.guarantee().unit) == (3.0, "record")
    assert not model.touches_private_data


def test_the_mean_of_models_is_that_of_one_group_of_all_nodes():
    groups = {"name": "group", "use": "group_aggregation", "local": "local", "group": 40, "epsilon": np.inf}
    means = MEANS | {"use": "averaging", "of": "local"}
    run = finished(learning_tree(PEERS, LOCAL, groups, means, MEAN, cycles=60))
    models, published = run.layer("model").models(everyone(run)), run.layer("group").published
    assert published.shape == (1, 1, models.shape[2] - 1)
    np.testing.assert_allclose(models[:, :, :-1], np.repeat(published, 40, 0), rtol=1e-4, atol=1e-7)
    assert not models[:, :, -1].any()
    assert run.layer("model").guarantee().epsilon is None


def test_nodes_without_a_model_change_the_length_of_the_mean_and_no_class():
    own = {"set": "segmentation", "train": 80, "test": 30, "scale": ["minmax", "l2"]}
    few, nodes = LOCAL | {"min_records": 3}, {"number": 40, "records": {"kind": "uniform", "min": 1, "max": 4}}
    run = finished(
        learning_tree(PEERS, few, MEANS | {"use": "averaging", "of": "local"}, MEAN, data=own, nodes=nodes, cycles=60)
    )
    local, x = run.layer("local"), run.raw.rows.x
    fitted = local.lam > 0
    assert 0 < fitted.sum() < 40
    classes = classify(x @ local.w[fitted].mean(axis=0).T)
    assert (classify(run.layer("model").scores(everyone(run), x)) == classes[:, None]).mean() > 0.99


@pytest.mark.parametrize(
    ("means", "model", "key", "message"),
    [
        ({"of": "given"}, {}, "model.averages", "does not average numbers of records"),
        ({}, {}, "model.averages", "does not average numbers of records"),
        ({"of": "sums"}, {"learner": "lda"}, "model.learner", "averages no second moments"),
        ({"of": "sums"}, {"learner": "mean"}, "model.averages", "does not average fitted models"),
        ({}, {"learner": "mean"}, "model.averages", "does not average fitted models"),
    ],
)
def test_averages_that_do_not_serve_the_learner_are_refused(means, model, key, message):
    layers = (PEERS, GIVEN, SUMS, MEANS | {"use": "averaging"} | means, MODEL | model)
    with pytest.raises(UserError, match=message) as caught:
        simulation(learning_tree(*layers))
    assert caught.value.key == key
