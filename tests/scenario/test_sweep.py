"""One scenario file, many runs: products, groups that vary together, cases."""

import numpy as np
import pytest
from helpers import HERE, learning_tree, simulation, tree

from golfsim.core.errors import UserError
from golfsim.runs.logs import load
from golfsim.runs.single import run
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import points
from golfsim.sim.simulation import Simulation
from golfsim.testing import rows

PEERS = {"name": "peers", "use": "newscast", "view": 4}
GOLF = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"}


def scenario(**tables):
    return Scenario.of(learning_tree(PEERS, GOLF, number=10, cycles=3, **tables), HERE)


def values(**tables):
    return [point.values for point in points(scenario(**tables))]


def test_without_a_sweep_there_is_one_point_without_a_name():
    (point,) = points(scenario())
    assert point.values == {}
    assert point.folder == ""
    assert point.scenario == scenario()


def test_a_sweep_is_the_product_of_its_lists():
    found = points(scenario(sweep={"peers.view": [3, 5], "transport.loss": [0.0, 0.2, 0.4]}))
    assert [point.values for point in found] == [
        {"peers.view": view, "transport.loss": loss} for view in (3, 5) for loss in (0.0, 0.2, 0.4)
    ]
    for point in found:
        assert point.scenario.protocol[0]["view"] == point.values["peers.view"]
        assert point.scenario.transport.loss == point.values["transport.loss"]
        assert not point.scenario.sweep


def test_lists_of_a_zip_group_vary_together():
    found = values(sweep={"seed": [1, 2], "zip": [{"peers.view": [3, 5], "cycles": [7, 9]}]})
    together = ({"peers.view": 3, "cycles": 7}, {"peers.view": 5, "cycles": 9})
    assert found == [{"seed": seed} | pair for seed in (1, 2) for pair in together]


def test_two_zip_groups_are_combined():
    found = values(sweep={"zip": [{"seed": [1, 2], "cycles": [7, 9]}, {"peers.view": [3, 4, 5]}]})
    assert len(found) == 6
    assert {(v["seed"], v["cycles"]) for v in found} == {(1, 7), (2, 9)}


def test_cases_change_what_they_name_and_combine_with_the_sweep():
    tables = {
        "case": [
            {"label": "plain"},
            {"label": "robust", "learning.cache": 5, "learning.merge": "median"},
            {"label": "other", "churn": [{"kind": "crash", "at": 2, "share": 0.5}]},
        ],
        "sweep": {"transport.loss": [0.0, 0.3]},
    }
    found = points(scenario(**tables))
    assert [(p.values["case"], p.values["transport.loss"]) for p in found] == [
        (case, loss) for case in ("plain", "robust", "other") for loss in (0.0, 0.3)
    ]
    robust = found[2].scenario
    assert robust.protocol[1]["merge"] == "median"
    assert not robust.case
    assert found[4].scenario.churn[0].kind == "crash"
    assert not found[0].scenario.churn


def test_a_value_may_be_a_table_or_a_list():
    delays = [0, [1, 3], {"kind": "exponential", "max": 4, "mean": 2.0}]
    found = points(scenario(sweep={"transport.delay": delays}))
    assert [p.scenario.transport.lags()[1].size for p in found] == [1, 3, 4]
    assert len({p.folder for p in found}) == 3


def test_elements_of_lists_are_swept_by_their_number():
    found = points(scenario(churn=[{"kind": "crash", "at": 2, "share": 0.1}], sweep={"churn.0.share": [0.2, 0.4]}))
    assert [p.scenario.churn[0].share for p in found] == [0.2, 0.4]


def test_folders_are_distinct_readable_and_safe():
    tables = {
        "case": [{"label": "a b/c"}, {"label": "..."}, {"label": "ünïcode"}],
        "sweep": {"transport.loss": [0.0, 0.25], "peers.view": [3, 30]},
    }
    names = [point.folder for point in points(scenario(**tables))]
    assert len(set(names)) == 12
    for name in names:
        assert "/" not in name
        assert "\\" not in name
        assert " " not in name
        assert name not in ("", ".", "..")
        assert len(name) <= 150
    assert "a_b_c,transport.loss=0.25,peers.view=30" in names


def test_a_value_that_stands_twice_is_refused():
    with pytest.raises(UserError, match="two points of the sweep are equal"):
        points(scenario(sweep={"peers.view": [3, 4, 3]}))


