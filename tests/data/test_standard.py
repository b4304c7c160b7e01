"""Features of mean 0 and variance 1, and the format of files whose extension says nothing."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from golfsim.core.errors import UserError
from golfsim.data import files, public, scaling
from golfsim.data.config import DataConfig
from golfsim.data.files import Unscaled


def steps(x, train, **keys):
    config = DataConfig(file="a.csv", **keys)
    raw = Unscaled(x, np.zeros(len(x), np.int32), tuple(f"f{i}" for i in range(x.shape[1])), ("0", "1"))
    return scaling.scaling_steps(config, None, raw, train)


def test_standard_features_are_those_of_scikit_learn(rng):
    x = rng.normal(3, 5, size=(9000, 4))  # more than one chunk
    train = rng.permutation(9000)[:7000]
    found = scaling.scaled(x, steps(x, train, scale=("standard",)))
    assert found == pytest.approx(StandardScaler().fit(x[train]).transform(x), rel=1e-5, abs=1e-5)


def test_a_constant_feature_becomes_zero_although_its_mean_is_rounded():
    x = np.full((5000, 1), 0.1)
    assert not scaling.scaled(x, steps(x, np.arange(5000), scale=("standard",))).any()


def test_the_range_of_standard_features_is_not_known_until_records_get_a_length():
    spans = {
        ("standard",): None, ("standard", "l2"): (-1.0, 1.0), ("minmax", "standard"): None,
        ("standard", "bias"): None, ("minmax",): (0.0, 1.0),
    }  # fmt: skip
    assert {scale: scaling.span(DataConfig(file="a.csv", scale=scale)) for scale in spans} == spans


def test_the_bias_is_not_scaled():
    with pytest.raises(UserError, match="standard would set the bias to 0"):
        steps(np.ones((3, 1)), np.arange(3), scale=("bias", "standard"))


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({}, "the training set's means and variances, which were read from the private records and are not accounted "
         "for (“minmax” with public bounds reads none)"),
        ({"bounds": "train", "scale": ("minmax", "standard")},
         "the training set's min-max bounds and the training set's means and variances, which were read from the "
         "private records and are not accounted for (if they are public, state data.bounds)"),
    ],
)  # fmt: skip
def test_a_guarantee_says_that_means_were_read_from_the_records(keys, text):
    config = DataConfig(**({"set": "spambase", "scale": ("standard",)} | keys))
    assert public.caveat(config, ()) == text


@pytest.mark.parametrize("name", ["records", "records.data", "records.txt"])
@pytest.mark.parametrize(("form", "text"), [("csv", "a,b,y\n1,2,x\n3,4,z\n"), ("svmlight", "1 1:2 2:3\n0 1:4\n")])
def test_a_stated_format_counts_and_not_the_extension(tmp_path, name, form, text):
    (tmp_path / name).write_text(text)
    found = files.read(DataConfig(file=name, format=form), tmp_path)
    assert found.x.shape == (2, 2)
    tested = files.read(DataConfig(file=name, test_file=name, format=form), tmp_path)
    assert tested.test_x.shape == (2, 2)


def test_without_a_format_an_unknown_extension_is_refused(tmp_path):
    (tmp_path / "records.data").write_text("a,y\n1,2\n")
    with pytest.raises(UserError, match=r"records\.data has an unknown format") as caught:
        files.read(DataConfig(file="records.data"), tmp_path)
    assert "state it in data.format: csv, parquet, npz, svmlight" in caught.value.hint
    with pytest.raises(ValueError, match="format: requires file"):
        DataConfig(set="spambase", format="csv")
