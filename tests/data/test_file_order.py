"""Records in the order of their file (`shuffle = false`), and the generated points in a ball."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import ALPHA
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from golfsim.core.errors import UserError
from golfsim.data.config import DataConfig
from golfsim.data.generate import separable
from golfsim.data.loading import Dataset, load


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of 60 rows: the first feature is the number of the row."""
    place = tmp_path_factory.mktemp("order")
    lines = [f"{row},{row % 7},{'ab'[row % 2]}" for row in range(60)]
    (place / "rows.csv").write_text("\n".join(["number,other,label", *lines]))
    (place / "more.csv").write_text("number,other,label\n" + "\n".join(f"{row},0,{'ab'[row % 2]}" for row in range(9)))
    return place


def get(folder: Path, run: int = 1, seed: int = 1, **settings: object) -> Dataset:
    table = {"file": "rows.csv", "shuffle": False} | settings
    return load(DataConfig.model_validate(table), seed + run - 1, folder, run)


def numbers(x: np.ndarray) -> list[int]:
    return [int(value) for value in x[:, 0]]


def test_the_first_rows_are_for_training_and_the_last_for_testing(folder: Path) -> None:
    data = get(folder, test=12)
    assert numbers(data.x) == list(range(48))
    assert numbers(data.test_x) == list(range(48, 60))
    assert data.y.tolist() == [row % 2 for row in range(48)]


def test_fewer_training_records_are_the_first_rows(folder: Path) -> None:
    data = get(folder, test=0.1, train=20, seed=5)
    assert numbers(data.x) == list(range(20))
    assert numbers(data.test_x) == list(range(54, 60))


def test_a_set_with_its_own_test_records_keeps_them_in_order(folder: Path) -> None:
    data = get(folder, test_file="more.csv", train=10)
    assert (numbers(data.x), numbers(data.test_x)) == (list(range(10)), list(range(9)))
    assert numbers(get(folder, test_file="more.csv", test=4).test_x) == [0, 1, 2, 3]


@given(first=st.integers(12, 60), folds=st.integers(2, 6), seed=st.integers(0, 10**6), shuffling=st.integers(0, 3))
def test_the_folds_divide_the_first_rows_and_each_of_them_is_tested_once(
    folder: Path, first: int, folds: int, seed: int, shuffling: int
) -> None:
    runs = range(shuffling * folds + 1, (shuffling + 1) * folds + 1)
    found = [get(folder, run, seed, folds=folds, train=first) for run in runs]
    assert sorted(row for data in found for row in numbers(data.test_x)) == list(range(first))
    sizes = [len(data.test_y) for data in found]
    assert max(sizes) - min(sizes) <= 1
    for data in found:
        assert numbers(data.x) == sorted(set(range(first)) - set(numbers(data.test_x)))


def test_the_folds_are_drawn_at_random_and_again_after_all_of_them(folder: Path) -> None:
    one, sixth, again = (get(folder, run, folds=5, train=50) for run in (1, 6, 6))
    assert numbers(one.test_x) != list(range(10))
    assert numbers(one.test_x) != numbers(sixth.test_x)
    assert numbers(sixth.test_x) == numbers(again.test_x)


def test_without_a_number_all_rows_are_divided_into_folds(folder: Path) -> None:
    data = get(folder, folds=4)
    assert (len(data.y), len(data.test_y)) == (45, 15)


@pytest.mark.parametrize(
    ("keys", "key"), [({"folds": 5, "train": 61}, "data.train"), ({"folds": 5, "train": 4}, "data.folds")]
)
def test_more_rows_than_the_file_has_or_fewer_than_folds_are_refused(folder: Path, keys: dict, key: str) -> None:
    with pytest.raises(UserError) as caught:
        get(folder, **keys)
    assert caught.value.key == key


def test_records_are_shuffled_by_default(folder: Path) -> None:
    data = get(folder, test=12, shuffle=True)
    assert numbers(data.x) != sorted(numbers(data.x))
    assert DataConfig(file="rows.csv").shuffle


def test_the_first_fifty_rows_of_wdbc_hold_forty_three_malignant_ones() -> None:
    folds = [get(Path(), run, file=None, set="wdbc5", folds=5, train=50) for run in range(1, 6)]
    assert sum(int(data.test_y.sum()) for data in folds) == 43


def test_the_first_records_of_a_generated_set_are_those_that_are_generated_first() -> None:
    few, all_of_them = (get(Path(), file=None, set="separable", folds=5, train=train) for train in (100, 10_000))
    together = {row.tobytes() for row in (*all_of_them.x, *all_of_them.test_x)}
    assert {row.tobytes() for row in (*few.x, *few.test_x)} < together
    assert few.digest == all_of_them.digest
    assert (len(few.y), len(few.test_y)) == (80, 20)


# Points in a ball


def test_points_in_the_ball_have_the_distances_of_a_uniform_distribution() -> None:
    details = {"dimensions": 10, "margin": 0.0, "ball": True}
    x, _ = separable(5000, np.random.default_rng(3), details)
    length = np.linalg.norm(x, axis=1)
    assert stats.kstest(length**10, "uniform").pvalue > ALPHA
    assert stats.kstest(length**9, "uniform").pvalue < ALPHA
    direction = x / length[:, None]
    assert abs(direction.mean(axis=0)).max() < 4 / np.sqrt(10 * 5000)  # four standard deviations
    assert np.linalg.norm(
        separable(50, np.random.default_rng(3), details | {"ball": False})[0], axis=1
    ) == pytest.approx(1)


def test_points_in_the_ball_lie_outside_the_margin_and_some_labels_near_it_are_flipped() -> None:
    from sklearn.svm import LinearSVC

    clean, noisy = (load(DataConfig(set=f"{name}_ball"), 4, Path()) for name in ("separable", "inseparable"))
    machine = LinearSVC(C=1e4, fit_intercept=False, dual=False).fit(clean.x, clean.y)
    assert machine.score(clean.x, clean.y) == 1
    assert abs(clean.x @ machine.coef_[0] / np.linalg.norm(machine.coef_)).min() > 0.02
    assert np.array_equal(clean.x, noisy.x)
    assert 0.03 < (clean.y != noisy.y).mean() < 0.05
    assert np.linalg.norm(clean.x, axis=1).max() <= 1 + 1e-6
