"""The central ε of shuffled reports: a true upper bound, equal to the slow sum, and stated only for hidden senders."""

import itertools
import math

import naive
import pytest
from helpers import finished, learning_tree
from hypothesis import given
from hypothesis import strategies as st

from golfsim.comparing.privacy_table import privacy_rows
from golfsim.privacy.mechanisms import Central
from golfsim.privacy.shuffling import among_clones, closed_form, composed, divergence, local_of, numerical
from golfsim.runs import results, single
from golfsim.runs.single import guarantees, privacy
from golfsim.scenario.model import Scenario
from protocols.anonml import shuffle

DELTA = 1e-6
REPORTS, LOCAL = st.integers(2, 200_000), st.floats(0.01, 8)
DELTAS = st.sampled_from([1e-9, 1e-6, 1e-3, 0.05])


MANY = pytest.mark.parametrize(
    ("reports", "local", "central"), [(100_000, 4, 0.16978), (10_000, 1, 0.05301), (32_561, 1, 0.02806)]
)


@MANY
def test_values_of_the_numerical_bound(reports, local, central):
    assert numerical(reports, local, DELTA) == pytest.approx(central, abs=1e-5)


@MANY
def test_the_bound_for_many_reports_is_that_of_the_slow_sum_and_no_smaller(reports, local, central):
    found = numerical(reports, local, DELTA)
    assert naive.shuffled_delta_of_many(reports - 1, local, found) <= DELTA
    assert naive.shuffled_delta_of_many(reports - 1, local, 0.9995 * found) > DELTA


def test_the_bound_lies_between_those_that_the_authors_print():
    """The example of their program (apple/ml-shuffling-amplification) bounds δ over intervals of 100 clones."""
    assert 0.1675385583 < numerical(100_000, 4, DELTA) < 0.1727905508


@given(st.integers(1, 25), st.floats(0.05, 5), st.floats(0, 0.99))
def test_both_slow_sums_are_equal(others, local, part):
    ref = naive.shuffled_delta(others, math.exp(-local), local, part * local)
    assert naive.shuffled_delta_of_many(others, local, part * local) == pytest.approx(ref, rel=1e-6, abs=1e-12)


def test_values_of_the_closed_form():
    # Theorem 3.1 by hand: e = 2.71828, ln(4/δ) = 15.2018, 8 √(e · 15.2018 / 10⁴) = 0.514262, 8e/10⁴ = 0.002175.
    assert closed_form(10_000, 1, DELTA) == pytest.approx(math.log(1 + 0.462117 * (0.514262 + 0.002175)), abs=1e-6)


@given(REPORTS, LOCAL, DELTAS)
def test_more_reports_a_larger_delta_and_a_smaller_local_epsilon_cost_no_more(reports, local, delta):
    found = numerical(reports, local, delta)
    assert 0 <= found <= local
    for better in (numerical(2 * reports, local, delta), numerical(reports, local, 2 * delta)):
        assert better <= found * (1 + 1e-3) + 1e-9
    assert numerical(reports, 0.9 * local, delta) <= found * (1 + 1e-3) + 1e-9


@given(REPORTS, LOCAL, DELTAS)
def test_the_closed_form_is_never_below_the_numerical_bound(reports, local, delta):
    found, valid = closed_form(reports, local, delta), local <= math.log(reports / (16 * math.log(4 / delta)))
    assert (found is not None) == valid
    assert found is None or numerical(reports, local, delta) <= found


@given(st.integers(1, 25), st.floats(0.01, 1), st.floats(0.05, 5), st.floats(0, 0.99))
def test_the_sum_is_that_of_the_paper(others, share, local, part):
    ref = naive.shuffled_delta(others, share, local, part * local)
    comp = divergence(others, share, local, part * local, DELTA)
    assert ref - 1e-15 <= comp <= ref * (1 + 1e-6) + DELTA / 100


