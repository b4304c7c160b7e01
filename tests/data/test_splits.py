"""Who holds which records: exact, reproducible, and distributed as the scenario says."""

import numpy as np
import pytest
from helpers import ALPHA, HERE, JIT, finished, learning_tree, needs_jit, simulation
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from golfsim.core.errors import UserError
from golfsim.data import loading
from golfsim.data.config import DataConfig
from golfsim.data.placement import (
    ArrivalConfig,
    FeatureSkewSplit,
    LognormalSizes,
    NodesConfig,
    UniformSizes,
    ZipfSizes,
    _Placer,
    apportion,
    place,
    skewed,
)
from golfsim.protocol.records import RawRecords
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

PEERS = {"name": "peers", "use": "uniform"}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}
CLASSES = ("a", "b", "c", "d", "e")


def nodes_config(**table):
    """`[nodes]` as a scenario has it."""
    return Scenario.of(learning_tree(PEERS, GOLF, nodes=table)).nodes


def placed(y, seed=1, classes=CLASSES, columns=None, **table):
    return place(nodes_config(**table), np.asarray(y, np.int32), classes, columns or {}, seed)


def by_node(placement):
    """The records of each node, as sets of rows."""
    return np.split(placement.rows, np.cumsum(placement.counts)[:-1])


def labels_by_node(placement, y):
    """How many records of each class each node has."""
    return np.array([np.bincount(np.asarray(y)[rows], minlength=len(CLASSES)) for rows in by_node(placement)])


# ------------------------------------------------------------------------------------------------ exact

SIZES = st.one_of(
    st.tuples(st.integers(0, 5), st.integers(0, 5)).map(
        lambda pair: {"kind": "uniform", "min": min(pair), "max": max(*pair, 1)}
    ),
    st.floats(0, 5).map(lambda sigma: {"kind": "lognormal", "sigma": sigma}),
    st.floats(0, 5).map(lambda exponent: {"kind": "zipf", "exponent": exponent}),
)
WEIGHTS = st.dictionaries(st.sampled_from(CLASSES), st.floats(0, 10), max_size=5)
SPLITS = st.one_of(
    st.just({"kind": "iid"}),
    st.sampled_from([1e-3, 0.1, 1.0, 100.0, float("inf")]).map(lambda alpha: {"kind": "label-skew", "alpha": alpha}),
    st.integers(1, 5).map(lambda groups: {"kind": "feature-skew", "groups": groups, "shift": 1.0}),
    st.tuples(st.floats(0.01, 0.99), WEIGHTS, WEIGHTS, st.floats(0, 1) | st.none()).map(
        lambda drawn: {
            "kind": "groups",
            "groups": [
                {"nodes": drawn[0], "classes": drawn[1]} | ({} if drawn[3] is None else {"records": drawn[3]}),
                {"nodes": 1 - drawn[0], "classes": drawn[2]} | ({} if drawn[3] is None else {"records": 1 - drawn[3]}),
            ],
        }
    ),
)
LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=80)


def assert_exact(placement, records, nodes):
    assert placement.counts.size == placement.group.size == nodes
    assert (placement.counts >= 0).all()
    assert placement.counts.sum() == placement.rows.size
    assert np.array_equal(np.sort(placement.rows), np.arange(records)), "none lost, none twice"


@given(LABELS, st.integers(1, 30), SIZES, SPLITS, st.integers(0, 10**6))
def test_sizes_that_vary_use_each_record_once_under_every_split(y, number, sizes, split, seed):
    found = placed(y, seed=seed, number=number, records=sizes, split=split)
    assert_exact(found, len(y), number)


@given(st.integers(1, 6), st.integers(1, 12), SPLITS, st.data(), st.integers(0, 10**6))
def test_equal_sizes_use_each_record_once_under_every_split(each, number, split, data, seed):
    y = data.draw(st.lists(st.integers(0, 4), min_size=each * number, max_size=each * number))
    found = placed(y, seed=seed, number=number, records=each, split=split)
    assert_exact(found, len(y), number)
    if split["kind"] != "groups" or "records" not in split["groups"][0]:
        assert set(found.counts) == {each}


