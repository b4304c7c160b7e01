"""From raw events to feature vectors: importers, slices of events, examples, features; and pandas says the same."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from golfsim.core.errors import UserError
from golfsim.data.course import generated
from golfsim.data.course.pipeline import (
    CsvImporter,
    Event,
    EventTable,
    Example,
    Featurizer,
    Field,
    Instancer,
    JsonLinesImporter,
    Pipeline,
    write_csv,
    write_json_lines,
)

FIELDS = (
    Field("kind", "category", ("click", "post")),
    Field("size", "number", optional=True),
    Field("word", "text", optional=True),
    Field("due", "time", optional=True),
)
IMPORTERS = {"csv": CsvImporter(FIELDS, "who", "when"), "jsonl": JsonLinesImporter(FIELDS, "who", "when")}
WRITERS = {"csv": write_csv, "jsonl": write_json_lines}


def event(who, when=None, kind="click", **values):
    return Event(who, {"kind": kind, "size": None, "word": None, "due": None} | values, when)


def dataset(*events):
    return EventTable.of_events(FIELDS, events)


# Datasets


def test_events_are_ordered_by_entity_and_time_with_static_properties_first_and_ties_as_they_came():
    found = dataset(event("b", 2.0), event("a", 5.0, size=1.0), event("a", 5.0, size=2.0), event("a"), event("b", 1.0))
    assert [(e.entity, e.time, e.values["size"]) for e in found] == [
        ("a", None, None), ("a", 5.0, 1.0), ("a", 5.0, 2.0), ("b", 1.0, None), ("b", 2.0, None),
    ]  # fmt: skip
    assert found.entities == ("a", "b")


def test_a_slice_by_entity_holds_its_events_and_no_others():
    found = dataset(event("b", 2.0), event("a", 5.0), event("b", 1.0))
    assert [e.time for e in found.of("b")] == [1.0, 2.0]
    assert [list(part) for part in found.each()] == [list(found.of("a")), list(found.of("b"))]


def test_a_window_has_its_start_but_not_its_end_and_all_static_properties():
    found = dataset(*(event("a", time) for time in (None, 1.0, 2.0, 3.0)))
    assert [e.time for e in found.between(1.0, 3.0)] == [None, 1.0, 2.0]
    assert [e.time for e in found.between(end=0.0)] == [None]


def test_events_can_be_chosen_by_a_value_and_split_by_all_values():
    found = dataset(event("a", 1.0, "post", word="x"), event("a", 2.0, word="y"), event("a", 3.0, word="x"), event("a"))
    assert [e.time for e in found.where("kind", "post")] == [1.0]
    assert {value: [e.time for e in part] for value, part in found.split("word")} == {"x": [1.0, 3.0], "y": [2.0]}


def test_the_frame_of_events_shows_them_one_a_row():
    frame = dataset(event("a", 1.0, "post", size=2.5)).frame()
    assert frame.to_dict("records") == [
        {"entity": "a", "time": 1.0, "kind": "post", "size": 2.5, "word": None, "due": None}
    ]


@pytest.mark.parametrize(
    ("ask", "what", "hint"),
    [
        (lambda d: d["sise"], "no field “sise”", "did you mean “size”?"),
        (lambda d: d.of("anne"), "no events of “anne”", "did you mean “anna”?"),
        (lambda d: d.where("kind", "clack"), "“clack” is not a value of “kind”", "one of click, post"),
        (lambda d: Field("x", "category"), "field “x”", "categories"),
        (lambda d: Field("x", "number", ("a",)), "field “x”", "categories"),
        (lambda d: EventTable.of_events(FIELDS, [event("a", size=math.nan)]), "event 1: “size” is “nan”", "finite"),
        (lambda d: EventTable.of_events(FIELDS, [event("")]), "event 1: “entity” is missing", "expected text"),
        (lambda d: CsvImporter((Field("who", "text"),), "who").read("x"), "the name “who” is used twice", "names"),
    ],
)
def test_an_unknown_name_is_reported_with_the_valid_ones(ask, what, hint):
    with pytest.raises(UserError) as caught:
        ask(dataset(event("anna", 1.0)))
    assert what in caught.value.what
    assert hint in caught.value.hint


# Importers

words = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
times = st.none() | st.integers(-(10**11), 10**12).map(float) | st.floats(-1e9, 1e9)
events = st.builds(
    Event,
    words,
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["click", "post"]), "size": numbers, "word": st.none() | words, "due": times}
    ),
    times,
)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@given(found=st.lists(events, max_size=6))
@example(found=[event("a", -0.0, size=-0.0, due=-0.0)])
def test_what_is_written_is_read_again_bit_for_bit(tmp_path_factory, form, found):
    path = tmp_path_factory.mktemp("raw") / f"log.{form}"
    before = dataset(*found)
    WRITERS[form](before, path, entity="who", time="when")
    after = IMPORTERS[form].read(path)
    assert repr(list(after)) == repr(list(before))
    assert len(after) == len(found)


def test_iso_times_are_utc_unless_they_name_a_zone_and_numbers_are_seconds(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("who,when\na,1970-01-02T00:00:00\na,1970-01-03T02:00:00+02:00\na,60\na,1970-01-05\n")
    assert CsvImporter((), "who", "when").read(path).times.tolist() == [60, 86400, 2 * 86400, 4 * 86400]


def test_columns_that_are_not_asked_for_and_empty_lines_are_passed_over(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("\ufeffother,who,size\n1,a,2\n\n3,b,\n", encoding="utf-8")
    found = CsvImporter((Field("size", "number", optional=True),), "who").read(path)
    assert [(e.entity, e.values, e.time) for e in found] == [("a", {"size": 2.0}, None), ("b", {"size": None}, None)]
    path = tmp_path / "log.jsonl"
    path.write_text('{"who": 7, "other": []}\n\n{"who": "b", "size": 2}\n')
    found = JsonLinesImporter((Field("size", "number", optional=True),), "who").read(path)
    assert [(e.entity, e.values) for e in found] == [("7", {"size": None}), ("b", {"size": 2.0})]


HEAD = "who,when,kind,size,word,due\n"
GOOD = "a,1,click,2,x,\n"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        (HEAD + GOOD + "a,1,click,abc,x,\n", "line 3: “size” is “abc”", "expected a finite number"),
        (HEAD + GOOD + "a,1,click,nan,x,\n", "line 3: “size” is “nan”", "expected a finite number"),
        (HEAD + "a,1,click,-inf,x,\n", "line 2: “size” is “-inf”", "expected a finite number"),
        (HEAD + "a,1,click,1_000,x,\n", "line 2: “size” is “1_000”", "expected a finite number"),
        (HEAD + "a,inf,click,1,x,\n", "line 2: “when” is “inf”", "expected a time like"),
        (HEAD + "a,2013-02-30,click,1,x,\n", "line 2: “when” is “2013-02-30”", "expected a time like"),
        (HEAD + "a,1,,1,x,\n", "line 2: “kind” is missing", "one of click, post: correct it"),
        (HEAD + "a,1,clik,1,x,\n", "line 2: “kind” is “clik”", "did you mean “click”?"),
        (HEAD + ",1,click,1,x,\n", "line 2: “who” is missing", "expected text"),
        (HEAD + "a,1,click\n", "line 2: 3 cells", "expected 6"),
        (HEAD + GOOD + '"a\n', "line 3: not CSV", "correct it"),
        (HEAD + f"a,1,click,{'9' * 99}x,,\n", "9…”", "expected a finite number"),
        ("who,when,kind,sizes,word,due\n", "line 1: the name “size” is missing", "did you mean “sizes”?"),
        ("who,who,when,kind,size,word,due\n", "line 1: the name “who” occurs more than once", "expected who, when"),
        ("", "line 1: the name “who” is missing", ""),
    ],
)
def test_a_bad_csv_is_reported_with_line_field_and_what_was_expected(tmp_path, text, what, hint):
    assert_told(IMPORTERS["csv"], tmp_path / "log.csv", text.encode(), what, hint)


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ('{"who": "a", "kind": "click"}\n{"who": "a"', "line 2: not JSON", "correct it"),
        ("[" * 100_000, "line 1: not JSON", "correct it"),
        ('{"who": "a", "size": ' + "9" * 5000 + "}", "line 1: not JSON", "correct it"),
        ("[1, 2]", "line 1: [1, 2]", "expected an object"),
        ('{"who": "a", "kind": "click", "size": NaN}', "line 1: “size” is “nan”", "expected a finite number"),
        ('{"who": "a", "kind": "click", "size": 1e999}', "line 1: “size” is “inf”", "expected a finite number"),
        ('{"who": "a", "kind": "click", "size": ' + "9" * 400 + "}", "“size” is “999", "expected a finite number"),
        ('{"who": "a", "kind": "click", "size": true}', "line 1: “size” is “True”", "expected a finite number"),
        ('{"who": "a", "kind": "click", "size": []}', "line 1: “size” is “[]”", "expected a finite number"),
        ('{"who": "a", "kind": ["click"]}', "line 1: “kind” is “['click']”", "one of click, post"),
        ('{"who": true, "kind": "click"}', "line 1: “who” is “True”", "expected text"),
        ('{"who": "\\ud800", "kind": "click"}', "line 1: “who” is “?”", "expected text"),
        ('{"kind": "click"}', "line 1: “who” is missing", "expected text"),
        ('{"who": "a", "when": {}, "kind": "click"}', "line 1: “when” is “{}”", "expected a time like"),
    ],
)
def test_a_bad_json_line_is_reported_with_line_field_and_what_was_expected(tmp_path, text, what, hint):
    assert_told(IMPORTERS["jsonl"], tmp_path / "log.jsonl", text.encode(), what, hint)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_file_that_cannot_be_read_is_reported(tmp_path, form):
    assert_told(IMPORTERS[form], tmp_path / "log", b"\xff\xfe\x00", "not UTF-8 text", "save it as UTF-8")
    for path, why in ((tmp_path, "directory"), (tmp_path / "none", "No such file")):
        with pytest.raises(UserError, match=why):
            IMPORTERS[form].read(path)


def assert_told(importer, path, content, what, hint):
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        importer.read(path)
    assert str(path) in caught.value.what
    assert what in caught.value.what
    assert hint in str(caught.value.hint)


def outcome(importer, path):
    try:
        return importer.read(path)
    except UserError as error:
        return error


@given(content=st.binary(max_size=80) | st.text(max_size=80).map(lambda text: (HEAD + text).encode(errors="replace")))
def test_no_file_whatever_ends_in_anything_but_events_or_a_message(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("raw") / "log"
    path.write_bytes(content)
    for importer in IMPORTERS.values():
        found = outcome(importer, path)
        assert isinstance(found, EventTable) or str(path) in found.what


# Examples and features


def count(events):
    return float(len(events))


def test_the_label_sees_all_events_and_features_those_before_the_cut_alone():
    found = dataset(event("a", 1.0), event("a", 9.0), event("b", 1.0), event("c", 8.0))
    instancer = Instancer(lambda own: None if own.entities == ("b",) else len(own), until=5.0)
    (a, c) = instancer.examples(found)
    assert (a.entity, [e.time for e in a.events], a.label) == ("a", [1.0], 2)
    assert (c.entity, list(c.events), c.label) == ("c", [], 1)


def test_the_entity_may_be_something_of_which_a_node_has_many():
    found = dataset(event("a", 1.0, word="ride 1"), event("a", 2.0, word="ride 2"), event("b", 3.0, word="ride 1"))
    matrix = Featurizer({"count": count}).matrix(Instancer(lambda own: own.times[0], entity="word").examples(found))
    assert matrix.entities == ("a/ride 1", "a/ride 2", "b/ride 1")
    assert matrix.y.tolist() == [1.0, 2.0, 3.0]


def test_a_matrix_has_a_row_for_each_example_and_a_named_column_for_each_feature():
    found = dataset(event("a", 1.0, size=2.0), event("a", 2.0, size=3.0), event("b", 1.0, size=5.0))
    featurizer = Featurizer({"count": count, "size": lambda own: own["size"].sum()})
    frame = featurizer.matrix(Instancer(lambda own: own.entities[0] == "b").examples(found)).frame()
    assert frame.columns.tolist() == ["count", "size", "label"]
    assert frame.loc["a"].tolist() == [2.0, 5.0, 0.0]
    assert frame.loc["b"].tolist() == [1.0, 5.0, 1.0]


def test_without_examples_the_matrix_is_empty_and_keeps_its_columns():
    matrix = Featurizer({"count": count}).matrix([])
    assert (matrix.x.shape, matrix.y.shape, matrix.features) == ((0, 1), (0,), ("count",))


@pytest.mark.parametrize(
    ("bad", "label", "name"), [(math.nan, 0.0, "bad"), (math.inf, 0.0, "bad"), (1.0, math.nan, "label")]
)
def test_a_feature_that_is_not_finite_is_reported_with_its_name_and_entity(bad, label, name):
    with pytest.raises(UserError, match=f"“{name}” of “a” is (nan|inf)"):
        Featurizer({"good": count, "bad": lambda _: bad}).matrix([Example("a", dataset(), label)])


# Against pandas: the 13 features of the course

DAY, WEEK = pd.Timedelta(days=1), pd.Timedelta(weeks=1)
BEGIN = pd.Timestamp("2013-02-04")
END = BEGIN + 6 * WEEK


def by_pandas(path):
    """The matrix of a raw log by group-bys over a table of everybody's events."""
    log = pd.read_csv(path, parse_dates=["time"])
    last = log.groupby("student")["time"].max()
    last = last[last >= BEGIN + 5 * WEEK]
    log = log[log["student"].isin(last.index) & (log["time"] < END)]
    log = log.assign(day=log["time"].dt.normalize(), week=(log["time"] - BEGIN) // WEEK)
    kind = {name: part.groupby("student") for name, part in log.groupby("kind")}
    whole = log.groupby("student")
    tried = log[log["kind"] == "submission"]
    early = (BEGIN + (tried["week"] + 1) * WEEK - tried["time"]).dt.total_seconds() / 3600
    by_week = log.pivot_table(index="student", columns="week", values="day", aggfunc="count")
    by_week = by_week.reindex(columns=range(6)).fillna(0)
    late, before = by_week[4] + by_week[5], by_week[2] + by_week[3]
    silent = (END - whole["time"].max()).dt.total_seconds() / 86400
    hour = log["time"].dt.hour
    table = pd.DataFrame(
        {
            "active_days": whole["day"].nunique(),
            "page_clicks": kind["page"].size() / 6,
            "video_hours": kind["video"]["seconds"].sum() / 3600 / 6,
            "submissions": kind["submission"].size() / 6,
            "problems_tried": kind["submission"]["problem"].nunique(),
            "mean_grade": kind["submission"]["grade"].mean(),
            "hours_before_deadline": early.groupby(tried["student"]).mean(),
            "forum_posts": kind["forum"].size(),
            "forum_characters": kind["forum"]["characters"].mean(),
            "night_share": ((hour >= 22) | (hour < 6)).groupby(log["student"]).mean(),
            "weekend_share": (log["time"].dt.day_of_week >= 5).groupby(log["student"]).mean(),
            "trend": (late - before) / (late + before).replace(0, 1),
            "days_silent": silent,
        }
    ).reindex(last.index.sort_values())
    return table.fillna({"days_silent": 42}).fillna(0).assign(label=(last < BEGIN + 9 * WEEK).astype(float))


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The raw log of a small course and its events."""
    path = tmp_path_factory.mktemp("course") / "log.csv"
    return path, generated.write_log(path, 400, 3)


def test_the_pipeline_computes_what_pandas_computes(course):
    path, _ = course
    expected = by_pandas(path)
    found = generated.CSV.run(path).frame()
    assert len(found) > 150
    assert found.index.tolist() == expected.index.tolist()
    assert found.columns.tolist() == expected.columns.tolist()
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(float), rtol=1e-12, atol=1e-12)


def test_each_node_separately_computes_its_rows_of_the_complete_matrix_bit_for_bit(course):
    _, events = course
    whole = generated.CSV.matrix(events)
    alone = [generated.CSV.of_node(events, student) for student in events.entities]
    assert np.concatenate([part.x for part in alone]).tobytes() == whole.x.tobytes()
    assert np.concatenate([part.y for part in alone]).tobytes() == whole.y.tobytes()
    assert sum((part.entities for part in alone), ()) == whole.entities


def test_a_node_computes_its_row_from_its_own_raw_file_bit_for_bit(course, tmp_path):
    path, events = course
    whole = generated.CSV.matrix(events)
    head, *lines = path.read_text().splitlines()
    for row, student in list(enumerate(whole.entities))[:20]:
        own = tmp_path / f"{student}.csv"
        own.write_text("\n".join([head, *(line for line in lines if line.startswith(f"{student},"))]))
        found = generated.CSV.run(own)
        assert found.x.tobytes() == whole.x[row].tobytes()
        assert found.y.tolist() == [whole.y[row]]


def test_the_order_of_the_raw_lines_does_not_matter(course, tmp_path, rng):
    path, _ = course
    head, *lines = path.read_text().splitlines()
    shuffled = tmp_path / "log.csv"
    shuffled.write_text("\n".join([head, *(lines[i] for i in rng.permutation(len(lines)))]))
    one, other = generated.CSV.run(path), generated.CSV.run(shuffled)
    assert one.entities == other.entities
    np.testing.assert_allclose(one.x, other.x, rtol=1e-12, atol=1e-12)


later = st.lists(
    st.builds(
        Event,
        st.sampled_from([f"s{number:07}" for number in range(1, 41)]),
        st.sampled_from(
            [
                {"kind": "page", "seconds": 1e6},
                {"kind": "submission", "problem": 3.0, "grade": 1.0},
                {"kind": "forum", "characters": 1e6},
            ]
        ),
        st.integers(int(generated.CUT), int(generated.START + generated.WEEKS * generated.WEEK) - 1).map(float),
    ),
    min_size=1,
    max_size=60,
)


@given(added=later)
def test_events_after_the_cut_change_no_feature(added):
    log = list(generated.event_log(40, 5))
    before = generated.CSV.matrix(EventTable.of_events(generated.FIELDS, log)).frame()
    kept = [event for event in log if event.time < generated.CUT]
    after = generated.CSV.matrix(EventTable.of_events(generated.FIELDS, kept + added)).frame()
    both = before.index.intersection(after.index)
    assert len(both) > 0
    pd.testing.assert_frame_equal(before.loc[both].drop(columns="label"), after.loc[both].drop(columns="label"))


def test_events_before_the_cut_do_change_features(course):
    _, events = course
    student = generated.CSV.matrix(events).entities[0]
    more = [*events.of(student), Event(student, {"kind": "page", "seconds": 1.0}, generated.CUT - 1)]
    found = generated.CSV.matrix(EventTable.of_events(generated.FIELDS, more)).frame()
    assert found.loc[student, "page_clicks"] > generated.CSV.matrix(events).frame().loc[student, "page_clicks"]
    assert found.loc[student, "days_silent"] == pytest.approx(1 / 86400)


def test_a_student_without_events_before_the_cut_has_finite_features():
    late = Event("a", {"kind": "page", "seconds": 1.0}, generated.CUT + 1)
    found = generated.CSV.matrix(EventTable.of_events(generated.FIELDS, [late])).frame()
    assert found.loc["a"].tolist() == [0.0] * 12 + [42.0, 1.0]


def test_importing_the_pipeline_is_cheap():
    heavy = "{'pandas', 'pyarrow', 'sklearn', 'numba'}"
    code = f"import sys, golfsim.data.course.generated; print({heavy} & set(sys.modules) or '')"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_pipeline_is_its_three_parts_in_a_row(tmp_path):
    path = tmp_path / "log.csv"
    write_csv(dataset(event("a", 1.0), event("a", 7.0)), path, entity="who", time="when")
    pipeline = Pipeline(IMPORTERS["csv"], Instancer(lambda own: len(own) > 1, until=5.0), Featurizer({"count": count}))
    assert pipeline.run(path).frame().loc["a"].tolist() == [1.0, 1.0]
