"""The references themselves, against answers known from elsewhere or worked by hand."""

import math

import naive
import numpy as np
import pytest


def test_mix_gives_the_published_splitmix64_stream():
    stream = [naive.mix(1234567 + k * naive.GOLDEN) for k in range(1, 6)]
    assert stream == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_draws_stay_in_their_ranges_at_both_ends():
    assert 0 < naive.uniform(0) < naive.uniform(2**64 - 1) < 1
    for n in (1, 3, 8, 10**6 + 3):
        assert naive.below(0, n) == 0
        assert naive.below(2**64 - 1, n) == n - 1


def test_keys_tell_layers_and_purposes_apart():
    keys = {naive.key(1, layer, purpose) for layer in ("a", "ab") for purpose in ("c", "bc")}
    assert len(keys) == 4


def test_a_permutation_has_everybody_once_and_changes_with_the_cycle():
    assert sorted(naive.permutation(5, 0, 50)) == list(range(50))
    assert naive.permutation(5, 0, 50) != naive.permutation(5, 1, 50)


def test_all_permutations_of_three_are_about_equally_frequent():
    drawn = [tuple(naive.permutation(7, cycle, 3)) for cycle in range(6000)]
    counts = [drawn.count(p) for p in set(drawn)]
    assert len(counts) == 6
    assert sum((c - 1000) ** 2 / 1000 for c in counts) < 20.5  # χ² with 5 degrees of freedom, 99.9 %


@pytest.mark.parametrize(
    ("i_first", "tail"),
    [
        # (1, 3) ties with (6, 3), then (4, 2) with (7, 2): who wins the first loses the second. Partners are left out.
        (True, [(5, 4), (6, 3), (7, 2), (4, 2)]),
        (False, [(5, 4), (6, 3), (4, 2), (7, 2)]),
    ],
)
def test_newscast_merge_worked_by_hand(i_first, tail):
    view_0 = [(1, 3), (4, 2), (8, 1)]
    view_1 = [(5, 4), (6, 3), (7, 2), (0, 1), (5, 0)]
    new_0, new_1 = naive.newscast_merge(view_0, view_1, 0, 1, 9, i_first, size=5)
    assert new_0 == [(1, 9), *tail]
    assert new_1 == [(0, 9), *tail]


def test_newscast_merge_fills_up_from_the_longer_view_and_keeps_no_peer_twice():
    new_0, _ = naive.newscast_merge([(2, 5)], [(2, 4), (0, 3), (3, 2)], 0, 1, 6, True, size=20)
    assert new_0 == [(1, 6), (2, 5), (3, 2)]


def test_newscast_chooses_older_entries_before_younger_ones():
    view = [(0, 4), (1, 3), (2, 2), (3, 1)]
    assert naive.newscast_choose(view, 1, [True, True, True, True]) == 1
    assert naive.newscast_choose(view, 1, [True, False, False, True]) == 3
    assert naive.newscast_choose(view, 2, [True, True, False, False]) == 1
    assert naive.newscast_choose(view, 2, [False] * 4) is None


def test_newscast_loses_an_exchange_with_an_offline_peer_only_without_the_oracle():
    views, online = [[(1, 0), (2, 0)], [], [(0, 0)]], [True, False, True]
    key = next(k for k in range(100) if naive.below(naive.draw(k, 1, 0, 0), 2) == 0)
    assert naive.newscast_cycle(views, [0], online, 1, key, "none", 3) == (views, [1])
    new, asked = naive.newscast_cycle(views, [0], online, 1, key, "oracle", 3)
    assert asked == [2]
    assert new == [[(2, 1), (1, 0)], [], [(0, 1), (1, 0)]]


def test_newscast_forms_one_connected_overlay_from_a_ring():
    n, size = 100, 20
    views = [[((i + 1) % n, 0)] for i in range(n)]
    for now in range(1, 20):
        views, _ = naive.newscast_cycle(views, naive.permutation(1, now, n), [True] * n, now, 2, "oracle", size)
    peers = [[peer for peer, _ in view] for view in views]
    assert all(len(set(p)) == size and i not in p for i, p in enumerate(peers))
    assert naive.components(peers) == 1