@given(LABELS, st.integers(1, 5), st.integers(1, 12), SPLITS, st.integers(0, 10**6))
def test_what_is_left_out_is_left_out_once_and_nothing_is_used_twice(y, each, number, split, seed):
    assume(each * number <= len(y))
    found = placed(y, seed=seed, number=number, records=each, split=split, leave_out=True)
    assert found.counts.sum() == found.rows.size == each * number
    assert np.unique(found.rows).size == found.rows.size


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 12), st.sampled_from(["iid", "feature-skew"]))
def test_records_that_repeat_are_used_equally_often(records, each, number, kind):
    assume(each * number >= records)
    split = {"kind": kind} | ({"groups": 2} if kind == "feature-skew" else {})
    found = placed([0] * records, number=number, records=each, repeat=True, split=split)
    times = np.bincount(found.rows, minlength=records)
    assert times.max() - times.min() <= 1


@given(LABELS, st.integers(1, 5), st.integers(1, 25), st.integers(0, 10**6))
def test_classes_per_node_uses_each_record_once(y, each, number, seed):
    assume(number * each >= len(CLASSES))
    found = placed(y, seed=seed, number=number, split={"kind": "classes-per-node", "classes": each})
    assert_exact(found, len(y), number)
    assert ((labels_by_node(found, y) > 0).sum(axis=1) <= each).all()


@given(LABELS, st.integers(0, 20), st.integers(0, 10**6))
def test_a_split_by_column_uses_each_record_once_and_a_node_has_one_value(y, more, seed):
    column = np.array([f"v{label}" for label in y])
    number = np.unique(column).size + more
    found = placed(y, seed=seed, number=number, columns={"kind": column}, split={"kind": "by", "column": "kind"})
    assert_exact(found, len(y), number)
    for rows, group in zip(by_node(found), found.group, strict=True):
        assert set(column[rows]) <= {np.unique(column)[group]}


@pytest.mark.parametrize(
    "table",
    [
        {"number": 10, "records": 6},
        {"number": 10, "records": {"kind": "lognormal", "sigma": 1.0}},
        {"number": 10, "records": 6, "split": {"kind": "label-skew", "alpha": 0.5}},
        {"number": 10, "split": {"kind": "classes-per-node", "classes": 2}},
        {"number": 10, "split": {"kind": "by", "column": "kind"}},
        {"number": 10, "records": 6, "split": {"kind": "groups", "groups": [{"nodes": 0.5}, {"nodes": 0.5}]}},
    ],
)
def test_a_split_is_a_function_of_the_seed(table):
    y = np.arange(60) % 5
    found = [placed(y, seed=seed, columns={"kind": y % 3}, **table) for seed in (4, 4, 5)]
    assert np.array_equal(found[0].rows, found[1].rows)
    assert np.array_equal(found[0].counts, found[1].counts)
    assert not np.array_equal(found[0].rows, found[2].rows)


# ------------------------------------------------------------------------------------------------ how many


