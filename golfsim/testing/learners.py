"""The contract of learners: what their kernels must do, alone and inside the layers that use them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.learning.kinds import Rule, learner_of, with_room
from golfsim.learning.linear import fill_scores
from golfsim.learning.loading import make
from golfsim.learning.many import Together, learn_many, many_scores
from golfsim.learning.online import OnlineLearner, Shape
from golfsim.learning.updates import Noise, update
from golfsim.privacy.ledger import Budget
from golfsim.protocol.records import Rows
from golfsim.testing.protocols import (
    DATA,
    SUBJECT,
    Subject,
    any_number_of_threads,
    faults,
    offline_nodes_rest,
    resumed,
    same_seed,
)

NODES, RECORDS, FEATURES = 4, 3, 7
ITEMS = 5  # that are rated
MODEL = 1  # the number of the tested model among those of all nodes
LAM = 0.1
PEERS = {"name": "peers", "use": "uniform"}
MARGINS = np.concatenate([-np.logspace(6, -6, 25), [0.0], np.logspace(-6, 6, 25)])


@dataclass(frozen=True)
class Case:
    """A learner with models and records of a few nodes; node 3 has no records."""

    learner: OnlineLearner[Any]
    setting: Any = None  # what a scenario writes
    classes: int = 2
    folder: Path = Path()
    data: Mapping[str, Any] = field(default_factory=lambda: DATA)
    features: int = FEATURES

    @property
    def shape(self) -> Shape:
        """What the learner knows of the records."""
        task = self.learner.task
        if task in ("numbers", "ratings"):
            return Shape(1, 0, 1, ITEMS) if task == "ratings" else Shape(FEATURES, 0, 1)
        return Shape(self.features, self.classes, 1 if self.classes == 2 else self.classes)

    def rule(self, one_by_one: bool = False) -> Rule:
        """Return the update rule."""
        rule = self.learner.rule(self.shape, LAM, one_by_one)
        kept = self.learner.kept(self.shape)
        if kept:
            rule = rule._replace(room=rule.room._replace(own=np.zeros((NODES, kept), np.float32)))
        return with_room(rule)

    def models(self) -> NDArray[np.float32]:
        """Return different models of all nodes, one after the other: node n has updated the first model n + 1 times."""
        first = self.learner.initial(self.shape, np.uint64(3))
        models = []
        for node in range(NODES):
            model, age = first.copy(), np.int32(0)
            for _ in range(node + 1):
                out = np.empty_like(model)
                age = self.update(model, 0, age, node % (NODES - 1), out)
                model = out
            models.append(model)
        return np.concatenate(models)

    def update(
        self,
        w: NDArray[np.float32],
        start: int,
        age: Any,
        node: int,
        out: NDArray[np.float32],
        one_by_one: bool = False,
        rows: Rows | None = None,
    ) -> Any:
        """Write the model from row `start` on, updated by the records of a node, into `out`; return its new age."""
        rows, rule = rows or self.rows(), self.rule(one_by_one)
        if not self.learner.batched:
            return update(w, start, age, rows, node, rule, out)
        out[:], ages, nodes = w[start : start + len(out)], np.array([age], np.int32), np.array([node], np.int32)
        none, budget = Noise(False, 0, False, np.uint64(0)), Budget(0, 0, 0.0, np.zeros(0, np.int32))
        learn_many(Together(self.learner, self.shape, rows, rule, none, budget, 1), out, ages, nodes)
        return ages[0]

    def scores(self, w: NDArray[np.float32], x: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Write the scores of records by models into `out`."""
        if self.learner.batched:
            found = many_scores(self.learner, self.shape, w, x)
            out[: found.shape[0] * found.shape[1]] = found.reshape(-1, found.shape[-1])
        else:
            fill_scores(w, x, self.rule(), np.arange(len(w), dtype=np.int32) % NODES, out)

    def updates(self, one_by_one: bool) -> int:
        """Return how many updates a learner makes with the records of a node."""
        learner: Any = self.learner
        size, rounds = learner.updates() if learner.batched else (None, 1)
        size = 1 if one_by_one else size or RECORDS
        return -(-RECORDS // size) * rounds

    def rows(self) -> Rows:
        """Return the records of all nodes."""
        first = np.arange(NODES, dtype=np.int64) * RECORDS
        stop = first + np.where(np.arange(NODES) == NODES - 1, 0, RECORDS)
        x = _drawn(2, NODES * RECORDS * self.features).reshape(-1, self.features).astype(np.float32)
        x /= x.sum(axis=1, keepdims=True)
        label: NDArray[Any] = (np.arange(len(x)) % self.classes).astype(np.int32)
        if self.learner.task in ("numbers", "ratings"):
            label = _drawn(4, len(x)).astype(np.float32)
        if self.learner.task == "ratings":
            x = (np.arange(len(x)) % ITEMS).astype(np.float32)[:, None]
        return Rows(x, label, first, stop, False)


def _drawn(purpose: int, size: int) -> NDArray[np.float64]:
    return rng.uniform(np.uint64(purpose), np.arange(size, dtype=np.int32))


def learner_contract(
    learner: Any,
    *,
    folder: str | Path = ".",
    classes: tuple[int, ...] = (2, 3),
    data: Mapping[str, Any] = DATA,
    features: int = FEATURES,
) -> None:
    """Run every check of the contract on a learner; raise AssertionError with the name of the first that fails.

    Parameters
    ----------
    learner : str or dict
        What a scenario file has behind `learner =`.
    folder : path
        Where the path of the learner's file begins, as a scenario file's folder.
    classes : tuple of int
        The numbers of classes that the kernels are called with.
    data : dict
        The table `[data]` of the runs, with records that the learner learns from. A learner of numbers or of ratings
        needs none.
    features : int
        The number of features that the kernels, or the module, are called with.
    """
    setting = {"use": learner} if isinstance(learner, str) else dict(learner)
    made = make(setting, Path(folder))
    for name, check in LEARNER_CHECKS.items():
        for number in classes:
            try:
                check(Case(made, setting, number, Path(folder), data, features))
            except Exception as error:
                kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                raise AssertionError(f"the contract is broken: {name}, {number} classes: {kind}{error}") from error
            if name in ONCE:
                break


def updates_change_only_the_result(case: Case) -> None:
    """Check that an update changes neither the models it starts from nor the records, and gives the same bits twice."""
    w, rows = case.models(), case.rows()
    size = case.learner.shape(case.shape)[0]
    for one_by_one in (False, True):
        results = []
        for _ in range(2):
            out = np.full((size, w.shape[1]), np.nan, np.float32)
            before, x = w.copy(), rows.x.copy()
            age = case.update(w, MODEL * size, np.int32(4), MODEL, out, one_by_one, rows)
            assert (w == before).all(), "the model that an update starts from has changed"
            assert (rows.x == x).all(), "the records have changed"
            assert np.isfinite(out).all(), "an updated model is not finite"
            expected = 4 + case.updates(one_by_one)
            assert age == expected, f"the age is {age} after {expected - 4} updates of a model of age 4"
            results.append(out.tobytes())
        assert results[0] == results[1], "two equal updates have different results"


def nothing_to_learn_from(case: Case) -> None:
    """Check that a node without records leaves a model and its age as they are."""
    w, size = case.models(), case.learner.shape(case.shape)[0]
    out = np.full((size, w.shape[1]), np.nan, np.float32)
    assert case.update(w, 0, np.int32(4), NODES - 1, out) == 4, "the age has changed"
    assert (out == w[:size]).all(), "the model has changed"


def scores_fill_their_row(case: Case) -> None:
    """Check that scores are finite, the same each time, and fill exactly their row of the output."""
    if case.learner.linear:
        return
    w, x, outputs = case.models(), case.rows().x, case.learner.outputs(case.shape)
    filled = []
    for _ in range(2):
        out = np.full((len(x) * NODES + 1, outputs), np.nan, np.float32)
        case.scores(w, x, out)
        assert np.isfinite(out[:-1]).all(), "`scores` does not fill its row with finite numbers"
        assert np.isnan(out[-1]).all(), "`scores` fills a row that is not its own"
        filled.append(out.tobytes())
    assert filled[0] == filled[1], "two equal calls of `scores` have different results"


def merging_changes_one_model(case: Case) -> None:
    """Check that `merge` changes only the model it should, and that a model merged with itself stays as it is.

    A learner whose merge takes the two models as independent says so by `independent`.
    """
    if case.learner.merge is None:
        return
    a, b, share = case.models(), case.models()[::-1].copy(), np.float32(0.25)
    before = a.copy(), b.copy()
    rule = case.rule()
    learner = learner_of(rule)
    numbers = learner.Numbers(*rule.numbers)
    learner.merge(numbers, a, 0, b, MODEL, share, rule.room)
    others = np.arange(NODES) != MODEL
    assert (a == before[0]).all(), "the model that is merged has changed"
    assert (b[others] == before[1][others]).all(), "the model of another node has changed"
    assert np.isfinite(b).all(), "a merged model is not finite"
    learner.merge(numbers, before[0], 0, a, 0, share, rule.room)
    if learner.independent:
        return
    assert np.allclose(a[0], before[0][0], atol=1e-5), "a model that is merged with itself is another one"


def no_step_is_longer_than_stated(case: Case) -> None:
    """Check that no step of a linear learner is longer than `reach`: noise in gradients is scaled for it."""
    if not case.learner.linear or case.learner.bound() is None:
        return
    rule = case.rule()
    learner = learner_of(rule)
    numbers = learner.Numbers(*rule.numbers)
    for t in (1, 2, 10, 1000):
        longest = learner.reach(numbers, t)
        for margin in MARGINS:
            step = abs(learner.step(numbers, margin, t))
            assert step <= longest * (1 + 1e-6), f"at margin {margin:g} step {t} is {step:g}, longer than {longest:g}"


def _in_layer(case: Case, **table: Any) -> Subject:
    layer = {"use": "golf", "peers": "peers", "records": "raw", "learner": case.setting} | table
    return _Learning(
        layer, (PEERS,), data=True, folder=case.folder, tables={"data": dict(case.data)}, task=case.learner.task
    )


@dataclass(frozen=True)
class _Learning(Subject):
    tables: Mapping[str, Any] = field(default_factory=dict)  # that replace those of the contract of protocols
    task: str = "classes"

    def tree(self, *, number: int = 61, seen: bool = True, **tables: Any) -> dict[str, Any]:
        made = super().tree(number=number, seen=seen, **tables)
        if self.task == "ratings":
            file, split = _ratings(number), {"kind": "by", "column": "user"}
            data = {"file": file, "task": "ratings", "test": 0.2, "test_seed": 1}
            return made | {"data": data, "nodes": {"split": split}}
        data = {"set": "plane", "test": 100} if self.task == "numbers" else dict(self.tables["data"])
        return made | {"data": data | {"train": 2 * number}}


@cache
def _ratings(users: int) -> str:
    """Write a file with six ratings of each user, and return its path."""
    file = Path(tempfile.mkdtemp()) / "ratings.csv"
    lines = [f"{user},{(user + 3 * k) % 17},{1 + (user * k) % 5}" for user in range(users) for k in range(6)]
    file.write_text("\n".join(["user,item,rating", *lines]) + "\n", encoding="utf-8")
    return str(file)


def learns_in_golf(case: Case) -> None:
    """Check the contract of protocols for Golf with this learner: same rows for any threads, resumed runs, faults."""
    for check in (same_seed, any_number_of_threads, resumed, offline_nodes_rest, faults):
        check(_in_layer(case))
    same_seed(_in_layer(case, variant="um"))
    same_seed(_in_layer(case, variant="mu", average="age"))


def learns_on_walks(case: Case) -> None:
    """Check the contract of protocols for random walks with this learner."""
    subject = _in_layer(case, use="random_walk")
    same_seed(subject)
    resumed(subject)


def learns_with_noise(case: Case) -> None:
    """Check that a learner whose gradients have a largest length learns with noise, and that others are refused."""
    noisy = _in_layer(case, epsilon=5.0, norm="l1")
    several = case.updates(False) != 1
    if case.learner.bound() is not None and not several:
        same_seed(noisy)
        return
    told, reason = "nothing", "one update" if case.learner.bound() is not None else "no largest length"
    try:
        noisy.finished(noisy.tree(cycles=1))
    except UserError as error:
        told = str(error)
    assert reason in told, f"noise in gradients that have no largest length is answered by {told}"


def learns_among_adversaries(case: Case) -> None:
    """Check that models stay finite where some nodes send noise, the negative of their model, or an old one."""
    for kind in ("noise", "negative", "old"):
        subject = _in_layer(case)
        run = subject.finished(subject.tree(adversary=[{"kind": kind, "share": 0.2}]))
        layer = run.layer(SUBJECT)
        for name, array in layer.state().items():
            finite = array.dtype.kind != "f" or np.isfinite(array).all()
            assert finite, f"{name} is not finite among adversaries that send “{kind}”"


ONCE = frozenset(
    {"learns_in_golf", "learns_on_walks", "learns_with_noise", "learns_among_adversaries"}
)  # the data decide about the classes
LEARNER_CHECKS: dict[str, Callable[[Case], None]] = {
    check.__name__: check
    for check in (
        updates_change_only_the_result, nothing_to_learn_from, scores_fill_their_row, merging_changes_one_model,
        no_step_is_longer_than_stated, learns_in_golf, learns_on_walks, learns_with_noise, learns_among_adversaries,
    )
}  # fmt: skip