def test_updates_worked_by_hand():
    w, x = np.array([1.0, 0.0]), np.array([0.5, 1.0])
    # The margin of y = −1 is −0.5; λ = 0.5 and t = 2 give η = 1 and keep half of w.
    assert naive.pegasos(w, x, -1, 2, 0.5).tolist() == [0.0, -1.0]
    assert naive.pegasos(4 * w, x, 1, 2, 0.5).tolist() == [2.0, 0.0]
    assert naive.logistic(w, x, -1, 2, 0.5) == pytest.approx(0.5 * w - x / (1 + math.exp(-0.5)))
    assert naive.mean(w, x, -1, 2, 0.5).tolist() == [0.25, -0.5]


def test_logistic_survives_huge_margins():
    x = np.array([1.0])
    assert naive.logistic(np.array([1e6]), x, 1, 2, 1.0) == pytest.approx([5e5])
    assert naive.logistic(np.array([-1e6]), x, 1, 2, 1.0) == pytest.approx([-5e5 + 0.5])


def test_a_minibatch_takes_all_margins_at_the_old_model_and_one_by_one_does_not():
    w, xs, ys = [0.5], [[1.0], [1.0]], [1, 1]
    # t = 2, λ = 1/4: η = 2. Both records are inside: 0.25 + (2/2)(1 + 1). In turn: 0.25 + 2, then outside: (2/3) 2.25.
    assert naive.minibatch(w, xs, ys, 2, 0.25, "pegasos") == pytest.approx([2.25])
    assert naive.one_by_one(w, xs, ys, 2, 0.25, "pegasos") == pytest.approx([1.5])


def test_the_mean_learner_holds_the_mean_of_yx():
    rng = np.random.default_rng(1)
    xs, labels = rng.normal(size=(7, 3)), [0, 1, 2, 2, 1, 0, 0]
    weights, age = naive.update((np.zeros((3, 3)), 0), xs, labels, 0.1, "mean", batch=False)
    assert age == 7
    for m in range(3):
        signed = [x if label == m else -x for x, label in zip(xs, labels, strict=True)]
        assert weights[m] == pytest.approx(np.mean(signed, axis=0))


def test_age_counts_updates():
    model, xs = (np.zeros((1, 2)), 3), np.ones((4, 2))
    assert naive.update(model, xs, [0, 1, 1, 0], 0.1, "pegasos", batch=True)[1] == 4
    assert naive.update(model, xs, [0, 1, 1, 0], 0.1, "pegasos", batch=False)[1] == 7
    assert naive.update(model, xs[:0], [], 0.1, "pegasos", batch=True) is model


@pytest.mark.parametrize(
    ("variant", "weighting", "w", "age"),
    [
        # One feature, x = 1, y = +1, mean learner: an update makes (w, t) into ((t·w + 1)/(t + 1), t + 1).
        # Received (4, 2), current (8, 6), last (0, 1): update(received) = (3, 3), update(last) = (1/2, 2).
        ("algorithm1", "plain", (3 + 8) / 2, 6),
        ("algorithm1", "age", (3 * 3 + 6 * 8) / 9, 6),
        ("rw", "plain", 3, 3),
        ("mu", "plain", (2 * 2 + 1) / 3, 3),
        ("mu", "age", (2 * (8 / 3) + 1) / 3, 3),
        ("um", "plain", (3 + 0.5) / 2, 3),
        ("um", "age", (3 * 3 + 2 * 0.5) / 5, 3),
    ],
)
def test_golf_receive_worked_by_hand(variant, weighting, w, age):
    received, current, last = [(np.array([[v]]), t) for v, t in [(4.0, 2), (8.0, 6), (0.0, 1)]]
    state = naive.State(current, last, [current])
    new = naive.on_receive(state, received, [[1.0]], [1], variant, 1.0, "mean", weighting=weighting, cache=2)
    assert new.current[0].item() == pytest.approx(w)
    assert new.current[1] == age
    assert new.last is received
    assert new.cache == [current, new.current]