@given(st.integers(0, 10**6), st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_apportioned_numbers_add_up_and_are_within_one_of_their_share(total, shares):
    shares = np.array(shares)
    found = apportion(total, shares)
    assert found.sum() == total
    if shares.sum() > 0:
        assert (np.abs(found - shares / shares.sum() * total) < 1 + 1e-6).all()
    else:
        assert found.max() - found.min() <= 1


def test_largest_remainders_are_served_first():
    assert apportion(10, np.array([0.335, 0.335, 0.33])).tolist() == [4, 3, 3]
    assert apportion(1, np.array([0.2, 0.5, 0.3])).tolist() == [0, 1, 0]


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_the_rth_largest_node_has_its_zipf_share(exponent):
    records, number = 3000, 60
    found = placed([0] * records, number=number, records={"kind": "zipf", "exponent": exponent})
    share = 1 / np.arange(1, number + 1) ** exponent
    expected = share / share.sum() * records
    assert (np.abs(np.sort(found.counts)[::-1] - expected) < 1).all()
    if exponent:
        order = np.argsort(-found.counts, kind="stable")
        assert not np.array_equal(order, np.arange(number)), "it is chance which node is the largest"


def test_lognormal_sizes_are_scipys_quantiles(rng):
    u = rng.random(500)
    assert np.allclose(LognormalSizes(kind="lognormal", sigma=1.3).shares(u), stats.lognorm.ppf(u, s=1.3), rtol=1e-9)


@needs_jit
def test_lognormal_sizes_follow_scipys_distribution():
    found = placed(np.zeros(400_000), number=1500, records={"kind": "lognormal", "sigma": 0.8})
    sizes = found.counts / found.counts.mean() * np.exp(0.8**2 / 2)  # up to the common factor, whose error is small
    assert stats.kstest(sizes, stats.lognorm(s=0.8).cdf).pvalue > ALPHA


def test_uniform_sizes_take_each_value_between_the_bounds_equally_often(rng):
    sizes = UniformSizes(kind="uniform", min=3, max=7).shares(rng.random(20_000))
    values, counts = np.unique(sizes, return_counts=True)
    assert values.tolist() == [3, 4, 5, 6, 7]
    assert stats.chisquare(counts).pvalue > ALPHA


def test_uniform_sizes_scale_to_use_all_records():
    found = placed([0] * 600, number=100, records={"kind": "uniform", "min": 1, "max": 3})
    assert found.counts.sum() == 600
    assert found.counts.min() >= 2
    assert found.counts.max() <= 10  # 3 of a mean of 2, of 6


def test_zipf_ranks_are_a_permutation(rng):
    share = ZipfSizes(kind="zipf", exponent=1.0).shares(rng.random(40))
    assert sorted(np.rint(1 / share).astype(int)) == list(range(1, 41))


def test_uniform_bounds_in_the_wrong_order_are_refused():
    with pytest.raises(UserError):
        nodes_config(number=5, records={"kind": "uniform", "min": 9, "max": 2})


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ({"records": {"kind": "zipf", "exponent": 1.0}}, "nodes.number", "sizes needs the number of nodes"),
        ({"number": 3, "records": 5}, "nodes.number", "3 nodes of 5 records hold only 15 of the 20 records"),
        ({"number": 9, "records": 5}, "nodes.number", "9 nodes of 5 records need 45 records; the data has 20"),
        ({"records": 30, "leave_out": True}, "nodes.records", "20 records cannot fill one node of 30"),
        ({"number": 9, "records": 5, "repeat": True, "split": {"kind": "label-skew", "alpha": 1.0}}, "nodes.repeat",
         "a label-skew split cannot repeat records"),
        ({"number": 4, "split": {"kind": "classes-per-node", "classes": 6}}, "nodes.split.classes", "only 5 classes"),
        ({"number": 2, "split": {"kind": "classes-per-node", "classes": 2}}, "nodes.number", "cannot hold all classes"),
        ({"split": {"kind": "classes-per-node", "classes": 2}}, "nodes.number", "needs the number of nodes"),
        ({"split": {"kind": "by", "column": "kinds"}}, "nodes.split.column", "no column “kinds”"),
        ({"number": 2, "split": {"kind": "by", "column": "kind"}}, "nodes.number", "5 values, more than the number"),
        ({"number": 4, "records": 5, "split": {"kind": "groups", "groups": [{"nodes": 1.0, "classes": {"A": 1}}]}},
         "nodes.split.groups", "no class “A”"),
    ],
)  # fmt: skip
def test_a_split_that_cannot_be_is_refused_at_its_key(table, key, message):
    with pytest.raises(UserError, match=message) as error:
        placed(np.arange(20) % 5, columns={"kind": np.arange(20) % 5}, **table)
    assert error.value.key == key


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([{"nodes": 0.5}, {"nodes": 0.4}], "shares of the nodes must add up to 1"),
        ([{"nodes": 0.5, "records": 0.5}, {"nodes": 0.5}], "for all groups, or for none"),
        ([{"nodes": 0.5, "records": 0.5}, {"nodes": 0.5, "records": 0.6}], "shares of the records must add up to 1"),
        ([], "groups"),
    ],
)
def test_groups_that_do_not_add_up_are_refused(groups, message):
    with pytest.raises(UserError, match=message):
        nodes_config(number=4, records=5, split={"kind": "groups", "groups": groups})


