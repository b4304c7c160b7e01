"""Loading, splitting and scaling of data sets, and what a user's own file may hold."""

from __future__ import annotations

import gzip
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from golfsim.core.errors import UserError
from golfsim.data import known_sets, loading
from golfsim.data.cards import data_folder
from golfsim.data.config import DataConfig
from golfsim.data.loading import Dataset, cards, load
from golfsim.data.scaling import scaled

HERE = Path(__file__).parent
CHECKS = HERE.parents[2] / "shared" / "data"  # independent copies, where somebody keeps them beside the project
LOCAL = sorted(name for name, card in cards().items() if card.kind != "fetched")


def get(seed: int = 1, folder: Path = HERE, **settings: object) -> Dataset:
    return load(DataConfig.model_validate(settings), seed, folder)


def error_of(seed: int = 1, folder: Path = HERE, **settings: object) -> UserError:
    with pytest.raises(UserError) as caught:
        get(seed, folder, **settings)
    return caught.value


def rows(x: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in x}


# Every set


@pytest.mark.parametrize("name", LOCAL)
def test_every_set_has_the_form_that_others_rely_on(name: str) -> None:
    data = get(set=name)
    assert data.x.dtype == data.test_x.dtype == np.float32
    of_classes = cards()[name].task == "classification"
    assert data.y.dtype == data.test_y.dtype == (np.int32 if of_classes else np.float32)
    assert data.x.flags.c_contiguous
    assert data.x.shape == (len(data.y), len(data.features))
    assert data.test_x.shape == (len(data.test_y), len(data.features))
    assert not of_classes or set(np.unique(data.y)) == set(range(len(data.classes)))
    assert np.isfinite(data.y).all()
    assert len(set(data.features)) == len(data.features)
    assert np.isfinite(data.x).all()


@pytest.mark.parametrize("name", LOCAL)
def test_the_same_seed_gives_the_same_records_and_another_seed_others(name: str) -> None:
    first, again, other = get(7, set=name), get(7, set=name), get(8, set=name)
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.test_y, again.test_y)
    assert first.digest == again.digest
    assert not np.array_equal(first.x, other.x)


@pytest.mark.parametrize("name", LOCAL)
def test_public_bounds_bring_every_feature_into_the_unit_interval(name: str) -> None:
    if not cards()[name].bounds:
        wrong = error_of(set=name, scale=("minmax",))
        if cards()[name].task == "ratings":
            assert wrong.key == "data.scale"
            return
        assert wrong.key == "data.bounds"
        assert "train" in str(wrong.hint)
        return
    data = get(set=name, scale=("minmax",))
    assert data.x.min() >= 0
    assert data.x.max() <= 1
    spread = np.ptp(data.x, axis=0)
    assert np.mean(spread > 0) > 0.9, "the bounds are so wide or so wrong that features vanish"


def test_bounds_name_only_features_that_exist() -> None:
    for name in LOCAL:
        unknown = set(cards()[name].bounds) - {"default"} - set(get(set=name).features)
        assert not unknown, name


@pytest.mark.parametrize(
    ("settings", "train", "test"),
    [
        ({"set": "spambase"}, 4140, 461),
        ({"set": "spambase", "test": 0.2}, 3680, 921),
        ({"set": "spambase", "train": 100}, 100, 461),
        ({"set": "segmentation"}, 1876, 210),
        ({"set": "segmentation", "split": "as-published"}, 2310, 210),
        ({"set": "a9a"}, 32561, 16281),
        ({"set": "a9a", "train": 3000, "test": 50}, 3000, 50),
        ({"set": "a9a", "train": 3000, "test": 16281}, 3000, 16281),
        ({"set": "a9a", "train": 3000, "test": 8 / 16281}, 3000, 8),
        ({"set": "wdbc"}, 455, 114),
        ({"set": "random"}, 20000, 2000),
        ({"set": "random", "train": 50}, 50, 2000),
        ({"set": "random", "train": 80, "test": 0.2}, 80, 20),
        ({"set": "separable"}, 8000, 2000),
        ({"set": "inseparable", "train": 300, "test": 100}, 300, 100),
    ],
)
def test_sizes_are_the_published_ones_or_those_asked_for(settings: dict[str, object], train: int, test: int) -> None:
    data = get(**settings)
    assert (len(data.y), len(data.test_y)) == (train, test)


