"""Token accounts against a plain version, and what the paper promises of them."""

from types import SimpleNamespace

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from golfsim.core.rng import key
from golfsim.network.flow import KINDS, Accounts, Flow, FlowConfig, chance, reaction

LAYER = SimpleNamespace(key=lambda purpose: key(1, "layer", purpose))
SPENDING = [("generalised", 6, 3), ("generalised", 5, 1), ("randomised", 6, 3), ("randomised", 5, 5)]
FLOWS = [{"kind": "proactive"}, {"kind": "reactive"}, {"kind": "simple", "capacity": 4}] + [
    {"kind": kind, "capacity": capacity, "spend": spend} for kind, capacity, spend in SPENDING
]
NAMES = [f"{flow['kind']} {flow.get('capacity', '')} {flow.get('spend', '')}".strip() for flow in FLOWS]
EACH = pytest.mark.parametrize("flow", FLOWS, ids=NAMES)


def config(flow):
    return TypeAdapter(FlowConfig).validate_python(flow)


def accounts_of(flow):
    return Accounts(
        KINDS[flow["kind"]],
        flow.get("capacity", 0),
        flow.get("spend", 1),
        1,
        np.zeros(0, np.int32),
    )


@EACH
def test_chances_and_reactions_are_those_of_the_paper(flow):
    kind, capacity, spend = (flow["kind"], flow.get("capacity", 0), flow.get("spend", 1))
    for tokens in range(capacity + 2):
        assert chance(accounts_of(flow), tokens) == naive.chance(kind, tokens, capacity, spend)
        for useful in (True, False):
            assert reaction(accounts_of(flow), tokens, useful) == naive.reaction(kind, tokens, useful, spend)


def test_the_functions_at_some_points_by_hand():
    six = {"capacity": 6, "spend": 3}
    assert [naive.chance("randomised", a, **six) for a in (1, 2, 3, 6)] == [0, 0, 0.25, 1]
    assert [naive.reaction("generalised", a, True, 3) for a in (0, 1, 3, 4)] == [0, 1, 1, 2]
    assert [naive.reaction("generalised", a, False, 3) for a in (0, 3, 4)] == [0, 0, 1]
    assert naive.reaction("randomised", 2, True, 3) == pytest.approx(2 / 3)


@EACH
@given(data=st.data())
def test_turns_and_answers_are_those_of_the_plain_version(flow, data):
    nodes, parts = 5, data.draw(st.sampled_from([1, 3]))
    made = Flow(config(flow), LAYER, nodes, parts)
    made.start(np.arange(nodes))
    tokens = [int(flow["kind"] == "reactive")] * (nodes * parts)
    assert made.tokens.tolist() == tokens
    for cycle in range(1, 12):
        everyone = np.arange(nodes, dtype=np.int32)
        part = np.array(data.draw(st.lists(st.integers(0, parts - 1), min_size=nodes, max_size=nodes)), np.int32)
        sends = made.sends(cycle, everyone, part)
        for i in range(nodes):
            place = i * parts + part[i]
            expected, tokens[place] = naive.token_turn(flow, tokens[place], naive.draw(LAYER.key("turn"), cycle, i, 0))
            assert sends[i] == expected
        events = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, parts - 1), st.booleans()), max_size=8))
        got, of, useful = (np.array([event[n] for event in events], kind) for n, kind in enumerate("iib"))
        answers = made.answers(cycle, got, useful.astype(np.bool_), of)
        received = [0] * nodes
        for (i, p, was_useful), number in zip(events, answers, strict=True):
            h = naive.draw(LAYER.key("answer"), cycle, i, received[i])
            received[i] += 1
            expected, tokens[i * parts + p] = naive.token_answer(flow, tokens[i * parts + p], was_useful, h)
            assert number == expected
        assert made.tokens.tolist() == tokens


