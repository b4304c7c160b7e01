"""A layer of the user's own that promises numbers and lacks a method is named with its file, class and method."""

import pytest
from helpers import learning_tree, simulation

from golfsim.core.errors import UserError

PEERS = {"name": "peers", "use": "uniform"}


@pytest.mark.parametrize("learner", ["lda", "centroid"])
def test_records_without_a_precision_are_refused_before_the_first_cycle(learner):
    mine = {"name": "mine", "use": "user_protocols/lacking.py:Promises"}
    top = {"name": "top", "use": "optimum", "records": "mine", "learner": learner}
    with pytest.raises(UserError, match=r"lacking\.py:\d+: Promises returns numbers by value_width\(\)") as caught:
        for _ in simulation(learning_tree(mine, top, cycles=1)):
            pass
    assert caught.value.hint == "define the method precision() in this class"
    assert caught.value.key == "mine"


def test_a_layer_without_values_is_refused():
    mine = {"name": "mine", "use": "user_protocols/lacking.py:Empty"}
    means = {"name": "means", "use": "averaging", "peers": "peers", "of": "mine"}
    with pytest.raises(UserError, match=r"lacking\.py:\d+: Empty states by value_width\(\)") as caught:
        for _ in simulation(learning_tree(PEERS, mine, means, cycles=1)):
            pass
    assert caught.value.hint == "define the method values() in this class"