# Splits


def test_training_and_test_records_together_are_the_whole_set() -> None:
    data = get(set="wdbc")
    assert len(rows(np.concatenate((data.x, data.test_x)))) == 569


def test_labels_and_columns_stay_with_their_records() -> None:
    few, all_of_it = get(set="adult", train=200), get(set="adult")
    age = few.features.index("age")
    assert np.array_equal(few.x[:, age], few.columns["age"])
    assert np.array_equal(few.x, all_of_it.x[:200]), "a smaller training set is part of a larger one"
    sales = few.features.index("occupation=Sales")
    assert np.array_equal(few.x[:, sales] == 1, few.columns["occupation"] == "Sales")
    assert len(few.columns) == 14


def test_a9a_cuts_numbers_at_inclusive_upper_bounds() -> None:
    data = get(set="a9a")
    age = data.columns["age"]
    bins = {"age<=25": age <= 25, "age<=32": (age > 25) & (age <= 32), "age>49": age > 49}
    bins["capital-gain>0"] = data.columns["capital-gain"] > 0
    bins["workclass=Private"] = data.columns["workclass"] == "Private"
    for name, expected in bins.items():
        assert np.array_equal(data.x[:, data.features.index(name)] == 1, expected), name
    ones = data.x.sum(axis=1)
    assert (ones.min(), ones.max()) == (11, 14)
    assert (data.columns["occupation"][ones == 11] == "?").all(), "what is missing is all zeros"


def test_labels_of_spambase_go_with_what_tells_spam() -> None:
    data = get(set="spambase")
    dollar, george = data.features.index("char_freq_$"), data.features.index("word_freq_george")
    assert data.x[data.y == 1, dollar].mean() > 5 * data.x[data.y == 0, dollar].mean()
    assert data.x[data.y == 0, george].mean() > 100 * data.x[data.y == 1, george].mean()


def test_malignant_is_the_positive_class() -> None:
    data = get(set="wdbc")
    radius = data.features.index("mean radius")
    assert data.classes[1] == "malignant"
    assert data.x[data.y == 1, radius].mean() > data.x[data.y == 0, radius].mean()


def test_training_records_are_not_in_the_order_of_the_file() -> None:
    y = get(set="spambase").y
    assert 0.25 < y[:400].mean() < 0.55, "the file lists all spam first"


def test_test_seed_fixes_the_split_whatever_the_seed_of_the_run() -> None:
    one, two = get(1, set="spambase", test_seed=5), get(2, set="spambase", test_seed=5)
    assert np.array_equal(one.x, two.x)
    assert np.array_equal(get(5, set="spambase").x, one.x)


def test_clean_segmentation_never_tests_on_a_training_record_and_as_published_always_does() -> None:
    clean, leaky = get(set="segmentation"), get(set="segmentation", split="as-published")
    assert not rows(clean.x) & rows(clean.test_x)
    assert rows(leaky.test_x) <= rows(leaky.x)
    assert np.bincount(leaky.test_y).tolist() == [30] * 7
    assert np.bincount(leaky.y).tolist() == [330] * 7


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"set": "spambase", "train": 4141}, "data.train"),
        ({"set": "spambase", "test": 4601}, "data.test"),
        ({"set": "spambase", "test": 2.5}, "data.test"),
        ({"set": "a9a", "test": 16282}, "data.test"),
        ({"set": "spambase", "train": 1}, "data.train"),
        ({"set": "spambase", "label": "spam"}, "data.label"),
        ({"set": "spambase", "scale": ("l1", "minmax")}, "data.scale"),
    ],
)
def test_impossible_wishes_are_refused_at_their_key(settings: dict[str, object], key: str) -> None:
    assert error_of(**settings).key == key


