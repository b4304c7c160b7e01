"""Perturbed strings, what they tell and what they give away, and the histograms estimated from them."""

import math

import naive
import numpy as np
import pytest
from helpers import ALPHA, ERROR, JIT, needs_jit, p_of_chi_square
from hypothesis import given
from hypothesis import strategies as st

from golfsim.audit.bounds import limits
from golfsim.core import rng as counters
from golfsim.core.errors import UserError
from golfsim.privacy.strings import rare_ones
from protocols.anonml.histograms import (
    KINDS,
    Perturbation,
    Reports,
    add_strings,
    attribute_epsilon,
    bits_of,
    cells,
    clip,
    collect,
    decode,
    draw_subsets,
    encode,
    estimate,
    partition,
    perturbation,
    plan_of,
    project,
    record_epsilon,
    report,
    reports_of,
    write_strings,
)

KEY = counters.key(1, "histograms", "test")
EPSILONS = [0.1, 0.5, 1.0, 3.0, 8.0]


def same_value(value, how, peers, first=0):
    """The strings of many peers of the same value, a row of bits each."""
    reports = reports_with(np.full(peers, value), first=first)
    out = np.zeros((peers, -(-how.values // 64)), np.uint64)
    write_strings(KEY, 0, reports, 0, peers, plan_of([how]), out)
    return bits_of(out, how.values)


def reports_with(values, histogram=0, first=0):
    peers = np.arange(first, first + len(values), dtype=np.int32)
    zeros = np.zeros(len(values), np.int32)
    return Reports(peers, zeros, zeros + np.int32(histogram), np.asarray(values, np.int32))


def mixed_plan():
    """Three histograms, of each kind, one of them with strings of more than a word."""
    sizes = {"random-response": 5, "pq": 70, "rappor": 8}
    return plan_of([perturbation(kind, epsilon=1.0, values=m) for kind, m in sizes.items()])


def mixed_reports(rng, n=1500):
    plan = mixed_plan()
    histogram = rng.integers(0, 3, n).astype(np.int32)
    value = (rng.random(n) * np.diff(plan.first)[histogram]).astype(np.int32)
    peer, number = rng.integers(0, 400, n).astype(np.int32), rng.integers(0, 4, n).astype(np.int32)
    return Reports(peer, number, histogram, value), rng.random(n) < 0.8, plan


# Which p and q


@pytest.mark.parametrize("values", [2, 5, 16, 300])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_every_kind_gives_the_epsilon_that_was_asked_for(values, epsilon):
    for kind in KINDS:
        how = perturbation(kind, epsilon=epsilon, values=values)
        assert how.epsilon == pytest.approx(epsilon, rel=1e-6)
        assert 0 < how.q < how.p < 1


@pytest.mark.parametrize("values", [2, 3, 16, 1000])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_p_of_least_error_is_the_one_that_a_search_finds(values, epsilon):
    assert perturbation("pq", epsilon=epsilon, values=values).p == pytest.approx(
        naive.pq_best(epsilon, values), abs=1e-5
    )


@pytest.mark.parametrize("values", [2, 5, 16])
def test_strings_without_noise_are_the_truth(values):
    for kind in (*KINDS, "best"):
        how = perturbation(kind, epsilon=math.inf, values=values)
        assert (how.p, how.q, how.rms_error(10)) == (1, 0, 0)
        assert (same_value(values - 1, how, 20) == np.eye(values, dtype=bool)[-1]).all()


@pytest.mark.parametrize("values", [2, 3, 8, 16, 64])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_best_kind_is_the_one_of_least_error(values, epsilon):
    errors = [perturbation(kind, epsilon=epsilon, values=values).rms_error(100) for kind in KINDS]
    assert perturbation("best", epsilon=epsilon, values=values).rms_error(100) == min(errors)


def test_c17_7_1_the_best_p_is_that_of_rappor_for_two_values_and_falls_to_one_half():
    best = [perturbation("pq", epsilon=1.0, values=m).p for m in (2, 3, 4, 8, 16, 64, 10**3, 10**5, 10**8)]
    assert best[0] == pytest.approx(perturbation("rappor", epsilon=1.0, values=2).p)
    assert (np.diff(best) < 0).all()
    assert best[-1] == pytest.approx(1 / 2, abs=1e-3)


def errors(epsilon, values):
    return {kind: perturbation(kind, epsilon=epsilon, values=values).rms_error(10_000) for kind in KINDS}


def test_c17_7_2_pq_is_never_worse_than_rappor_and_noticeably_better_only_at_high_epsilon():
    settings = [(epsilon, 16) for epsilon in np.linspace(0.05, 8, 60)] + [(1.0, m) for m in range(2, 200)]
    gain = {s: 1 - errors(*s)["pq"] / errors(*s)["rappor"] for s in settings}
    assert min(gain.values()) > -1e-9
    assert max(gain[s] for s in settings if s[0] <= 1) < 0.03
    assert gain[8.0, 16] > 0.25


def test_c17_7_2_random_response_is_best_for_few_values_and_pq_for_many():
    for few_or_high in [(1.0, 2), (1.0, 4), (1.0, 8), (2.0, 16), (3.0, 16), (8.0, 16)]:
        assert min(errors(*few_or_high), key=errors(*few_or_high).get) == "random-response"
    for many_or_low in [(0.1, 16), (0.5, 16), (1.0, 16), (1.0, 32), (1.0, 128)]:
        assert min(errors(*many_or_low), key=errors(*many_or_low).get) == "pq"


@pytest.mark.parametrize("values", [2, 3, 16])
def test_the_published_random_response_gives_less_epsilon_than_it_says(values):
    how = perturbation("random-response", epsilon=2.0, values=values, as_published=True)
    assert math.log(values * how.p / (1 - how.p)) == pytest.approx(2)
    assert how.epsilon == pytest.approx(2 + math.log((values - 1) / values))
    assert how.p + (values - 1) * how.q == pytest.approx(1)


@pytest.mark.parametrize("values", [2, 3, 16])
def test_the_published_random_response_is_refused_where_lies_outweigh_the_truth(values):
    edge = math.log(values / (values - 1))
    assert perturbation("random-response", epsilon=edge + 1e-6, values=values, as_published=True).p > 0
    for kind in ("pq", "rappor", "best"):
        assert perturbation(kind, epsilon=edge - 1e-6, values=values, as_published=True).kind != "random-response"
    with pytest.raises(UserError, match="carries no information"):
        perturbation("random-response", epsilon=edge - 1e-6, values=values, as_published=True)


def test_what_makes_no_sense_is_refused():
    for epsilon in (0.0, -1.0, math.nan):
        with pytest.raises(UserError, match="above 0"):
            perturbation("pq", epsilon=epsilon, values=4)
    with pytest.raises(UserError, match="1 cell"):
        perturbation("pq", epsilon=1.0, values=1)
    with pytest.raises(UserError, match="did you mean “rappor”"):
        perturbation("rapor", epsilon=1.0, values=4)


# Strings


@pytest.mark.parametrize(("values", "number"), [(2, 0), (64, 1), (65, 0), (130, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_string_is_that_of_the_reference_for_the_same_draws(kind, values, number):
    how = perturbation(kind, epsilon=1.5, values=values)
    for peer in range(4):
        value = (peer * 61 + 1) % values
        string = bits_of(report(KEY, 3, peer, number, value, how), values)
        if kind == "random-response":
            expected = naive.response_string(KEY, 3, peer, number, value, values, 1.5)
        else:
            expected = naive.bitwise_string(KEY, 3, peer, number, value, values, how.p, how.q)
        assert string.tolist() == [bool(bit) for bit in expected]


@pytest.mark.parametrize("q", [0.0, 0.25, 1 / 3, 0.9, 2.0**-32, 1 - 2.0**-40])
def test_ones_are_as_frequent_as_asked_for(q):
    words, lanes = (20_000 if JIT else 500), ~np.uint64(0)
    ones = sum(int(rare_ones(KEY, 0, i, 0, q, lanes)).bit_count() for i in range(words))
    n = 64 * words
    # Six standard deviations, and three bits for the rarest: fails once in millions of seeds.
    assert abs(ones - q * n) <= 6 * math.sqrt(n * q * (1 - q)) + 3 * (0 < q < 1)


def test_bits_of_a_string_are_as_frequent_as_the_reference_says_all_together():
    how = perturbation("pq", epsilon=1.0, values=3)
    n = 20_000 if JIT else 2000
    for value in range(3):
        number = same_value(value, how, n, first=n * value) @ [1, 2, 4]
        expected = naive.bit_probabilities(3, how.p, how.q)[value] * n
        assert p_of_chi_square(np.bincount(number, minlength=8), expected) > ALPHA
        wrong = naive.bit_probabilities(3, how.p, 0.8 * how.q)[value] * n
        assert p_of_chi_square(np.bincount(number, minlength=8), wrong) < ALPHA


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_long_strings_are_independent_and_no_bit_is_favoured(kind):
    how = perturbation(kind, epsilon=0.7, values=150)
    n = 3000 if JIT else 300
    ones = same_value(149, how, n).sum(axis=0)
    sd = math.sqrt(n * how.q * (1 - how.q))
    # 150 bits, five standard deviations: fails once in ten thousand seeds; rare lies of random response are skewed.
    slack = 5 if how.single else 0
    assert (abs(ones[:149] - n * how.q) < 5 * sd + slack).all()
    assert abs(ones[149] - n * how.p) < 5 * math.sqrt(n * how.p * (1 - how.p)) + slack
    if not how.single:
        bits = same_value(0, how, n)[:, 1:].astype(float)
        for lag in (1, 63, 64, 65):
            both = (bits[:, lag:] * bits[:, :-lag]).mean()
            pairs = bits[:, lag:].size
            assert abs(both - how.q**2) < 5 * how.q / math.sqrt(pairs) * 2


def test_different_reports_cycles_and_peers_have_different_strings():
    how = perturbation("pq", epsilon=0.5, values=64)
    strings = {int(report(KEY, c, i, j, 5, how)[0]) for c in range(3) for i in range(3) for j in range(3)}
    assert len(strings) == 27


# What they give away: limits as in test_privacy_audit, above the true ε once in a thousand seeds


def audit(how, draws=400_000):
    """A lower bound on ε: the most telling event is that the one's bit is set and that of the other value is not."""
    hits = []
    for value, first in ((0, 0), (1, draws)):
        bits = same_value(value, how, draws, first)
        hits.append(int((bits[:, 0] & ~bits[:, 1]).sum()))
    return math.log(limits(hits[0], draws, ERROR)[0] / limits(hits[1], draws, ERROR)[1])


@needs_jit
@pytest.mark.parametrize("values", [2, 7])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_strings_give_away_their_epsilon_and_no_more(kind, epsilon, values):
    how = perturbation(kind, epsilon=epsilon, values=values)
    assert 0.85 * epsilon < audit(how) <= epsilon


@needs_jit
@pytest.mark.parametrize("kind", KINDS)
def test_too_few_false_answers_are_detected(kind):
    right = perturbation(kind, epsilon=1.0, values=7)
    lies = 0.7
    p = 1 - lies * (1 - right.p) if right.single else right.p
    broken = Perturbation(kind, 7, p, lies * right.q)
    assert audit(broken) > 1.0


@needs_jit
def test_the_published_random_response_stays_below_its_stated_epsilon():
    how = perturbation("random-response", epsilon=2.0, values=3, as_published=True)
    assert 0.85 * how.epsilon < audit(how) <= how.epsilon < 2.0


# Collecting


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_counts_are_the_sums_of_the_accepted_reports_one_by_one(rng, threads):
    reports, accepted, plan = mixed_reports(rng, 1500 if JIT else 600)
    kinds = [perturbation(k, epsilon=1.0, values=m) for k, m in (("random-response", 5), ("pq", 70), ("rappor", 8))]
    counts, arrived = collect(KEY, 2, reports, accepted, plan, threads)
    expected = np.zeros_like(counts)
    for peer, number, h, value in zip(*(column[accepted] for column in reports), strict=True):
        bits = bits_of(report(KEY, 2, peer, number, value, kinds[h]), kinds[h].values)
        expected[plan.first[h] : plan.first[h + 1]] += bits
    assert counts.tolist() == expected.tolist()
    assert arrived.tolist() == np.bincount(reports.histogram[accepted], minlength=3).tolist()


def test_counts_do_not_depend_on_the_order_of_reports(rng):
    reports, accepted, plan = mixed_reports(rng)
    order = rng.permutation(accepted.size)
    shuffled = Reports(*(column[order] for column in reports))
    for ours, theirs in zip(
        collect(KEY, 0, reports, accepted, plan), collect(KEY, 0, shuffled, accepted[order], plan, 2), strict=True
    ):
        assert ours.tolist() == theirs.tolist()


def test_strings_carried_by_packets_add_up_to_the_same_counts(rng):
    reports, accepted, plan = mixed_reports(rng)
    strings = np.zeros((accepted.size, 2), np.uint64)
    write_strings(KEY, 0, reports, 0, accepted.size, plan, strings)
    counts, arrived = np.zeros(plan.first[-1], np.int64), np.zeros(3, np.int64)
    add_strings(strings, reports.histogram, accepted, plan, counts, arrived)
    expected = collect(KEY, 0, reports, accepted, plan)
    assert (counts.tolist(), arrived.tolist()) == tuple(x.tolist() for x in expected)


def test_a_report_that_was_not_accepted_counts_nowhere():
    plan = plan_of([perturbation("rappor", epsilon=1.0, values=4)])
    counts, arrived = collect(KEY, 0, reports_with([0, 1, 2]), np.zeros(3, np.bool_), plan)
    assert (counts.sum(), arrived.sum()) == (0, 0)
    assert estimate(counts, arrived, plan)[0].tolist() == [0, 0, 0, 0]


# Estimating


def estimates(how, truth, repeats):
    """Independent estimates of the same histogram of values, a row each."""
    value = np.repeat(np.arange(how.values), truth)
    plan = plan_of([how] * repeats)
    peers = np.arange(value.size * repeats, dtype=np.int32)
    histogram = np.repeat(np.arange(repeats, dtype=np.int32), value.size)
    reports = Reports(peers, np.zeros_like(peers), histogram, np.tile(value, repeats).astype(np.int32))
    counts, arrived = collect(KEY, 0, reports, np.ones(peers.size, np.bool_), plan)
    return np.array(estimate(counts, arrived, plan))


@needs_jit
@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_unbiased_and_their_rms_error_is_the_stated_one(kind):
    how, truth, repeats = perturbation(kind, epsilon=1.0, values=5), np.array([120, 60, 20, 0, 0]), 4000
    found = estimates(how, truth, repeats)
    n = truth.sum()
    sd = found.std(axis=0) / math.sqrt(repeats)
    # Five means, four standard deviations each: fails once in 3000 seeds.
    assert (abs(found.mean(axis=0) - truth) < 4 * sd).all()
    # The mean of 4000 squared errors has a relative sd of about 1.2 %, its root half of that: five sd are 3 %.
    error = math.sqrt(np.square((found - truth) / n).sum(axis=1).mean())
    assert error == pytest.approx(how.rms_error(n), rel=0.03)
    assert np.linalg.norm((found - truth) / n, axis=1).mean() < how.rms_error(n)


@pytest.mark.parametrize("kind", KINDS)
def test_the_estimate_from_expected_counts_is_the_truth(kind):
    how, truth = perturbation(kind, epsilon=0.7, values=4), np.array([50, 0, 30, 20])
    expected = truth * how.p + (100 - truth) * how.q
    assert estimate(expected, np.array([100]), plan_of([how]))[0] == pytest.approx(truth)


@needs_jit
def test_estimates_from_random_response_sum_to_the_number_of_reports():
    how = perturbation("random-response", epsilon=0.5, values=5)
    assert estimates(how, [50, 0, 10, 3, 7], 20).sum(axis=1) == pytest.approx(70)


@needs_jit
def test_projection_brings_noisy_estimates_nearer_to_the_truth_than_clipping():
    how, truth = perturbation("best", epsilon=0.5, values=16), np.array([400, 80, 20, *[0] * 13])
    found = estimates(how, truth, 200)
    distance = {fix: np.mean([np.linalg.norm(fix(row, 500.0) - truth) for row in found]) for fix in (project, clip)}
    assert distance[project] < distance[clip] < np.linalg.norm(found - truth, axis=1).mean()


HISTOGRAMS = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12)


@given(HISTOGRAMS, st.floats(0.1, 1e3))
def test_the_projection_is_that_of_the_reference(histogram, total):
    found = project(np.array(histogram), total)
    assert found == pytest.approx(naive.simplex_projection(histogram, total), abs=1e-6)
    assert found.sum() == pytest.approx(total)
    assert found.min() >= 0


@given(HISTOGRAMS, st.floats(0.1, 1e3))
def test_clipping_leaves_no_negative_cell_and_the_total(histogram, total):
    found = clip(np.array(histogram), total)
    assert found.sum() == pytest.approx(total)
    assert found.min() >= 0
    assert (found[np.array(histogram) < 0] == 0).all() or max(histogram) <= 0


def test_a_histogram_of_nobody_is_empty():
    for fix in (project, clip):
        assert fix(np.array([3.0, -4.0]), 0.0).tolist() == [0, 0]


def test_a_proper_histogram_is_its_own_projection():
    assert project(np.array([3.0, 0.0, 7.0]), 10.0).tolist() == [3, 0, 7]


# multi-freq-ldpy (Arcolezi et al. 2022), where it is installed: it gives shares, negative ones cut off.


def test_random_response_is_estimated_as_multi_freq_ldpy_does():
    oracle = pytest.importorskip("multi_freq_ldpy.pure_frequency_oracles.GRR", reason="multi-freq-ldpy not installed")
    how, value = perturbation("random-response", epsilon=1.0, values=6), np.arange(300) % 4
    plan = plan_of([how])
    reports = reports_with(value)
    counts, arrived = collect(KEY, 0, reports, np.ones(300, np.bool_), plan)
    sent = [int(np.flatnonzero(bits_of(report(KEY, 0, i, 0, value[i], how), 6))[0]) for i in range(300)]
    ours = clip(estimate(counts, arrived, plan)[0], 1.0)
    assert ours == pytest.approx(oracle.GRR_Aggregator_MI(sent, 6, 1.0))


def test_rappor_is_estimated_as_multi_freq_ldpy_does():
    oracle = pytest.importorskip("multi_freq_ldpy.pure_frequency_oracles.UE", reason="multi-freq-ldpy not installed")
    how, value = perturbation("rappor", epsilon=1.0, values=6), np.arange(300) % 4
    plan = plan_of([how])
    counts, arrived = collect(KEY, 0, reports_with(value), np.ones(300, np.bool_), plan)
    sent = [bits_of(report(KEY, 0, i, 0, value[i], how), 6).astype(float) for i in range(300)]
    ours = clip(estimate(counts, arrived, plan)[0], 1.0)
    assert ours == pytest.approx(oracle.UE_Aggregator_MI(sent, 1.0, optimal=False))


# Partitions, subsets, cells


def test_partitions_are_of_equal_size_and_random():
    parts = partition(KEY, 0, 1003, 4)
    assert sorted(np.bincount(parts).tolist()) == [250, 251, 251, 251]
    assert (parts != partition(KEY, 1, 1003, 4)).any()


def test_subsets_of_a_partition_do_not_overlap_and_differ_between_partitions():
    subsets = draw_subsets(KEY, 0, 30, 12, 3, 2)
    assert all(len(np.unique(np.concatenate(own))) == 6 for own in subsets)
    assert len({tuple(own[0].tolist()) for own in subsets}) > 15
    counts = np.bincount(np.concatenate([np.concatenate(own) for own in draw_subsets(KEY, 0, 2000, 12, 3, 2)]))
    assert p_of_chi_square(counts) > ALPHA
    assert [len(own) for own in draw_subsets(KEY, 5, 3, 13, 3)] == [4, 4, 4]


def test_subsets_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="at most 4 subsets of 3"):
        draw_subsets(KEY, 0, 1, 12, 3, 5)
    with pytest.raises(UserError, match="at most 12"):
        draw_subsets(KEY, 0, 1, 12, 13)


@pytest.mark.parametrize("alphabets", [[2], [3, 2], [2, 4, 3]])
def test_cells_are_numbered_as_the_reference_lists_them_and_back(alphabets):
    alphabets, classes = np.array(alphabets), 2
    m = cells(alphabets, classes)
    codes, labels = decode(np.arange(m, dtype=np.int32), alphabets, classes)
    assert encode(codes, labels, alphabets, classes).tolist() == list(range(m))
    assert [naive.cell_number(c, y, alphabets, classes) for c, y in zip(codes, labels, strict=True)] == list(range(m))


def test_k_binary_features_and_a_label_make_two_to_the_k_plus_1_cells():
    assert cells(np.full(3, 2), 2) == 16


def test_every_peer_is_asked_for_each_subset_of_its_partition_once(rng):
    codes, labels = rng.integers(0, 2, (50, 6)).astype(np.int32), rng.integers(0, 2, 50).astype(np.int32)
    part, subsets = partition(KEY, 0, 50, 3), draw_subsets(KEY, 0, 3, 6, 2, 2)
    reports = reports_of(part, subsets, codes, labels, np.full(6, 2), 2)
    asked = sorted(zip(reports.peer.tolist(), reports.number.tolist(), strict=True))
    assert asked == [(peer, number) for peer in range(50) for number in range(2)]
    for peer, number, histogram, value in zip(*reports, strict=True):
        assert histogram == 2 * part[peer] + number
        subset = subsets[part[peer]][number]
        assert value == naive.cell_number(codes[peer, subset], labels[peer], [2, 2], 2)


# Budget


def test_a_record_pays_for_all_its_answers_and_the_published_budget_for_the_worst_attribute():
    # Figure 8-2a on 13 numeric features: two strings of three features and a cut of each feature, all at ε_h.
    subsets, histograms, cuts = [(0, 1, 2), (3, 4, 5)], [0.5, 0.5], dict.fromkeys(range(13), 0.5)
    assert record_epsilon(histograms, cuts) == 15 * 0.5
    costs = {i: [0.5] + [0.5] * (i < 6) for i in range(13)}
    assert attribute_epsilon(histograms, subsets, cuts) == naive.published_budget(costs, histograms) == 2 * 0.5
    assert attribute_epsilon([0.5], [(0, 1)], {1: 2.0}) == 2.5
    assert record_epsilon([0.5], {1: 2.0}) == 2.5