# ------------------------------------------------------------------------------------------------ which ones

MANY = 40_000 if JIT else 4000
Y = np.repeat(np.arange(4), [MANY * 4 // 10, MANY * 3 // 10, MANY * 2 // 10, MANY // 10])
PRIOR = np.array([0.4, 0.3, 0.2, 0.1, 0.0])


def skew(alpha, number, records, seed=1):
    """A few of many records, so that no class is used up: the classes of each node."""
    split = {"kind": "label-skew", "alpha": alpha}
    found = placed(Y, seed=seed, number=number, records=records, split=split, leave_out=True)
    return labels_by_node(found, Y)


def test_a_strong_skew_gives_a_node_one_class():
    counts = skew(1e-3, number=100, records=10)
    assert ((counts > 0).sum(axis=1) == 1).mean() > 0.97
    assert stats.chisquare(np.bincount(counts.argmax(axis=1), minlength=4), 100 * PRIOR[:4]).pvalue > ALPHA


def test_without_skew_the_classes_of_a_node_are_multinomial():
    counts = skew(float("inf"), number=80, records=20)
    expected = 20 * PRIOR[:4]
    statistic = ((counts[:, :4] - expected) ** 2 / expected).sum()
    assert ALPHA < stats.chi2(df=80 * 3).sf(statistic) < 1 - ALPHA


@pytest.mark.parametrize("alpha", [0.05, 1.0, 20.0])
def test_the_mean_share_of_a_class_is_the_datas(alpha):
    counts = skew(alpha, number=300 if JIT else 60, records=8)
    share = counts / counts.sum(axis=1, keepdims=True)
    error = share.std(axis=0, ddof=1) / np.sqrt(len(share))
    assert (np.abs(share.mean(axis=0) - PRIOR) <= 3.5 * error).all()


@pytest.mark.parametrize("alpha", [0.05, 0.5, 5.0, 100.0])
def test_class_shares_are_dirichlet(alpha):
    config = nodes_config(number=2000, records=1, split={"kind": "label-skew", "alpha": alpha}, leave_out=True)
    weights = _Placer(config, Y.astype(np.int32), CLASSES, {}, 3)._dirichlet(alpha, 2000)
    assert np.allclose(weights.sum(axis=1), 1)
    assert (weights[:, 4] == 0).all(), "a class that does not occur"
    for c in range(4):
        law = stats.beta(alpha * PRIOR[c], alpha * (1 - PRIOR[c]))
        # Shares that round to 0 or 1 say no more than that: compare the distribution functions in between.
        for point in (1e-6, 0.01, 0.1, 0.5, 0.9):
            below = int((weights[:, c] <= point).sum())
            assert stats.binomtest(below, 2000, law.cdf(point)).pvalue > ALPHA / 10, (c, point)


def test_under_a_skew_that_uses_all_records_the_last_nodes_take_what_is_left():
    y = np.repeat(np.arange(4), [105, 95, 103, 97])
    found = placed(y, number=40, records=10, split={"kind": "label-skew", "alpha": 0.01})
    assert_exact(found, 400, 40)
    pure = ((labels_by_node(found, y) > 0).sum(axis=1) == 1).mean()
    assert 0.7 < pure < 1


@pytest.mark.parametrize(("each", "number"), [(1, 10), (1, 13), (2, 10), (3, 7), (4, 6), (5, 4), (2, 3)])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_node_has_exactly_its_number_of_classes_dealt_evenly(each, number, seed):
    y = np.arange(500) % 5
    counts = labels_by_node(placed(y, seed=seed, number=number, split={"kind": "classes-per-node", "classes": each}), y)
    assert ((counts > 0).sum(axis=1) == each).all()
    holders = (counts > 0).sum(axis=0)
    assert holders.max() - holders.min() <= 1
    for c in range(5):
        mine = counts[counts[:, c] > 0, c]
        assert mine.max() - mine.min() <= 1


def test_groups_have_their_shares_of_nodes_records_and_classes():
    y = np.arange(5000) % 5  # many more than are used, so that no class is used up
    split = {
        "kind": "groups",
        "groups": [
            {"nodes": 0.3, "records": 0.1, "classes": {"a": 1}},
            {"nodes": 0.2, "records": 0.05, "classes": {"b": 3, "c": 1}},
            {"nodes": 0.5, "records": 0.85},
        ],
    }
    found = placed(y, number=20, records=50, split=split, leave_out=True)
    counts = labels_by_node(found, y)
    assert np.bincount(found.group).tolist() == [6, 4, 10]
    held = np.bincount(found.group, weights=found.counts)
    assert (np.abs(held - [100, 50, 850]) < [6, 4, 10]).all(), "to within a record a node"
    assert counts[found.group == 0, 1:].sum() == 0
    assert counts[found.group == 1][:, [0, 3, 4]].sum() == 0
    few, many = counts[found.group == 1].sum(axis=0)[[2, 1]]
    assert stats.binomtest(int(many), int(few + many), 0.75).pvalue > ALPHA


def test_without_shares_of_the_records_groups_have_them_as_they_have_nodes():
    y = np.arange(120) % 5
    split = {"kind": "groups", "groups": [{"nodes": 0.25}, {"nodes": 0.75}]}
    found = placed(y, number=12, records=10, split=split)
    assert set(found.counts) == {10}
    assert np.bincount(found.group).tolist() == [3, 9]


@pytest.fixture(scope="module")
def adult():
    return loading.load(DataConfig(set="adult", train=None), 1, HERE)


@needs_jit
@pytest.mark.parametrize("number", [None, 100])
def test_adult_by_occupation_gives_each_node_one_occupation(adult, number):
    table = {"split": {"kind": "by", "column": "occupation"}} | ({} if number is None else {"number": number})
    found = place(nodes_config(**table), adult.y, adult.classes, adult.columns, 1)
    occupation = np.asarray(adult.columns["occupation"])
    values, totals = np.unique(occupation, return_counts=True)
    assert_exact(found, adult.y.size, number or values.size)
    for rows, group in zip(by_node(found), found.group, strict=True):
        assert set(occupation[rows]) == {values[group]}
    nodes = np.bincount(found.group)
    assert (nodes >= 1).all()
    if number is None:
        assert np.array_equal(np.sort(found.counts), np.sort(totals))
    else:
        each = adult.y.size / number
        common = totals > 2 * each
        assert (np.abs(totals[common] / nodes[common] / each - 1) < 0.5).all(), "nodes go where the records are"


def test_a_column_that_is_misspelt_is_answered_with_its_neighbour():
    with pytest.raises(UserError, match=r"did you mean “occupation”\?"):
        placed([0, 1], columns={"occupation": np.array(["x", "y"])}, split={"kind": "by", "column": "ocupation"})


# ------------------------------------------------------------------------------------------------ feature skew


def test_a_shift_moves_a_groups_records_by_one_vector_of_the_given_length(rng):
    x, group = rng.normal(size=(60, 7)).astype(np.float32), np.repeat([0, 1, 2], 20)
    moved = skewed(x, FeatureSkewSplit(kind="feature-skew", groups=3, shift=2.5), group, 1) - x
    for g in range(3):
        assert np.allclose(moved[group == g], moved[group == g][0], atol=1e-5)
        assert np.linalg.norm(moved[group == g][0]) == pytest.approx(2.5, rel=1e-5)
    assert not np.allclose(moved[0], moved[20], atol=0.1)


@pytest.mark.parametrize("features", [1, 2, 7])
def test_a_rotation_keeps_lengths_and_turns_by_the_groups_angle(rng, features):
    x, group = rng.normal(size=(60, features)).astype(np.float32), np.repeat([0, 1, 2], 20)
    turned = skewed(x, FeatureSkewSplit(kind="feature-skew", groups=3, rotation=30.0), group, 1)
    assert np.allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(x, axis=1), rtol=1e-5)
    assert np.array_equal(turned[group == 0], x[group == 0])
    if features == 2:
        cosine = (turned * x).sum(axis=1) / (x * x).sum(axis=1)
        assert np.allclose(cosine, np.cos(np.radians(30 * group)), atol=1e-5)
    products = turned[group == 2] @ turned[group == 2].T
    assert np.allclose(products, x[group == 2] @ x[group == 2].T, atol=1e-4)


@pytest.mark.parametrize(("scale", "order"), [("l1", 1), ("l2", 2)])
def test_records_keep_the_length_that_scaling_gave_them(scale, order):
    split = {"kind": "feature-skew", "groups": 3, "shift": 0.5, "rotation": 20.0}
    data = {"set": "random", "train": 60, "test": 30, "scale": ["minmax", scale]}
    run = simulation(learning_tree(PEERS, GOLF, data=data, nodes={"number": 20, "records": 3, "split": split}))
    assert np.allclose(np.linalg.norm(run.raw.rows.x, ord=order, axis=1), 1, rtol=1e-5)
    plain = simulation(learning_tree(PEERS, GOLF, data=data, nodes={"number": 20, "records": 3}))
    assert not np.allclose(run.raw.rows.x, plain.raw.rows.x)
    assert np.array_equal(run.raw.rows.label, plain.raw.rows.label), "the same records, seen otherwise"


def test_groups_of_a_feature_skew_are_of_equal_size():
    found = placed([0] * 22, number=11, records=2, split={"kind": "feature-skew", "groups": 3})
    assert np.bincount(found.group).tolist() == [4, 4, 3]


# ------------------------------------------------------------------------------------------------ arrival


def arriving(counts, **table):
    counts = np.asarray(counts, np.int64)
    x, label = np.zeros((counts.sum(), 2), np.float32), np.zeros(counts.sum(), np.int32)
    return RawRecords(x, label, counts, 2, seed=1, arrival=ArrivalConfig(**table))


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=20),
    st.floats(0, 1),
    st.floats(0, 5),
    st.one_of(st.none(), st.integers(1, 6)),
)
def test_records_arrive_at_their_rate_and_the_oldest_retire(counts, start, rate, keep):
    raw = arriving(counts, start=start, rate=rate, keep=keep)
    begin = np.cumsum(counts) - counts
    assert np.array_equal(raw.rows.first, raw.rows.stop), "nothing before the first cycle"
    before = raw.rows.stop.copy()
    for cycle in range(1, 15):
        raw._arrive(raw._arrival, cycle)
        have = raw.rows.stop - begin
        expected = np.floor(start * np.array(counts)) + rate * (cycle - 1)
        assert (have <= counts).all()
        assert (raw.rows.stop >= before).all(), "what came stays, or retires"
        assert (np.abs(have - np.minimum(expected, counts)) <= 1 + 1e-9).all()
        kept = have if keep is None else np.minimum(have, keep)
        assert np.array_equal(raw.rows.stop - raw.rows.first, kept)
        assert (raw.rows.first >= begin).all()
        before = raw.rows.stop.copy()