def test_an_unknown_set_is_answered_with_the_nearest_one() -> None:
    wrong = error_of(set="spambas")
    assert wrong.key == "data.set"
    assert "spambase" in str(wrong.hint)


# Scaling


def unscaled() -> Dataset:
    return get(set="spambase", test_seed=3)


def test_minmax_by_the_training_set_spans_the_interval_and_clips_test_records() -> None:
    plain, data = unscaled(), get(set="spambase", test_seed=3, scale=("minmax",), bounds="train")
    assert np.array_equal(data.x.min(axis=0), np.zeros(57))
    assert np.array_equal(data.x.max(axis=0), np.ones(57))
    low, high = plain.x.min(axis=0).astype(float), plain.x.max(axis=0).astype(float)
    expected = np.clip((plain.test_x - low) / (high - low), 0, 1)
    assert (plain.test_x > high).any(), "no test record lies outside: the test shows nothing"
    np.testing.assert_allclose(data.test_x, expected, atol=1e-6)


def test_minmax_by_public_bounds_is_the_cards_formula() -> None:
    plain, data = unscaled(), get(set="spambase", test_seed=3, scale=("minmax",))
    run = data.features.index("capital_run_length_total")
    np.testing.assert_allclose(data.x[:, run], np.clip((plain.x[:, run] - 1) / 9999, 0, 1), rtol=1e-6)
    np.testing.assert_allclose(data.x[:, 0], np.clip(plain.x[:, 0] / 10, 0, 1), rtol=1e-6)


def test_minmax_by_bounds_that_the_scenario_states_clips_to_them() -> None:
    plain, data = unscaled(), get(set="spambase", test_seed=3, scale=("minmax",), bounds=(0.5, 2))
    np.testing.assert_allclose(data.x, np.clip((plain.x - 0.5) / 1.5, 0, 1), rtol=1e-6, atol=1e-7)
    by_name = {"capital_run_length_total": (1, 100), "default": (0.5, 2)}
    named = get(set="spambase", test_seed=3, scale=("minmax",), bounds=by_name)
    run = named.features.index("capital_run_length_total")
    np.testing.assert_allclose(named.x[:, run], np.clip((plain.x[:, run] - 1) / 99, 0, 1), rtol=1e-6)
    assert np.array_equal(named.x[:, 0], data.x[:, 0])


def test_new_records_are_scaled_as_those_that_were_learned_from() -> None:
    plain = unscaled()
    for bounds in ("train", (0, 5)):
        data = get(set="spambase", test_seed=3, scale=("minmax", "bias", "l2"), bounds=bounds)
        steps = pickle.loads(pickle.dumps(data.steps))
        np.testing.assert_allclose(scaled(plain.test_x, steps), data.test_x, atol=1e-6)


def test_a_constant_feature_becomes_zero() -> None:
    for bounds in ("public", "train"):
        data = get(set="segmentation", scale=("minmax",), bounds=bounds)
        assert not data.x[:, data.features.index("region-pixel-count")].any()


def test_training_bounds_are_those_after_the_steps_before() -> None:
    data = get(set="spambase", scale=("l1", "minmax"), bounds="train")
    assert np.array_equal(data.x.max(axis=0), np.ones(57))


@pytest.mark.parametrize(("step", "order"), [("l1", 1), ("l2", 2)])
def test_records_are_brought_to_length_one(step: str, order: int) -> None:
    data = get(set="segmentation", scale=("minmax", step))
    for x in (data.x, data.test_x):
        np.testing.assert_allclose(np.linalg.norm(x, ord=order, axis=1), 1, atol=1e-5)


