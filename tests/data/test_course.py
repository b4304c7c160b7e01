"""The generated course: what its students are like, the set made of it, and pictures that say so."""

import itertools

import matplotlib as mpl
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from helpers import HERE, tree

from golfsim.cli import preview
from golfsim.core.errors import UserError
from golfsim.data.config import DataConfig
from golfsim.data.course import generated, pipeline
from golfsim.data.course.pipeline import EventTable
from golfsim.data.loading import cards, load
from golfsim.report import figures
from golfsim.runs import logs, single
from golfsim.scenario.model import Scenario
from golfsim.sim import log

mpl.use("Agg")


def get(seed=1, **settings):
    return load(DataConfig.model_validate({"set": "mooc"} | settings), seed, HERE)


@pytest.fixture(scope="module")
def events():
    return generated.event_log(1500, 7)


# The log


def test_the_log_is_a_function_of_the_seed():
    one, again, other = (generated.event_log(30, seed).frame() for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, again)
    assert not one.equals(other)


def test_events_lie_in_the_course_and_have_what_belongs_to_their_kind(events):
    weeks = (events.times - generated.START) / generated.WEEK
    assert (weeks.min() >= 0, weeks.max() < generated.WEEKS) == (True, True)
    has = {"page": "seconds", "video": "seconds", "forum": "characters", "submission": "grade"}
    for kind, name in has.items():
        own = events.where("kind", kind)
        assert len(own) > 100
        for field in ("seconds", "grade", "characters"):
            assert np.isfinite(own[field]).all() == (field == name), (kind, field)
    handed_in = events.where("kind", "submission")
    assert (handed_in["grade"].min() >= 0, handed_in["grade"].max() <= 1) == (True, True)
    week = (handed_in.times - generated.START) // generated.WEEK
    assert (handed_in["problem"] // generated.PROBLEMS == week).all(), "a problem is handed in during its own week"


@pytest.mark.parametrize("feature", [generated.night_share, generated.weekend_share])
def test_students_have_hours_of_their_own_that_they_keep_to(events, feature):
    pages = events.where("kind", "page")
    odd = (pages.times - generated.START) // generated.WEEK % 2 == 1
    busy = [
        own for own in zip(pages._taken(odd).each(), pages._taken(~odd).each(), strict=True) if min(map(len, own)) > 30
    ]
    one, other = np.array([[feature(half) for half in own] for own in busy]).T
    assert len(busy) > 100
    assert np.corrcoef(one, other)[0, 1] > 0.4, "odd weeks tell nothing about even ones"


def test_those_who_did_little_in_a_week_are_more_likely_to_be_gone_in_the_next(events):
    table = events.frame().assign(week=lambda frame: (frame["time"] - generated.START) // generated.WEEK)
    counts = table.groupby(["entity", "week"]).size().unstack(fill_value=0)
    last = counts.apply(lambda row: row.to_numpy().nonzero()[0].max(), axis=1)
    there = counts[last >= 3]
    gone = last[there.index] == 3
    few = there[3] <= there[3].median()
    assert gone[few].mean() > 3 * gone[~few].mean()
    assert gone[~few].mean() > 0, "even busy students sometimes leave"


def test_a_course_without_students_is_refused():
    with pytest.raises(UserError, match="at least 1 student; got 0"):
        generated.event_log(0, 1)


@pytest.mark.parametrize(("name", "pipeline"), [("log.csv", generated.CSV), ("log.JSONL", generated.JSON_LINES)])
def test_the_raw_log_gives_the_same_matrix_through_the_importers(tmp_path, name, pipeline):
    written = generated.write_log(tmp_path / name, 150, 4)
    expected, found = pipeline.matrix(generated.event_log(150, 4)), pipeline.run(tmp_path / name)
    assert found.x.tobytes() == expected.x.tobytes() == pipeline.matrix(written).x.tobytes()
    assert found.y.tobytes() == expected.y.tobytes()
    assert found.entities == expected.entities
    assert (tmp_path / name).read_text().count("student") in (1, len(written))


def test_a_raw_form_that_does_not_exist_is_reported(tmp_path):
    with pytest.raises(UserError, match=r"log\.txt has an unknown format") as caught:
        generated.write_log(tmp_path / "log.txt", 10, 1)
    assert "csv" in caught.value.hint


# The problem


def at(week, student="a"):
    return pipeline.Event(student, {"kind": "page", "seconds": 1.0}, generated.START + (week - 0.5) * generated.WEEK)


@pytest.mark.parametrize(
    ("weeks", "label"), [((1, 5), None), ((6,), 1.0), ((1, 9), 1.0), ((1, 10), 0.0), ((12,), 0.0), ((5, 7), 1.0)]
)
def test_who_is_there_in_week_6_is_an_example_and_who_is_not_from_week_10_on_has_dropped_out(weeks, label):
    assert generated.dropped_out(EventTable.of_events(generated.FIELDS, map(at, weeks))) == label


def test_the_second_course_has_other_students_and_fewer_of_them_drop_out():
    first, second = (load(DataConfig.model_validate({"set": name}), 1, HERE) for name in ("mooc", "mooc2"))
    assert (second.y.size, second.features) == (4000, first.features)
    assert first.y.mean() > 0.3 > second.y.mean() > 0.2
    assert "mooc2: generated data in place of EdX course logs" in second.note


def test_there_are_13_features_and_the_card_bounds_each_of_them():
    card = cards()["mooc"]
    assert generated.FEATURIZER.names == tuple(card.bounds)
    assert len(generated.FEATURIZER.names) == card.features == 13


def test_the_bounds_that_hold_by_definition_are_never_exceeded(events):
    frame = generated.CSV.matrix(events).frame()
    unlimited = {"page_clicks", "video_hours", "submissions", "forum_posts", "forum_characters"}
    for name, (low, high) in cards()["mooc"].bounds.items():
        assert frame[name].min() >= low, name
        assert name in unlimited or frame[name].max() <= high, name
        assert (frame[name] > high).mean() < 0.02, name


def test_dropout_can_be_predicted_well_but_not_perfectly_as_the_card_says():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    data = get(3, train=4000, test=2000, scale=("minmax",))
    model = LogisticRegression(C=100, max_iter=2000).fit(data.x, data.y)
    assert 0.79 < roc_auc_score(data.test_y, model.predict_proba(data.test_x)[:, 1]) < 0.85
    assert 0.32 < data.y.mean() < 0.38


# The set


@pytest.mark.parametrize(
    ("settings", "sizes"), [({"train": 90, "test": 30}, (90, 30)), ({"train": 80, "test": 0.2}, (80, 20))]
)
def test_as_many_records_as_are_asked_for_are_generated(settings, sizes):
    data = get(**settings)
    assert (len(data.y), len(data.test_y)) == sizes
    assert data.features == generated.FEATURIZER.names
    assert data.classes == ("stays", "drops out")


def test_when_too_few_students_stay_more_are_drawn(monkeypatch):
    stay, label = itertools.count(), generated.dropped_out
    few = lambda own: label(own) if next(stay) % 4 == 0 else None  # noqa: E731
    instancer = pipeline.Instancer(few, until=generated.CUT)
    monkeypatch.setattr(generated, "CSV", pipeline.Pipeline(generated.CSV.importer, instancer, generated.FEATURIZER))
    x, y = generated._records.__wrapped__(200, 1)
    assert (x.shape, y.shape) == ((200, 13), (200,))


def test_the_same_records_are_generated_once_and_nobody_can_change_them():
    first = get(5, train=40, test=20)
    made = generated._records.cache_info().misses
    again = get(5, train=40, test=20, scale=("minmax",))
    assert generated._records.cache_info().misses == made
    assert np.array_equal(first.y, again.y)
    assert not np.array_equal(get(6, train=40, test=20).x, first.x)
    x, _ = generated._records(60, 1)
    with pytest.raises(ValueError, match="read-only"):
        x[0, 0] = 1


# Pictures

PEERS = {"name": "peers", "use": "uniform"}
LEARNING = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw", "learner": "logistic"}


def scenario(name="mooc", **tables):
    data = {"set": name, "train": 40, "test": 20, "scale": ["minmax"]}
    return Scenario.of(tree(PEERS, LEARNING, cycles=2, data=data, nodes={"records": 1}, **tables), HERE)


def said(ax):
    """All texts above the panels of a figure."""
    above = ax.figure.get_suptitle()
    mpl.pyplot.close(ax.figure)
    return above + ax.get_title(loc="left")


@pytest.fixture(scope="module")
def swept():
    """The log of a sweep over data sets, in which one is generated in place of another."""
    return single.run(scenario(sweep={"data.set": ["random", "mooc"], "cycles": [2, 3]}))


@pytest.mark.parametrize(
    "draw",
    [
        figures.convergence,
        lambda frame: figures.heatmap(frame, "data.set", "cycles"),
        lambda frame: figures.lines(frame, "cycles", "data.set"),
    ],
)
def test_every_figure_says_that_the_course_is_generated(swept, draw):
    assert said(draw(swept)) == "mooc: generated data in place of EdX course logs, which are not public"
    assert said(draw(log.noted(swept.copy(), []))) == ""


def test_a_log_that_was_written_and_loaded_still_says_so(tmp_path):
    single.run(scenario(runs=2), tmp_path)
    assert "mooc: generated data" in said(figures.convergence(logs.load(tmp_path)))
    single.run(scenario("random"), tmp_path / "other")
    assert said(figures.convergence(logs.load(tmp_path / "other"))) == ""
    assert "mooc: generated data" in log.note_of(logs.load(tmp_path, tmp_path / "other"))


def test_a_picture_of_an_axes_of_the_users_own_says_so_and_keeps_its_title(swept):
    ax = mpl.pyplot.subplots()[1]
    ax.set_title("mine", loc="left")
    figures.convergence(log.noted(swept.copy(), []), ax=ax)
    assert ax.get_title(loc="left") == "mine"
    figures.convergence(swept, ax=ax)
    assert "generated" in said(ax)


def test_the_description_of_a_scenario_says_so_too():
    figure = preview.draw(preview.describe(scenario()))
    assert "mooc: generated data" in figure.get_suptitle()
    mpl.pyplot.close(figure)


def test_only_a_set_that_stands_in_for_another_has_a_note():
    assert {name for name, card in cards().items() if card.note} == {"mooc", "mooc2"}
