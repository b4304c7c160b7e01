"""Generate the log of an online course, in place of the EdX logs of Cyphers (2017), section 8.1.1 (not public).

The prediction problem is the same: which of the students who are active in week 6 or later drop out before week 10?
The number of features is the same, too: 13, computed from weeks 1–6. The paper does not name its features; these are
similar in kind. Students differ in engagement, which drifts from week to week, in ability, in how much they write and
in when they study. Students who did little in the last two weeks are more likely to leave. Nothing is fitted to a real
course.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core.errors import UserError, nearest
from golfsim.data.course.pipeline import (
    CsvImporter,
    EventTable,
    Featurizer,
    Field,
    Instancer,
    JsonLinesImporter,
    Pipeline,
    write_csv,
    write_json_lines,
)

HOUR, DAY, WEEK = 3600.0, 86400.0, 604800.0
START = 1359936000.0  # Monday, 4 February 2013, 0:00 UTC
WEEKS = 12
SEEN = 6  # features are computed from weeks 1–6
GONE = 10  # a student without events from week 10 on has dropped out
CUT = START + SEEN * WEEK
PROBLEMS = 6  # per week, due at its end
MOST_TRIES = 4
DAYS = 3  # days of study per week; some may coincide
SITTINGS = 2  # times per week at which solutions are submitted

KINDS = ("page", "video", "submission", "forum")
FIELDS = (
    Field("kind", "category", KINDS),
    Field("seconds", "number", optional=True),  # spent on a page or a video
    Field("problem", "number", optional=True),
    Field("grade", "number", optional=True),  # of a submission, 0 to 1
    Field("characters", "number", optional=True),  # of a forum post
)


# The prediction problem: which students are examples, and their labels


def week_of_last_event(events: EventTable) -> int:
    """Return the week of the last event: 1 for the first week, 0 without events."""
    return int((events.times[-1] - START) // WEEK) + 1 if len(events) else 0


def dropped_out(events: EventTable) -> float | None:
    """Return whether a student who was active in week 6 or later has no event from week 10 on; else None."""
    last = week_of_last_event(events)
    return float(last < GONE) if last >= SEEN else None


# The 13 features


def active_days(events: EventTable) -> float:
    """Return the number of days with an event."""
    return float(np.unique((events.times - START) // DAY).size)


def page_clicks(events: EventTable) -> float:
    """Return the number of opened pages per week."""
    return len(events.where("kind", "page")) / SEEN


def video_hours(events: EventTable) -> float:
    """Return the hours of video per week."""
    return float(events.where("kind", "video")["seconds"].sum()) / HOUR / SEEN


def submissions(events: EventTable) -> float:
    """Return the number of submissions per week."""
    return len(events.where("kind", "submission")) / SEEN


def problems_tried(events: EventTable) -> float:
    """Return the number of different problems with a submission."""
    return float(np.unique(events.where("kind", "submission")["problem"]).size)


def mean_grade(events: EventTable) -> float:
    """Return the mean grade of the submissions; 0 without submissions."""
    return _mean(events.where("kind", "submission")["grade"])


def hours_before_deadline(events: EventTable) -> float:
    """Return the mean time from a submission to the end of its week, in hours; 0 without submissions."""
    return _mean(WEEK - (events.where("kind", "submission").times - START) % WEEK) / HOUR


def forum_posts(events: EventTable) -> float:
    """Return the total number of posts."""
    return float(len(events.where("kind", "forum")))


def forum_characters(events: EventTable) -> float:
    """Return the mean length of a post in characters; 0 without posts."""
    return _mean(events.where("kind", "forum")["characters"])


def night_share(events: EventTable) -> float:
    """Return the share of events between 22:00 and 6:00."""
    return _mean((events.times - START + 2 * HOUR) % DAY < 8 * HOUR)


def weekend_share(events: EventTable) -> float:
    """Return the share of events on Saturdays and Sundays."""
    return _mean((events.times - START) % WEEK >= 5 * DAY)


def trend(events: EventTable) -> float:
    """Return the relative change, from −1 to 1, of the number of events in weeks 5–6 compared with weeks 3–4."""
    late = int(np.count_nonzero(events.times >= CUT - 2 * WEEK))
    early = int(np.count_nonzero(events.times >= CUT - 4 * WEEK)) - late
    return (late - early) / max(late + early, 1)


def days_silent(events: EventTable) -> float:
    """Return the days from the last event to the end of week 6; 42 without events."""
    return (CUT - float(events.times[-1])) / DAY if len(events) else SEEN * WEEK / DAY


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if values.size else 0.0


INSTANCER = Instancer(dropped_out, until=CUT)
FEATURIZER = Featurizer(
    {
        feature.__name__: feature
        for feature in (
            active_days, page_clicks, video_hours, submissions, problems_tried, mean_grade, hours_before_deadline,
            forum_posts, forum_characters, night_share, weekend_share, trend, days_silent,
        )
    }
)  # fmt: skip
CSV = Pipeline(CsvImporter(FIELDS, entity="student", time="time"), INSTANCER, FEATURIZER)
JSON_LINES = Pipeline(JsonLinesImporter(FIELDS, entity="student", time="time"), INSTANCER, FEATURIZER)


# The log


@dataclass(frozen=True)
class Course:
    """What distinguishes generated courses; a card states it in `[details]`. The defaults are those of “mooc”."""

    hazard: float = 2.6  # the log-odds to leave after a week without any activity
    relief: float = 2.0  # how much the logarithm of the activity reduces these log-odds
    drift: float = -0.1  # of the engagement of all students, per week
    spread: float = 1.0  # of the engagement between students


@dataclass(frozen=True)
class _Students:
    """The properties of all students: one value per student, and their weekly plans."""

    engagement: NDArray[np.float64]
    drift: NDArray[np.float64]  # of the engagement, per week
    ability: NDArray[np.float64]
    talkative: NDArray[np.float64]
    night: NDArray[np.float64]  # share of visits at night
    days: NDArray[np.int64]  # [students, weeks, DAYS], days of study
    left: NDArray[np.float64]  # [students, weeks, SITTINGS], share of the week that is left at submission


def event_log(students: int, seed: int, course: Course = Course()) -> EventTable:
    """Return the log of a course, which depends only on the number of students, the seed and the course."""
    if students < 1:
        raise UserError(f"expected at least 1 student; got {students}")
    rng = np.random.default_rng(seed)
    who = _students(students, rng, course)
    pages, videos, problems, posts = _weekly(who, rng, course)
    parts = [
        _visits("page", pages, who, rng, seconds=(4.0, 1.0)),
        _visits("video", videos, who, rng, seconds=(6.2, 0.7)),
        _submissions(problems, who, rng),
        _visits("forum", posts, who, rng, characters=(5.3, 0.8)),
    ]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    names = [f"s{number:07}" for number in range(1, students + 1)]
    return EventTable.sorted(FIELDS, names, joined.pop("owner"), joined.pop("time"), joined)


def _students(number: int, rng: np.random.Generator, course: Course) -> _Students:
    engagement = course.spread * rng.standard_normal(number)
    early, weekend = rng.beta(2, 4, number)[:, None, None], rng.beta(2, 4, number)[:, None, None]
    plan = (number, WEEKS, DAYS)
    return _Students(
        engagement=engagement,
        drift=rng.normal(course.drift, 0.12, number),
        ability=0.4 * engagement + 0.9 * rng.standard_normal(number),
        talkative=rng.normal(-2.3, 1.2, number),
        night=rng.beta(1.5, 6, number),
        days=np.where(rng.random(plan) < weekend, rng.integers(5, 7, plan), rng.integers(0, 5, plan)),
        left=rng.beta(4 * early, 4 * (1 - early), (number, WEEKS, SITTINGS)),
    )


def _weekly(who: _Students, rng: np.random.Generator, course: Course) -> list[NDArray[np.int64]]:
    """Return the numbers of pages, videos, tried problems and posts [students, weeks]; 0 after a student has left."""
    weeks = []
    engagement, staying = who.engagement, np.ones(who.engagement.size, bool)
    before = np.full(staying.size, 12.0)
    for _ in range(WEEKS):
        done = _week(who, engagement, rng) * staying
        weeks.append(done)
        recent = done.sum(axis=0) + 0.5 * before
        staying = staying & (rng.random(staying.size) >= _hazard(recent, course))
        before = done.sum(axis=0)
        engagement = engagement + who.drift + 0.3 * rng.standard_normal(staying.size)
    return list(np.stack(weeks, axis=2))


def _week(who: _Students, engagement: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    from golfsim.core.maths import exp_of

    busy = np.minimum(engagement, 3.0)
    pages = rng.poisson(exp_of(1.3 + 0.7 * busy))
    videos = rng.poisson(exp_of(0.7 + 0.7 * busy))
    problems = rng.binomial(PROBLEMS, _logistic(0.2 + 1.3 * busy))
    posts = rng.poisson(exp_of(np.minimum(who.talkative + 0.4 * busy, 2.0)))
    return np.stack((pages, videos, problems, posts))


def _hazard(recent: NDArray[Any], course: Course) -> NDArray[np.float64]:
    """Return the probability to leave after a week, by the activity of that week plus half that of the week before."""
    from golfsim.core.maths import log_of

    return _logistic(course.hazard - course.relief * log_of(1 + recent))


def _logistic(x: NDArray[Any]) -> NDArray[np.float64]:
    from golfsim.core.maths import exp_of

    return np.asarray(1 / (1 + exp_of(-x)), np.float64)


Columns = dict[str, NDArray[Any]]


def _visits(
    kind: str, counts: NDArray[np.int64], who: _Students, rng: np.random.Generator, **sizes: tuple[float, float]
) -> Columns:
    """Return the counted events per student and week, at the student's hours, each with a log-normal size."""
    owner, week = _unfolded(counts)
    n = owner.size
    day = who.days[owner, week, rng.integers(0, DAYS, n)]
    hour = np.where(rng.random(n) < who.night[owner], (22 + 8 * rng.random(n)) % 24, 6 + 16 * rng.random(n))
    time = START + week * WEEK + day * DAY + np.floor(hour * HOUR)
    drawn = {name: np.ceil(rng.lognormal(*size, n)) for name, size in sizes.items()}
    return _columns(kind, owner, time, **drawn)