def test_clipping_shortens_only_the_longer_records(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=[[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], y=[0, 1, 1], test_x=[[6.0, 8.0]], test_y=[0])
    data = get(file="a.npz", folder=tmp_path, scale=("clip-l2",))
    assert rows(data.x) == rows(np.array([[0.6, 0.8], [0.3, 0.4], [0, 0]], dtype=np.float32))
    np.testing.assert_allclose(data.test_x, [[0.6, 0.8]])


@pytest.mark.parametrize("step", ["l1", "l2"])
def test_a_record_of_zeros_stays_zero(tmp_path: Path, step: str) -> None:
    np.savez(tmp_path / "a.npz", x=[[0.0, 0.0], [3.0, -1.0]], y=[0, 1], test_x=[[0.0, 0.0]], test_y=[1])
    data = get(file="a.npz", folder=tmp_path, scale=(step,))
    assert not data.test_x.any()
    assert not data.x[data.y == 0].any()
    assert data.x[data.y == 1].any()


# Generated sets


def test_random_is_two_gaussians_where_the_paper_puts_them() -> None:
    data = get(set="random")
    np.testing.assert_allclose(data.x[data.y == 0].mean(axis=0), [0, 10], atol=0.05)
    np.testing.assert_allclose(data.x[data.y == 1].mean(axis=0), [10, 0], atol=0.05)
    np.testing.assert_allclose(data.x[data.y == 1].std(axis=0), [1, 1], atol=0.05)


def test_separable_points_lie_on_the_sphere_and_outside_the_margin_of_some_separator() -> None:
    from sklearn.svm import LinearSVC

    data = get(set="separable")
    np.testing.assert_allclose(np.linalg.norm(data.x, axis=1), 1, atol=1e-6)
    machine = LinearSVC(C=1e4, fit_intercept=False, dual=False).fit(data.x, data.y)
    assert machine.score(data.test_x, data.test_y) > 0.995
    assert machine.score(data.x, data.y) == 1


def test_inseparable_flips_a_fifth_of_the_labels_near_the_separator() -> None:
    clean, noisy = get(4, set="separable"), get(4, set="inseparable")
    assert np.array_equal(clean.x, noisy.x)
    flipped = clean.y != noisy.y
    assert 0.025 < flipped.mean() < 0.045


# Bundles


def test_a_damaged_bundle_is_reported_and_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray((data_folder() / "spambase.npz").read_bytes())
    content[5000] ^= 1
    (tmp_path / "spambase.npz").write_bytes(content)
    monkeypatch.setattr(known_sets, "data_folder", lambda: tmp_path)
    wrong = error_of(set="spambase")
    assert "checksum" in wrong.what
    assert wrong.key == "data.set"
    assert "missing" in error_of(set="segmentation").what


@pytest.mark.parametrize("change", [{"records": 4600}, {"features": 56}, {"counts": (2787, 1814)}])
def test_records_are_compared_with_the_card(monkeypatch: pytest.MonkeyPatch, change: dict[str, object]) -> None:
    card = replace(cards()["spambase"], **change)  # type: ignore[arg-type]
    monkeypatch.setattr(loading, "card_of", lambda _: card)
    monkeypatch.setattr(loading, "_kept_sets", {})  # as in a new process
    assert "damaged" in error_of(set="spambase").what


def test_a_set_that_is_not_fetched_says_how_to_fetch_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path))
    wrong = error_of(set="mnist")
    assert (wrong.key, wrong.hint) == ("data.set", "run: golfsim data fetch mnist")


def test_susy_is_read_from_the_cache_and_its_share_of_signal_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path))
    (tmp_path / "susy").mkdir()
    y = np.arange(100_000) % 100 < 46
    np.savez(tmp_path / "susy" / "susy.npz", x=np.zeros((100_000, 18), dtype=np.float32), y=y.astype(np.uint8))
    assert get(set="susy", train=100).x.shape == (100, 18)
    np.savez(tmp_path / "susy" / "susy.npz", x=np.zeros((100_000, 18), dtype=np.float32), y=(~y).astype(np.uint8))
    assert "damaged" in error_of(set="susy").what
    (tmp_path / "susy" / "susy.npz").write_bytes(b"not an archive")
    assert "damaged" in error_of(set="susy").what