def test_a_model_walks_on_within_a_golf_cycle():
    states, records = [naive.start(1, 1) for _ in range(4)], [([[1.0]], [1])] * 4
    states = naive.golf_cycle(states, [0, 1, 2, 3], [1, 2, -1, 1], records, "rw", 1.0, "mean")
    assert [state.current[1] for state in states] == [0, 1, 2, 0]


def test_votes_and_their_ties():
    plus, minus, zero = [(np.array([[v]]), 1) for v in (1.0, -1.0, 0.0)]
    assert naive.voted([minus, minus, plus], [1.0]) == 0
    assert naive.voted([minus, plus], [1.0]) == 1
    assert naive.voted([minus, minus, zero, zero, zero], [1.0]) == 1
    one, two = [(np.eye(3)[[row]].T, 1) for row in (1, 2)]
    assert naive.voted([two, one, two], [1.0]) == 2
    assert naive.voted([two, one], [1.0]) == 1


def test_push_pull_keeps_the_sum():
    assert naive.push_pull([0.0, 4.0, 8.0, 1.0], [0, 1, 2, 3], [1, 2, -1, 0], [True, True, True, False]) == [2, 5, 5, 1]


def test_overlay_statistics_of_a_triangle_with_a_tail_and_a_lone_node():
    views = [[1, 2], [2], [3], [], []]  # 0–1–2–0, 2–3; 4 alone
    assert naive.in_degrees(views) == [0, 1, 2, 1, 0]
    assert naive.clustering(views) == pytest.approx((1 + 1 + 1 / 3 + 0 + 0) / 5)
    assert naive.path_length(views, [0, 3]) == pytest.approx((1 + 1 + 2 + 1 + 2 + 2) / 6)
    assert math.isnan(naive.path_length(views, [4]))
    assert naive.components(views) == 2


def test_the_mailbox_delivers_copies_in_sending_order_and_its_counts_add_up():
    box, payload = naive.Mailbox(), [1]
    box.send(2, 0, 1, payload)
    box.send(1, 1, 2, payload)
    box.send(1, 2, 0, payload)
    box.send(1, 0, 2, payload, arrives=False)
    box.send(3, 0, 2, payload)
    payload[0] = 9
    assert box.deliver(0, [True] * 3) == []
    assert box.deliver(2, [False, True, True]) == [(0, 1, [1]), (1, 2, [1])]
    assert (box.sent, box.delivered, box.lost, box.under_way) == (5, 2, 2, 1)


def test_levels_order_conflicting_events_only():
    # 0→1, then 1→2 reads what was written, 3→4 is free, 0→−1 nothing, 3→5 shares only a read, 6→3 writes what was read.
    assert naive.dependency_levels([0, 1, 3, 0, 3, 6, 0], [1, 2, 4, -1, 5, 3, 1]) == [0, 1, 0, -1, 0, 1, 2]


def test_error_counts_a_zero_score_as_class_1_and_breaks_ties_downwards():
    assert naive.error(np.array([[1.0]]), [[0.0], [-1.0], [2.0], [2.0]], [1, 0, 1, 0]) == 0.25
    assert naive.error(np.zeros((3, 1)), [[1.0], [1.0]], [0, 1]) == 0.5


def test_auc_of_a_known_case():
    # scikit-learn's own example (.75), and one in which every score ties.
    assert naive.auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75
    assert naive.auc([1.0, 1.0, 1.0], [0, 1, 1]) == 0.5
    assert math.isnan(naive.auc([1.0], [1]))


def test_f1_of_known_cases():
    assert naive.f1(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0])) == 0.5
    assert naive.f1([0, 0], [0, 0]) == 0.0
    # scikit-learn's own example: macro .2666…
    assert naive.f1([0, 2, 1, 0, 0, 1], [0, 1, 2, 0, 1, 2], classes=3) == pytest.approx(0.8 / 3)
