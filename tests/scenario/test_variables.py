"""Variables: one value that several settings refer to."""

import pytest
from entries import GOLF, PEERS
from helpers import HERE, learning_tree

from golfsim.scenario import sweep
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.scenario.variables import resolved

PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": "$epsilon"}
DATA = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}


def with_variables(*layers, variables, **tables):
    return learning_tree(PEERS, *layers, variables=variables, data=DATA, **tables)


def epsilons(scenario):
    return [table.get("epsilon") for table in scenario.essence()["protocol"]]


@pytest.mark.parametrize(
    ("text", "value"),
    [("$epsilon", 6), ("$epsilon / 2", 3), ("$epsilon*0.5", 3), ("$epsilon /4", 1.5), ("$epsilon * 1e1", 60)],
)
def test_a_setting_has_the_value_of_its_variable(text, value):
    tables = with_variables(PUBLISHED | {"epsilon": text}, variables={"epsilon": 6})
    assert epsilons(Scenario.of(tables, HERE)) == [None, value]


def test_a_run_does_not_depend_on_how_a_value_was_stated():
    named = Scenario.of(with_variables(PUBLISHED, variables={"epsilon": 2.0, "unused": 3}), HERE)
    plain = Scenario.of(with_variables(PUBLISHED | {"epsilon": 2.0}, variables={}), HERE)
    assert named.essence() == plain.essence()
    assert "variables" not in named.dump()
    assert Scenario.unpacked(named.packed()).essence() == plain.essence()


def test_variables_are_swept_and_cases_refer_to_them():
    golf = GOLF | {"name": "golf"}
    cases = [
        {"label": "published", "golf.records": "published"},
        {"label": "noisy gradients", "published.epsilon": 1.0, "golf.epsilon": "$epsilon", "golf.batch": "mini-batch"},
    ]
    swept = {"variables.epsilon": [1, 10]}
    tables = with_variables(PUBLISHED, golf, variables={"epsilon": 5.0}, case=cases, sweep=swept)
    points = sweep.points(Scenario.of(tables, HERE))
    assert [point.values for point in points] == [
        {"case": case["label"], "epsilon": epsilon} for case in cases for epsilon in (1, 10)
    ]
    assert [epsilons(point.scenario)[1:] for point in points] == [[1, None], [10, None], [1, 1], [1, 10]]


def test_a_variable_is_set_on_the_command_line():
    scenario = Scenario.of(with_variables(PUBLISHED, variables={"epsilon": 5.0}), HERE)
    assert epsilons(scenario.change(["variables.epsilon=7"])) == [None, 7]


def test_two_dollars_stand_for_one():
    found = resolved({"data": {"file": "$$x.csv"}, "name": "$$"}, None)
    assert found == {"data": {"file": "$x.csv"}, "name": "$$"}


@pytest.mark.parametrize(
    ("text", "variables", "message"),
    [
        (
            "$epsilon",
            {"epsilom": 1.0},
            "published.epsilon: there is no variable “epsilon”\n    did you mean “epsilom”?",
        ),
        ("$epsilon", {}, "published.epsilon: there is no variable “epsilon”\n    add it to [variables]"),
        ("$epsilon / 0", {"epsilon": 1.0}, "“0” is no number to multiply with or to divide by"),
        ("$epsilon - 1", {"epsilon": 1.0}, "“$epsilon - 1” does not name a variable"),
        ("$epsilon / 2", {"epsilon": "one"}, "the variable “epsilon” is no number"),
        ("$epsilon", {"epsilon": "one"}, "published.epsilon: expected a number"),
    ],
)
def test_a_wrong_reference_is_reported_with_its_place(text, variables, message):
    with pytest.raises(ScenarioError) as error:
        Scenario.of(with_variables(PUBLISHED | {"epsilon": text}, variables=variables), HERE)
    assert message in str(error.value)
    assert len(error.value.messages) == 1