def test_the_digest_follows_the_content_and_not_the_split() -> None:
    digests = [get(seed, set=name).digest for name in ("spambase", "segmentation", "adult", "a9a") for seed in (1, 2)]
    assert digests[0::2] == digests[1::2]
    assert len(set(digests)) == 4
    assert get(set="separable").digest != get(2, set="separable").digest


def test_every_card_states_the_source_of_its_set() -> None:
    assert len(cards()) >= 11
    for name, card in cards().items():
        assert card.name == name
        assert card.title
        assert card.source
        assert card.licence
        assert card.citation
        assert card.bounds_reason, name
        assert card.kind != "fetched" or card.sources, name


def test_importing_datasets_is_cheap() -> None:
    heavy = "{'pandas', 'sklearn', 'scipy', 'requests', 'pyarrow'}"
    code = f"import sys, golfsim.data.loading; print({heavy} & set(sys.modules) or '')"
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE.parents[1], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# Against independent copies


def check_file(name: str) -> Path:
    path = CHECKS / name
    if not path.exists():
        pytest.skip("no independent copy beside the project")
    return path


def test_a9a_is_bit_for_bit_the_independent_copy() -> None:
    copy = np.load(check_file("a9a.npz"), allow_pickle=False)
    raw = known_sets._read_a9a(cards()["a9a"])
    for x, y, part in ((raw.x, raw.y, "train"), (raw.test_x, raw.test_y, "test")):
        assert x is not None
        assert np.array_equal(np.packbits(x.astype(bool), axis=1), copy[f"X_{part}"])
        assert np.array_equal(np.where(y == 1, 1, -1), copy[f"y_{part}"])
        assert set(x.sum(axis=1)) == {11, 12, 13, 14}


@pytest.mark.parametrize(("name", "file"), [("spambase", "spambase.npz"), ("segmentation", "segment.npz")])
def test_bundled_arrays_equal_the_independent_copy(name: str, file: str) -> None:
    copy = np.load(check_file(file), allow_pickle=False)
    raw = known_sets._read_arrays(cards()[name])
    assert np.array_equal(raw.x, copy["X"])
    assert np.array_equal(raw.y, copy["y"])


def test_adult_equals_the_independent_copy() -> None:
    with (
        gzip.open(check_file("adult.csv.gz"), "rt") as copy,
        gzip.open(data_folder() / "adult.csv.gz", "rt") as our,
    ):
        assert our.read() == copy.read()


# A user's own file


CSV = "colour,size,kind\nred,1,b\nblue,2,a\nred,3.5,b\ngreen,4,a\n"


def write(folder: Path, name: str, content: str | bytes) -> str:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def test_a_csv_is_read_with_text_one_hot_and_classes_sorted(tmp_path: Path) -> None:
    data = get(file=write(tmp_path, "my.csv", CSV), folder=tmp_path, test=1, test_seed=0)
    assert data.name == "my"
    assert data.features == ("colour=blue", "colour=green", "colour=red", "size")
    assert data.classes == ("a", "b")
    everything = {1.0: ("red", 1), 2.0: ("blue", 0), 3.5: ("red", 1), 4.0: ("green", 0)}
    for x, y, colour in zip(data.x, data.y, data.columns["colour"], strict=True):
        assert everything[float(x[3])] == (colour, y)
        assert x[:3].tolist() == [colour == name for name in ("blue", "green", "red")]


def test_any_column_can_be_the_label(tmp_path: Path) -> None:
    data = get(file=write(tmp_path, "my.csv", CSV), folder=tmp_path, test=1, test_seed=0, label="colour")
    assert data.classes == ("blue", "green", "red")
    assert data.features == ("size", "kind=a", "kind=b")


