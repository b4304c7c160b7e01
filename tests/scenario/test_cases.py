"""Cases as strategies: layers of their own, one judged model, labels, and errors that name the line."""

import pytest
from helpers import HERE, learning_tree

from golfsim.core.errors import UserError
from golfsim.runs.logs import load
from golfsim.runs.single import run
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import Point, points

PEERS = {"name": "peers", "use": "newscast", "view": 4}
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": "$epsilon"}
GOLF = {"name": "golf", "use": "golf", "peers": "peers", "records": "raw"}
WALK = {"name": "walk", "use": "random_walk", "peers": "peers", "records": "raw"}
PRIVATE = {"label": "published records", "layers": [PUBLISHED, GOLF | {"records": "published", "label": "gossip"}]}
PLAIN = {"label": "no privacy", "layers": [WALK, GOLF]}


def study(*cases, variables=None, **tables):
    data = {"set": "random", "train": 80, "test": 30, "scale": ["minmax", "l1"]}
    common = learning_tree(PEERS, number=10, cycles=3, data=data, variables=variables or {"epsilon": 1.0}, **tables)
    return Scenario.of(common | {"case": list(cases)}, HERE)


def test_the_layers_of_a_case_are_on_top_of_the_common_ones():
    private, plain = points(study(PRIVATE, PLAIN))
    assert private.scenario.layer_names == ("peers", "published", "golf")
    assert plain.scenario.layer_names == ("peers", "walk", "golf")
    assert private.values == {"case": "published records"}


def test_the_highest_model_of_a_case_with_layers_is_judged_unless_stated():
    found = points(study(PRIVATE, PLAIN, PLAIN | {"label": "walk", "judged": "walk"}, {"label": "empty"}))
    assert [point.judged for point in found] == ["golf", "golf", "walk", None]
    assert Point.unpacked(found[2].packed).judged == "walk"


def test_rows_state_the_judged_layer_and_the_labels_of_layers(tmp_path):
    run(study(PRIVATE, PLAIN), tmp_path)
    frame = load(tmp_path)
    private = frame[frame["case"] == "published records"]
    assert set(private["judged"]) == {"golf"}
    assert set(private.loc[private["layer"] == "golf", "label"]) == {"gossip"}
    assert private.loc[private["layer"] == "published", "label"].isna().all()
    assert frame.loc[frame["case"] == "no privacy", "label"].isna().all()


def test_another_label_or_judged_layer_repeats_no_run(tmp_path):
    before = run(study(PRIVATE, PLAIN), tmp_path)
    (tmp_path / "index.sqlite").touch()
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("log.parquet")}
    other = {"label": "published records", "layers": [PUBLISHED, GOLF | {"records": "published", "label": "other"}]}
    after = run(study(other, PLAIN | {"judged": "walk"}), tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("log.parquet")} == stamps
    assert before["value"].equals(after["value"])
    assert set(after["label"].dropna()) == {"other"}
    assert set(after.loc[after["case"] == "no privacy", "judged"]) == {"walk"}


def test_a_case_that_does_not_depend_on_a_variable_runs_once(tmp_path):
    run(study(PRIVATE, PLAIN, sweep={"variables.epsilon": [1.0, 10.0]}), tmp_path)
    assert len(list(tmp_path.rglob("log.parquet"))) == 3
    found = load(tmp_path).groupby(["case", "epsilon"], observed=True)["path"].first().unstack()
    assert found.loc["no privacy", 1.0] == found.loc["no privacy", 10.0]
    assert found.loc["published records", 1.0] != found.loc["published records", 10.0]


def test_a_swept_variable_with_the_name_of_a_column_keeps_its_complete_name():
    found = points(study(PRIVATE, variables={"epsilon": 1.0, "label": 1}, sweep={"variables.label": [1, 2]}))
    assert [point.values["variables.label"] for point in found] == [1, 2]


def test_a_setting_of_a_layer_is_changed_in_all_cases_that_have_it():
    changed = study(PRIVATE, PLAIN).change(["golf.learner=logistic", "walk.learner=logistic"])
    learners = [[t.get("learner") for t in point.scenario.essence()["protocol"]] for point in points(changed)]
    assert learners == [[None, None, "logistic"], [None, "logistic", "logistic"]]


def test_a_stop_rule_may_refer_to_a_layer_of_a_case_and_each_case_must_have_it():
    rule = {"when": "golf.error.mean < 0.1"}
    assert len(points(study(PRIVATE, PLAIN, stop=rule))) == 2
    with pytest.raises(ScenarioError, match="there is no layer “golf”"):
        points(study(PRIVATE, {"label": "walk", "layers": [WALK]}, stop=rule))


def test_a_mistake_in_a_layer_of_a_case_is_located(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(
        'name = "x"\nseed = 1\ncycles = 2\n[nodes]\nnumber = 4\n[[protocol]]\nname = "peers"\nuse = "newscast"\n'
        'view = 2\n[[case]]\nlabel = "a"\n[[case.layers]]\nname = "second"\nuse = "newscast"\nview = "many"\n'
    )
    with pytest.raises(ScenarioError, match=r"study.toml:15: second.view: expected an integer"):
        points(Scenario.load(file))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"label": "x", "layers": [GOLF], "judged": "gulf"}, "there is no layer “gulf”"),
        ({"label": "x", "layers": [GOLF], "judged": 3}, "expected the name of a layer"),
        ({"label": "x", "layers": [GOLF], "protocol": [PEERS]}, "has both `layers` and `protocol`"),
        ({"label": "x", "layers": "golf"}, "expected a list of layers"),
        ({"label": "x", "layers": [PEERS]}, "“peers” is the name of an earlier layer"),
        ({"layers": [GOLF]}, "a case needs a label"),
    ],
)
def test_mistakes_in_cases_are_reported(case, message):
    with pytest.raises(UserError) as error:
        points(study(case))
    assert message in str(error.value)