@given(st.integers(1, 25), st.floats(0.05, 5), st.floats(1e-4, 0.2))
def test_the_found_epsilon_belongs_to_delta_by_the_slow_sum(others, local, delta):
    found = numerical(others + 1, local, delta)
    assert naive.shuffled_delta(others, math.exp(-local), local, found) <= delta
    if 1e-9 < found < local:
        assert naive.shuffled_delta(others, math.exp(-local), local, found * 0.99) > delta * 0.95


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("reports", [2, 4, 6])
@pytest.mark.parametrize("local", [0.2, 1.0, 3.0])
def test_no_shuffled_randomised_response_exceeds_the_bound(size, reports, local):
    for rest in itertools.combinations_with_replacement(range(size), reports - 1):
        one, other = (naive.shuffled_responses((value, *rest), size, local) for value in (0, 1))
        for part in (0.0, 0.2, 0.5, 0.8):
            true = max(naive.hockey_stick(*pair, part * local) for pair in ((one, other), (other, one)))
            assert true <= divergence(reports - 1, math.exp(-local), local, part * local, 1e-9)


@pytest.mark.parametrize(("reports", "nodes"), [(2, 3), (3, 3), (3, 5), (4, 4), (4, 5)])
@pytest.mark.parametrize("local", [0.3, 1.0, 3.0])
def test_a_visible_last_relay_reveals_no_more_than_the_derivation_says(reports, nodes, local):
    for rest in itertools.product((0, 1), repeat=reports - 1):
        one, other = (naive.relayed_responses((value, *rest), nodes, local) for value in (0, 1))
        for part in (0.0, 0.3, 0.6, 0.9):
            true = max(naive.hockey_stick(*pair, part * local) for pair in ((one, other), (other, one)))
            assert true <= naive.relayed_delta(reports, nodes, local, part * local) + 1e-12


@given(st.integers(3, 60), st.integers(0, 100), st.floats(0.05, 4), st.floats(1e-3, 0.2))
def test_the_epsilon_of_packets_belongs_to_delta_by_the_derivation(reports, more, local, delta):
    found = shuffle.epsilon_of(reports, reports + more, local, delta)
    if 1e-9 < found < local:
        assert naive.relayed_delta(reports, reports + more, local, found) <= delta


@given(st.integers(3, 100_000), LOCAL)
def test_visible_relays_cost_something(reports, local):
    assert shuffle.epsilon_of(reports, reports, local, DELTA) >= numerical(reports, local, DELTA) * (1 - 1e-9)


def test_edges():
    assert numerical(1, 2.0, DELTA) == 2
    assert numerical(10**6, math.inf, DELTA) == math.inf
    assert numerical(10**6, 0.0, DELTA) == 0
    assert among_clones(1000, 0.0, 2.0, DELTA) == 2
    assert composed([0.5, 0.7], 1.0) == 1
    assert composed([0.1, 0.2], 1.0) == pytest.approx(0.3)
    for wrong in ((10, -1.0, 0.1), (10, 1.0, 0.0), (10, 1.0, 1.0), (10, math.nan, 0.1)):
        with pytest.raises(ValueError, match="expected ε"):
            numerical(*wrong)


def test_a_printed_value_is_rounded_up():
    assert str(Central(0.123411, 1e-6)) == "central ε = 0.1235, δ = 1e-06 per record"
    assert str(Central(12.0, 1e-6, "record", "why")) == "central ε = 12, δ = 1e-06 per record: why"


# ------------------------------------------------------------------------------------------------ AnonML

PEERS = {"name": "peers", "use": "uniform"}
ANONML = {"name": "anonml", "use": "anonml", "peers": "peers", "epsilon": 4.0, "partitions": 1, "groups": 2}
CIRCUITS = {"relays": 2, "window": 3, "stagger": 3, "delta": 1e-3}