def test_numeric_labels_are_ordered_as_numbers(tmp_path: Path) -> None:
    data = get(file=write(tmp_path, "n.csv", "x,y\n1,10\n2,9\n3,10\n4,9\n"), folder=tmp_path, test=1, test_seed=0)
    assert data.classes == ("9", "10")


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    import pandas as pd

    write(tmp_path, "my.csv", CSV)
    pd.read_csv(tmp_path / "my.csv").to_parquet(tmp_path / "my.parquet")
    one, two = (get(file=f"my.{end}", folder=tmp_path, test=1) for end in ("csv", "parquet"))
    assert np.array_equal(one.x, two.x)
    assert one.digest == two.digest


def test_svmlight_is_read_and_two_files_share_their_features(tmp_path: Path) -> None:
    write(tmp_path, "a.svm", "+1 1:0.5 3:2\n-1 2:1\n")
    write(tmp_path, "b.svm", "-1 4:7\n")
    data = get(file="a.svm", test_file="b.svm", folder=tmp_path)
    assert data.classes == ("-1", "1")
    assert rows(data.x) == rows(np.array([[0.5, 0, 2, 0], [0, 1, 0, 0]], dtype=np.float32))
    assert data.test_x.tolist() == [[0, 0, 0, 7]]
    assert data.test_y.tolist() == [0]


def test_a_test_file_is_read_with_the_columns_and_classes_of_the_training_file(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", CSV)
    write(tmp_path, "b.csv", "kind,size,colour\na,9,violet\nb,8,red\n")
    data = get(file="a.csv", test_file="b.csv", folder=tmp_path)
    assert data.test_x.tolist() == [[0, 0, 0, 9], [0, 0, 1, 8]]
    assert data.test_y.tolist() == [0, 1]
    assert len(data.y) == 4


def test_npz_with_text_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.array(["no", "yes", "no", "yes"]))
    data = get(file="a.npz", folder=tmp_path, test=1, test_seed=0)
    assert data.classes == ("no", "yes")


def odd_npz(path: Path, **arrays: object) -> None:
    np.savez(path, **{name: np.array(values) for name, values in arrays.items()})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "key", "says"),
    [
        ("gone.csv", None, "data.file", "no file"),
        ("a.xlsx", "x", "data.file", "format"),
        ("a.csv", "", "data.file", "cannot read"),
        ("a.csv", b"x,y\n\xff\xfe\x00,1\n", "data.file", "cannot read"),
        ("a.csv", "x,y\n", "data.file", "no records"),
        ("a.csv", "x;y\n1;2\n", "data.file", "column"),
        ("a.csv", "1,2\n3,4\n5,6\n", "data.file", "header"),
        ("a.csv", "x,y\n1,0\n2,0\n", "data.file", "one class"),
        ("a.csv", "x,y\n1,0\n,1\n", "data.file", "record 2"),
        ("a.csv", "x,y\n1,0\ninf,1\n", "data.file", "inf"),
        ("a.csv", "x,y\n1,0\n1e300,1\n", "data.file", "1e+300"),
        ("a.csv", "x,y\n1,0\n2,\n", "data.file", "no label"),
        ("a.csv", "x,y\n1,a\n2,\n", "data.file", "no label"),
        ("a.csv", "x,y\n1,0.5\n2,0.25\n", "data.file", "quantity"),
        ("a.csv", "x,y\nred,0\n,1\n", "data.file", "record 2"),
        ("a.csv", "x,y\n" + "".join(f"v{i},{i % 2}\n" for i in range(1001)), "data.file", "1001 different"),
        ("a.parquet", "not parquet", "data.file", "cannot read"),
        ("a.npz", "not an archive", "data.file", "cannot read"),
        ("a.svm", "one two three", "data.file", "cannot read"),
        ("a.svm", "", "data.file", "empty"),
        ("a.txt", "1 1:nan\n0 1:2\n", "data.file", "nan"),
        ("a.svm", "1 1:1\n0 2000000000:2\n", "data.file", "expands to"),
    ],
)
def test_a_bad_file_is_reported_with_its_key_and_never_a_traceback(
    tmp_path: Path, name: str, content: str | bytes | None, key: str, says: str
) -> None:
    if content is not None:
        write(tmp_path, name, content)
    wrong = error_of(file=name, folder=tmp_path, test=0.5)
    assert wrong.key == key
    assert says in wrong.what