@pytest.mark.parametrize("flow", FLOWS[2:], ids=NAMES[2:])
@given(useful=st.lists(st.lists(st.booleans(), max_size=12), min_size=1, max_size=60))
def test_a_node_never_sends_more_than_one_message_per_turn_and_all_its_tokens(flow, useful):
    """In any number of turns, whatever it receives. So it never has more tokens than its account can hold."""
    made, one, sent = Flow(config(flow), LAYER, 1), np.zeros(1, np.int32), []
    for cycle, messages in enumerate(useful, 1):
        number = int(made.sends(cycle, one).sum())
        zeros = np.zeros(len(messages), np.int32)
        number += int(made.answers(cycle, zeros, np.array(messages, np.bool_)).sum())
        sent.append(number)
        assert 0 <= made.tokens[0] <= flow["capacity"]
        assert sum(sent) == cycle - made.tokens[0]
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            assert sum(sent[first : last + 1]) <= last - first + 1 + flow["capacity"]


def test_messages_of_a_cycle_have_different_numbers_and_a_new_cycle_begins_at_zero():
    made = Flow(config({"kind": "simple", "capacity": 3}), LAYER, 4)
    nodes = lambda *numbers: np.array(numbers, np.int32)  # noqa: E731
    assert made.numbers(1, nodes(2, 0, 2)).tolist() == [0, 0, 1]
    assert made.numbers(1, nodes(2, 3)).tolist() == [2, 0]
    assert made.numbers(2, nodes(2)).tolist() == [0]


def test_only_a_turn_earns_a_token():
    made = Flow(config({"kind": "simple", "capacity": 9}), LAYER, 50)
    for cycle in range(1, 17):
        made.sends(cycle, np.arange(cycle % 4, 50, 4, dtype=np.int32))
    assert (made.tokens == 4).all()


def test_a_proactive_node_is_as_without_accounts():
    made = Flow(config({"kind": "proactive"}), LAYER, 3)
    everyone = np.arange(3, dtype=np.int32)
    assert made.sends(1, everyone).all()
    assert not made.answers(1, everyone, np.ones(3, np.bool_)).any()
    assert made.metrics(np.ones(3, np.bool_)) == {"tokens.mean": 0, "tokens.max": 0}


def test_a_reactive_node_sends_once_by_itself():
    made = Flow(config({"kind": "reactive"}), LAYER, 3)
    everyone = np.arange(3, dtype=np.int32)
    made.start(everyone)
    assert made.sends(1, everyone).all()
    assert not made.sends(2, everyone).any()
    made.start(np.array([1]))
    assert made.sends(3, everyone).tolist() == [False, True, False]


def test_the_share_of_randomised_answers_is_a_over_a():
    """4000 answers at a = 2, A = 5. Four standard deviations of the share .4: fails for one right program in 15,000."""
    made = Flow(config({"kind": "randomised", "capacity": 5, "spend": 5}), LAYER, 4000)
    made.tokens[:] = 2
    nodes = np.arange(4000, dtype=np.int32)
    assert made.answers(1, nodes, np.ones(4000, np.bool_)).mean() == pytest.approx(0.4, abs=4 * (0.24 / 4000) ** 0.5)


def test_metrics_count_the_tokens_of_all_parts_of_nodes_that_are_online():
    made = Flow(config({"kind": "simple", "capacity": 9}), LAYER, 3, parts=2)
    made.tokens[:] = [1, 2, 9, 9, 0, 1]
    assert made.metrics(np.array([True, False, True])) == {"tokens.mean": 2, "tokens.max": 3}


def test_the_account_must_hold_what_an_answer_spends():
    with pytest.raises(ValidationError, match=r"spend \(4\) is larger than capacity \(3\)"):
        config({"kind": "generalised", "capacity": 3, "spend": 4})


@pytest.mark.parametrize(
    ("flow", "longest", "parts", "each"),
    [
        (None, 5, 1, 1),
        ({"kind": "proactive"}, 5, 1, 1),
        ({"kind": "reactive"}, 5, 1, 2),
        ({"kind": "simple", "capacity": 10}, 5, 1, 3),
        ({"kind": "simple", "capacity": 11}, 5, 1, 4),
        ({"kind": "simple", "capacity": 10}, 1, 4, 41),
        ({"kind": "simple", "capacity": 10}, 0, 1, 1),
    ],
)
def test_a_mailbox_has_room_for_a_turn_per_cycle_and_all_tokens(flow, longest, parts, each):
    assert Flow.each(None if flow is None else config(flow), longest, parts) == each