def _submissions(counts: NDArray[np.int64], who: _Students, rng: np.random.Generator) -> Columns:
    """Return one or more submissions to each of the first problems of a week.

    Students of higher ability need fewer submissions and get better grades.
    """
    owner, week = _unfolded(counts)
    first = np.repeat(np.cumsum(counts.ravel()) - counts.ravel(), counts.ravel())
    problem = week * PROBLEMS + np.arange(owner.size) - first
    tries = np.minimum(rng.geometric(_logistic(0.3 + 0.6 * who.ability[owner])), MOST_TRIES)
    owner, week, problem = (np.repeat(values, tries) for values in (owner, week, problem))
    grade = np.round(np.clip(rng.normal(0.6 + 0.12 * who.ability[owner], 0.2), 0, 1), 2)
    left = who.left[owner, week, rng.integers(0, SITTINGS, owner.size)] * (WEEK - 2 * HOUR)
    time = START + (week + 1) * WEEK - np.ceil(left + HOUR * (1 + rng.random(owner.size)))
    return _columns("submission", owner, time, problem=problem, grade=grade)


def _unfolded(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the student and the week of each event, from the numbers of events [students, weeks]."""
    place = np.repeat(np.arange(counts.size), counts.ravel())
    return place // WEEKS, place % WEEKS


def _columns(kind: str, owner: NDArray[np.int64], time: NDArray[Any], **values: NDArray[Any]) -> Columns:
    empty = {field.name: np.full(owner.size, np.nan) for field in FIELDS[1:] if field.name not in values}
    return {"owner": owner, "time": time, "kind": np.full(owner.size, KINDS.index(kind), np.int16), **empty, **values}


# The data set, and its raw form


def records(number: int, rng: np.random.Generator, details: Mapping[str, Any]) -> tuple[NDArray[np.float64], Any]:
    """Return feature vectors and labels of a number of students who were active in week 6 or later."""
    return _records(number, int(rng.integers(2**63)), Course(**details))


@functools.lru_cache(maxsize=32)
def _records(number: int, seed: int, course: Course = Course()) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the records, cached since the runs of a sweep share them: about one megabyte for 10000 students."""
    students = number * 9 // 5 + 50  # nearly always enough
    while (found := CSV.matrix(event_log(students, seed, course))).y.size < number:
        students *= 2
    x, y = found.x[:number].copy(), found.y[:number].astype(np.int32)
    x.flags.writeable = y.flags.writeable = False
    return x, y


def write_log(path: str | Path, students: int, seed: int) -> EventTable:
    """Write the raw log of a course as CSV or JSON lines, by the extension of the file, and return its events."""
    writers = {".csv": write_csv, ".jsonl": write_json_lines}
    suffix = Path(path).suffix.lower()
    if suffix not in writers:
        raise UserError(f"{path} has an unknown format", hint=nearest(suffix, writers))
    events = event_log(students, seed)
    writers[suffix](events, path, entity="student", time="time")
    return events