@pytest.mark.parametrize(
    "arrays",
    [
        {"a": [1]},
        {"x": [1, 2], "y": [0, 1]},
        {"x": [[1], [2]], "y": [0, 1, 1]},
        {"x": [["a"], ["b"]], "y": [0, 1]},
        {"x": [[1], [2]], "y": [0, 1], "test_x": [[1]]},
        {"x": [[1], [2]], "y": [0, 1], "test_x": [[1, 2]], "test_y": [0]},
        {"x": [[1], [2]], "y": [0, 1], "test_x": [[1]], "test_y": [7]},
        {"x": [[1], [2]], "y": [[0], [1]]},
        {"x": [[None], [2]], "y": [0, 1]},
    ],
)
def test_an_npz_of_another_form_is_refused(tmp_path: Path, arrays: dict[str, object]) -> None:
    odd_npz(tmp_path / "a.npz", **arrays)
    assert str(error_of(file="a.npz", folder=tmp_path, test=0.5).key) in ("data.file", "data.test_file")


def test_a_pickle_inside_an_npz_is_never_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (Path(str(tmp_path / "sprung")),)  # type: ignore[return-value]

    odd_npz(tmp_path / "a.npz", x=[[Trap()]], y=[0])
    assert error_of(file="a.npz", folder=tmp_path, test=0.5).key == "data.file"
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"file": "a.csv"}, "data.test"),
        ({"file": "a.csv", "test": 1, "label": "sort"}, "data.label"),
        ({"file": "a.csv", "test": 1, "split": "as-published"}, "data.split"),
        ({"file": "a.csv", "test": 1, "scale": ("minmax",)}, "data.bounds"),
        ({"file": "a.csv", "test": 1, "scale": ("minmax",), "bounds": {"size": (0, 1)}}, "data.bounds"),
        ({"file": "a.csv", "test": 1, "scale": ("minmax",), "bounds": {"sise": (0, 1)}}, "data.bounds"),
        ({"file": "a.csv", "test": 1, "scale": ("l1", "minmax"), "bounds": (0, 1)}, "data.scale"),
        ({"file": "a.csv", "test_file": "gone.csv"}, "data.test_file"),
        ({"file": "a.csv", "test_file": "a.svm"}, "data.test_file"),
        ({"file": "a.csv", "test_file": "other.csv"}, "data.test_file"),
        ({"file": "a.csv", "test_file": "strange.csv"}, "data.test_file"),
        ({"file": "a.csv", "test_file": "text.csv"}, "data.test_file"),
        ({"file": "a.svm", "label": "y", "test": 1}, "data.label"),
    ],
)
def test_settings_that_do_not_fit_the_file_are_refused_at_their_key(
    tmp_path: Path, settings: dict[str, object], key: str
) -> None:
    write(tmp_path, "a.csv", CSV)
    write(tmp_path, "a.svm", "1 1:1\n0 1:2\n")
    write(tmp_path, "other.csv", "colour,kind\nred,a\n")
    write(tmp_path, "strange.csv", "colour,size,kind\nred,1,z\n")
    write(tmp_path, "text.csv", "colour,size,kind\nred,big,a\n")
    assert error_of(folder=tmp_path, **settings).key == key


# The bias feature