def table(peers=PEERS, nodes=400, **changes):
    top = {key: changes.pop(key) for key in list(changes) if key in Scenario.model_fields}
    data = {"set": "random", "train": 2 * nodes, "test": 30, "scale": ["minmax"]}
    layer = ANONML | CIRCUITS | changes
    return learning_tree(peers, layer, **({"number": nodes, "cycles": 14, "data": data} | top))


def layer_of(**changes):
    return finished(table(**changes)).layer("anonml")


def test_packets_in_circuits_have_a_central_epsilon_next_to_the_local_one():
    run = finished(table())
    layer, stated = run.layer("anonml"), run.layer("anonml").central()
    costs = layer._costs
    each = shuffle.epsilon_of(399, 399, costs.of_string, 1e-3 / costs.strings)
    # Answers about cuts go directly to the aggregator and are not shuffled.
    assert stated.epsilon == pytest.approx(costs.cuts * costs.of_cut + costs.strings * each)
    assert each < costs.of_string
    assert layer.guarantee().epsilon == 4
    assert guarantees(run)["anonml"].startswith("ε = 4 per record, proven; central ε = ")
    assert privacy(run)["anonml"]["central"]["delta"] == 1e-3
    assert privacy(run)["anonml"]["proven"] == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"relays": 0, "stagger": 0},
        {"relays": 0, "stagger": 0, "window": 1},
        {"stagger": 0},  # the time of arrival depends on the time of sending
        {"staggering": "delay"},
        {"repeats": 0.1},
        {"forgeries": 0.1},
        {"colluding": 1.0},
        {"cuts": "exact"},
        {"epsilon": math.inf},
        {"peers": {"name": "peers", "use": "newscast", "view": 20}},  # relays depend on the sender
        {"churn": [{"kind": "rate", "leave": 0.01, "rejoin": 0.5}]},
        {"transport": {"partition": [{"share": 0.5, "from": 1, "until": 2}]}},
        {"nodes": 8, "delta": 1e-6},  # no gain
        {"cycles": 2},  # nothing was sent
    ],
    ids=str,
)
def test_nothing_central_is_stated_if_senders_are_not_hidden(changes):
    assert layer_of(**changes).central() is None


def test_packets_of_one_cycle_need_no_second_window():
    assert layer_of(window=1, stagger=0).central() is not None


def test_colluding_nodes_are_subtracted_from_the_reports():
    honest, some = (layer_of(colluding=share, delta=0.01) for share in (0.0, 0.1))
    colludes, members = some._colludes, some._kind == 0
    sent = members & (some.packets.sent > 0)
    clean = sent & ~colludes[some._sender] & ~colludes[some.packets.relay].any(axis=1)
    fewest = min((clean & (some._question == question)).sum() for question in (0, 1))
    assert colludes.any()
    assert f"at least {fewest} reports" in some.central().note
    assert "of the records whose packets pass no colluding node" in some.central().note
    assert "colluding" not in honest.central().note
    assert honest.central().epsilon < some.central().epsilon < 4


def test_lost_packets_are_no_reports():
    assert layer_of(transport={"loss": 0.2}).central().epsilon > layer_of().central().epsilon


def test_the_table_of_strategies_has_the_central_epsilon(tmp_path):
    single.run(Scenario.of(table(), tmp_path), tmp_path, progress=False)
    (row,) = privacy_rows(results.find([tmp_path]), None)
    assert row.stated == "4"
    assert row.guarantee.startswith("proven; central ε = ")


@pytest.mark.parametrize("reports", [2, 50, 3000])
@pytest.mark.parametrize("central", [0.2, 1.0, 4.0])
def test_a_local_epsilon_for_a_central_one_is_the_largest_that_fits(reports, central):
    local = local_of(reports, central, 1e-5)
    assert local >= central
    assert numerical(reports, local, 1e-5) <= central
    if local > central:
        assert numerical(reports, local * 1.001, 1e-5) > central
    assert local_of(reports, math.inf, 1e-5) == math.inf
    assert local_of(1, central, 1e-5) == central
