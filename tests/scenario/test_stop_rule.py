"""The condition that ends a run early."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.scenario.stop_rule import COMPARE, Condition

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]*", fullmatch=True)


@given(NAMES, st.lists(NAMES, min_size=1, max_size=3), st.sampled_from(list(COMPARE)), st.floats(-1e300, 1e300))
def test_what_is_written_is_what_is_read(layer, metric, sign, bound):
    found = Condition.parse(f" {layer}.{'.'.join(metric)} {sign} {bound!r} ")
    assert found == Condition(layer, ".".join(metric), sign, bound)


@pytest.mark.parametrize(
    ("sign", "below", "equal", "above"),
    [("<", True, False, False), ("<=", True, True, False), (">", False, False, True), (">=", False, True, True)],
)
def test_it_holds_on_the_right_side_of_its_bound(sign, below, equal, above):
    condition = Condition.parse(f"learning.error.mean{sign}0.5")
    assert [condition.holds(value) for value in (0.4, 0.5, 0.6)] == [below, equal, above]


def test_it_never_holds_for_what_could_not_be_measured():
    assert not any(Condition("a", "b", sign, 0.5).holds(float("nan")) for sign in COMPARE)


@pytest.mark.parametrize(
    "text",
    ["", "<", "error < 0.1", "a.b < ", "a.b = 1", "a.b == 1", "a.b < x", "a.b < nan", "a.b < 1e999", "a.b < --1",
     "a.b < 1 2", "a.b", ".b < 1", "a. < 1", "0.1 > a.b", "a.b < 1; a.c < 2"],
)  # fmt: skip
def test_what_cannot_be_read_is_reported_with_an_example(text):
    with pytest.raises(UserError) as caught:
        Condition.parse(text)
    assert caught.value.key == "stop.when"
    assert f"“{text}”" in str(caught.value)
    assert "learning.error.mean < 0.1" in str(caught.value)