def test_a_bias_is_one_more_feature_that_is_always_one() -> None:
    plain, data = get(set="wdbc"), get(set="wdbc", scale=("bias",))
    assert data.features == (*plain.features, "1")
    assert (data.x[:, -1] == 1).all()
    assert (data.test_x[:, -1] == 1).all()
    assert np.array_equal(data.x[:, :-1], plain.x)
    assert data.x.flags.c_contiguous


def test_a_bias_counts_for_the_length_when_it_comes_before_clipping() -> None:
    data = get(set="spambase", scale=("minmax", "bias", "clip-l2"))
    np.testing.assert_allclose(np.linalg.norm(data.x, axis=1), 1, atol=1e-5)
    after = get(set="spambase", scale=("minmax", "clip-l2", "bias"))
    assert (after.x[:, -1] == 1).all()
    assert data.x[:, -1].mean() < 0.95


def test_a_bias_before_minmax_is_refused() -> None:
    error = error_of(set="spambase", scale=("bias", "minmax"), bounds="train")
    assert error.key == "data.scale"
    assert "bias after minmax" in str(error)


def test_two_biases_are_refused() -> None:
    with pytest.raises(ValidationError, match="“bias” can occur only once"):
        get(set="spambase", scale=("bias", "bias"))


# Folds


def fold(run: int, seed: int = 10, **settings: object) -> Dataset:
    return load(DataConfig.model_validate(settings), seed + run - 1, HERE, run)


def test_the_folds_of_one_shuffling_divide_the_records() -> None:
    folds = [fold(run, set="wdbc5", folds=5) for run in range(1, 6)]
    everything = get(set="wdbc5", test=1)
    assert sum(len(data.test_y) for data in folds) == 569
    assert set.union(*(rows(data.test_x) for data in folds)) == rows(everything.x) | rows(everything.test_x)
    assert {len(data.test_y) for data in folds} == {113, 114}
    for data in folds:
        assert len(data.y) + len(data.test_y) == 569
        assert not rows(data.x) & rows(data.test_x)


def test_the_next_runs_shuffle_again() -> None:
    first, sixth, again = (fold(run, set="wdbc5", folds=5) for run in (1, 6, 6))
    assert rows(first.test_x) != rows(sixth.test_x)
    assert np.array_equal(sixth.x, again.x)


def test_generated_records_stay_the_same_with_a_test_seed_and_only_the_folds_change() -> None:
    one, sixth = (fold(run, set="separable", folds=5, test_seed=3) for run in (1, 6))
    assert one.digest == sixth.digest
    assert rows(one.test_x) != rows(sixth.test_x)


def test_generated_records_without_a_test_seed_are_those_of_the_shuffling() -> None:
    one, fifth, sixth = (fold(run, set="separable", folds=5) for run in (1, 5, 6))
    assert one.digest == fifth.digest
    assert one.digest != sixth.digest


def test_folds_keep_as_many_training_records_as_are_asked_for() -> None:
    data = fold(2, set="separable", folds=5, train=1000)
    assert (len(data.y), len(data.test_y)) == (1000, 2000)


@pytest.mark.parametrize("name", ["adult", "a9a"])
def test_folds_of_a_set_with_its_own_test_records_are_refused(name: str) -> None:
    error = error_of(set=name, folds=5)
    assert error.key == "data.folds"
    assert "its own test records" in str(error)


def test_more_folds_than_records_are_refused() -> None:
    assert error_of(set="wdbc5", folds=600).key == "data.folds"


def test_folds_and_test_together_are_refused() -> None:
    with pytest.raises(ValidationError, match="“folds” and “test” both define"):
        get(set="wdbc5", folds=5, test=0.2)


def test_generated_points_are_drawn_once_for_all_runs_that_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    draw = loading.GENERATORS["separable"]
    monkeypatch.setitem(loading.GENERATORS, "separable", lambda *what: drawn.append(1) or draw(*what))
    for run in (1, 2, 6):
        fold(run, set="separable", folds=5, test_seed=987654)
    assert len(drawn) == 1