def test_records_arrive_at_their_rate_on_average():
    raw = arriving(np.full(2000, 50), start=0.1, rate=0.3)
    raw._arrive(raw._arrival, 1)
    assert set(raw.rows.stop - raw.rows.first) == {5}
    for cycle in (2, 3, 8):
        raw._arrive(raw._arrival, cycle)
        got = raw.rows.stop - raw.rows.first - 5
        expected = 0.3 * (cycle - 1)
        low = int(np.floor(expected))
        assert set(got) <= {low, low + 1}
        assert stats.binomtest(int((got > low).sum()), 2000, expected - low).pvalue > ALPHA, "nodes are out of step"


def test_nobody_learns_from_records_that_have_not_arrived():
    nodes = {"number": 20, "records": 4, "arrival": {"start": 0.0, "rate": 0.0}}
    run = finished(learning_tree(PEERS, GOLF, nodes=nodes))
    assert (run.layers["learning"].w == 0).all()
    assert (run.layers["learning"].age == 0).all()


def test_models_age_only_where_records_have_arrived():
    nodes = {"number": 20, "records": 4, "arrival": {"start": 0.0, "rate": 0.5, "keep": 2}}
    run = simulation(learning_tree(PEERS, GOLF | {"variant": "rw", "batch": "one-by-one"}, nodes=nodes, cycles=12))
    for cycle in run:
        rows = run.raw.rows
        assert ((rows.stop - rows.first) <= 2).all()
        if cycle == 1:
            assert (run.layers["learning"].age == 0).all()
    assert run.layers["learning"].age.max() > 4