@pytest.mark.parametrize("labels", [("a b", "a/b"), ("x" * 200 + "1", "x" * 200 + "2")])
def test_different_labels_get_different_folders(labels):
    found = points(scenario(case=[{"label": label} for label in labels]))
    assert len({point.folder for point in found}) == 2


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"sweep": {"peers.view": 3}}, "sweep.peers.view: expected a list of values"),
        ({"sweep": {"peers.view": []}}, "sweep.peers.view: expected a list of values"),
        ({"sweep": {"zip": [{"seed": [1, 2], "cycles": [3]}]}}, "sweep.zip: the lists of a zip group have different"),
        ({"sweep": {"zip": {"seed": [1, 2]}}}, "sweep.zip: expected a list of values"),
        ({"case": [{"cycles": 3}]}, "case.0.label: missing: a case needs a label"),
        ({"case": [{"label": "x"}, {"label": ""}]}, "case.1.label: missing"),
    ],
)
def test_a_malformed_sweep_is_refused_at_its_key(tables, message):
    with pytest.raises(UserError, match=message):
        points(scenario(**tables))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"sweep": {"peers.view": [3, 0]}}, r"at peers.view = 0.*peers.view"),
        ({"sweep": {"peers.vieww": [3]}}, r"at peers.vieww = 3.*vieww"),
        ({"case": [{"label": "bad", "transport.loss": 2.0}]}, r"at case = bad.*transport.loss"),
        ({"sweep": {"nobody.view": [3]}}, r"nobody"),
    ],
)
def test_an_impossible_value_is_refused_with_its_point(tables, message):
    with pytest.raises(UserError, match=f"(?s){message}"):
        points(scenario(**tables))


def test_an_error_in_a_sweep_names_the_line_of_the_file(tmp_path):
    (tmp_path / "s.toml").write_text(
        'name = "x"\nseed = 1\ncycles = 2\n[nodes]\nnumber = 5\n[[protocol]]\nname = "p"\nuse = "newscast"\nview = 3\n'
        '[sweep]\n"p.view" = 4\n'
    )
    with pytest.raises(UserError, match=r"s.toml:11: sweep.*expected a list"):
        run(Scenario.load(tmp_path / "s.toml"))


def test_a_swept_run_is_the_run_of_the_changed_scenario():
    found = points(scenario(sweep={"peers.view": [3, 5]}))
    swept = Simulation(found[1].scenario)
    plain = simulation(learning_tree(PEERS | {"view": 5}, GOLF, number=10, cycles=3))
    for one in (swept, plain):
        for _ in one:
            pass
    assert rows(swept) == rows(plain)
    assert found[1].scenario.dump() == plain.scenario.dump()


def test_logs_of_a_sweep_are_read_with_a_column_for_each_key(tmp_path):
    tables = {
        "case": [{"label": "plain"}, {"label": "lossy", "transport.loss": 0.5}],
        "sweep": {"peers.view": [3, 5], "transport.delay": [1, [1, 2]]},
        "runs": 2,
    }
    run(scenario(**tables), tmp_path)
    frame = load(tmp_path)
    swept = ["case", "peers.view", "transport.delay"]
    assert list(frame) == ["run", "seed", "cycle", "layer", "metric", "value", "path", *swept]
    groups = frame.groupby([*swept, "run"], observed=True)
    assert len(groups) == 2 * 2 * 2 * 2
    assert frame["path"].nunique() == 16
    assert sorted(frame["seed"].unique()) == [1, 2]
    last = frame[(frame["cycle"] == 3) & (frame["metric"] == "messages.lost") & (frame["layer"] == "peers")]
    lost = last.groupby("case", observed=True)["value"].sum()
    assert lost["plain"] == 0 < lost["lossy"]
    assert set(frame["transport.delay"].astype(str)) == {"1", "[1, 2]"}


def test_whole_and_broken_numbers_of_a_sweep_are_read_together(tmp_path):
    run(scenario(sweep={"transport.loss": [0, 0.5]}), tmp_path)
    assert sorted(load(tmp_path)["transport.loss"].unique()) == [0, 0.5]


def test_a_point_in_which_nobody_was_ever_online_spoils_nothing(tmp_path):
    nobody = [{"kind": "rate", "leave": 0, "rejoin": 0, "online": 0}]
    run(scenario(case=[{"label": "nobody", "churn": nobody}, {"label": "all"}]), tmp_path)
    assert load(tmp_path)["case"].unique().tolist() == ["all"]


def test_logs_with_and_without_a_key_are_read_together(tmp_path):
    run(scenario(sweep={"peers.view": [3, 5]}), tmp_path / "swept")
    run(scenario(), tmp_path / "plain")
    frame = load(tmp_path)
    plain = frame[frame["path"].str.startswith("plain")]
    assert plain["peers.view"].isna().all()
    assert frame["peers.view"].notna().sum() == 2 * len(plain)


def test_run_returns_the_rows_of_all_points():
    frame = run(Scenario.of(tree(PEERS, nodes=8, cycles=2, sweep={"peers.view": [2, 3]}, runs=2)))
    sent = frame[(frame["metric"] == "messages.sent") & (frame["cycle"] == 2)]
    assert len(sent) == 4
    assert np.isfinite(frame["value"]).all()