def test_all_records_have_arrived_in_the_end_and_resuming_gives_the_same():
    nodes = {"number": 20, "records": 4, "arrival": {"start": 0.25, "rate": 0.6}}
    whole = finished(learning_tree(PEERS, GOLF, nodes=nodes, cycles=10))
    assert np.array_equal(whole.raw.rows.stop - whole.raw.rows.first, np.full(20, 4))
    part = simulation(learning_tree(PEERS, GOLF, nodes=nodes, cycles=10))
    for _ in range(4):
        part.step()
    again = simulation(learning_tree(PEERS, GOLF, nodes=nodes, cycles=10))
    again.restore(part.state())
    for _ in again:
        pass
    assert again.log.values == whole.log.values


# ------------------------------------------------------------------------------------------------ in a run


@pytest.mark.parametrize("records", [{"kind": "zipf", "exponent": 1.5}, {"kind": "lognormal", "sigma": 2.0}])
def test_a_run_holds_every_training_record_once(records):
    table = learning_tree(PEERS, GOLF, number=30, nodes={"number": 40, "records": records})
    scenario = Scenario.of(table, HERE)
    run = Simulation(scenario)
    data = loading.load(scenario.data, run.seed, HERE)
    held = np.column_stack([run.raw.rows.x, run.raw.rows.label])
    given_ = np.column_stack([data.x, data.y])
    assert np.array_equal(held[np.lexsort(held.T)], given_[np.lexsort(given_.T)])
    assert run.raw.rows.first.size == 40
    assert (run.raw.rows.stop - run.raw.rows.first == 0).any(), "some have none, and that is fine"
    for _ in run:
        pass
    assert np.isfinite(run.layers["learning"].w).all()


def test_class_counts_include_what_is_still_to_arrive():
    nodes = {"number": 10, "records": 8, "arrival": {"start": 0.0, "rate": 1.0}}
    run = simulation(learning_tree(PEERS, GOLF, nodes=nodes))
    assert NodesConfig.model_validate(run.scenario.nodes).records == 8
    assert (run.raw.class_counts().sum(axis=1) == 8).all()
    expected = np.bincount(run.raw.rows.label, minlength=2)
    assert np.array_equal(run.raw.class_counts().sum(axis=0), expected)
