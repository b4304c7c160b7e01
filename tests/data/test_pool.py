"""The scaling step that adds groups of features."""

from pathlib import Path

import numpy as np
import pytest

from golfsim.core.errors import UserError
from golfsim.data import loading, scaling
from golfsim.data.config import DataConfig
from golfsim.data.files import Unscaled

HERE = Path(__file__).parent


def image(rng, side, n=5):
    """Pixels of square images."""
    names = tuple(f"pixel {r},{c}" for r in range(side) for c in range(side))
    return Unscaled(rng.random((n, side * side)), np.zeros(n, np.int32), names, ("0", "1"))


def tuples(value):
    """Lists as tuples, as settings have them once a file is read."""
    if isinstance(value, dict):
        return {key: tuples(each) for key, each in value.items()}
    return tuple(value) if isinstance(value, list) else value


def config(**keys):
    return DataConfig(set="random", **tuples({"scale": ["pool"]} | keys))


def pooled(raw, **keys):
    made = config(**keys)
    steps = scaling.scaling_steps(made, None, raw, np.arange(len(raw.y)))
    return scaling.scale_rows(raw.x, np.arange(len(raw.y)), steps), scaling.names(made, raw.features)


@pytest.mark.parametrize(("side", "size"), [(4, 2), (6, 3), (8, 4), (2, 2)])
def test_blocks_of_pixels_are_added_row_by_row(rng, side, size):
    raw = image(rng, side)
    x, names = pooled(raw, pool=size)
    across = side // size
    assert names == tuple(f"block {r},{c}" for r in range(across) for c in range(across))
    for place, (r, c) in enumerate((r, c) for r in range(across) for c in range(across)):
        square = raw.x.reshape(-1, side, side)[:, r * size : (r + 1) * size, c * size : (c + 1) * size]
        assert x[:, place] == pytest.approx(square.sum(axis=(1, 2)))
    assert np.abs(x).sum(axis=1) == pytest.approx(np.abs(raw.x).sum(axis=1))


def test_groups_of_named_features_are_added(rng):
    raw = Unscaled(rng.random((5, 3)), np.zeros(5, np.int32), ("a", "b", "c"), ("0", "1"))
    x, names = pooled(raw, pool={"ends": ["c", "a"], "middle": ["b"]}, scale=["pool", "l1", "bias"])
    expected = np.column_stack([raw.x[:, 0] + raw.x[:, 2], raw.x[:, 1]])
    assert x == pytest.approx(np.column_stack([expected / expected.sum(axis=1, keepdims=True), np.ones(5)]))
    assert names == ("ends", "middle", "1")


def test_the_groups_depend_on_the_settings_only(rng):
    one, other = image(rng, 4), image(rng, 4)
    for raw in (one, other):
        (step,) = scaling.scaling_steps(config(pool=2), None, raw, np.arange(5))
        assert step.args[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


@pytest.mark.parametrize(
    ("keys", "what", "hint"),
    [
        ({"pool": 3}, "16 features are not a square image whose sides are divisible by 3", "2, 4"),
        ({"pool": {"all": ["pixel 0,0", "pixel 9,9"]}}, "no feature “pixel 9,9”", "pixel"),
        ({"pool": {"all": ["pixel 0,0"]}}, "“pixel 0,1” is in no group", "every feature"),
    ],
)
def test_impossible_groups_are_refused_with_what_to_do(rng, keys, what, hint):
    with pytest.raises(UserError, match=what) as caught:
        pooled(image(rng, 4), **keys)
    assert caught.value.key == "data.pool"
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"scale": ["minmax"], "pool": 2}, "both “pool” in scale"),
        ({"scale": ["pool"]}, "both “pool” in scale"),
        ({"scale": ["pool", "pool"], "pool": 2}, "only once"),
        ({"scale": ["bias", "pool"], "pool": 2}, "bias after pool"),
        ({"pool": {"a": ["x"], "b": ["x"]}}, "“x” is in two groups"),
        ({"pool": 1}, "greater than or equal to 2"),
    ],
)
def test_impossible_settings_are_refused(keys, what):
    with pytest.raises(ValueError, match=what):
        config(**keys)


@pytest.mark.parametrize(
    ("scale", "span"),
    [
        (["minmax", "pool", "l1"], (0.0, 1.0)),
        (["minmax", "pool"], (0.0, 4.0)),
        (["minmax", "l1", "pool"], (0.0, 4.0)),
        (["pool", "l2"], (-1.0, 1.0)),
        (["pool"], None),
    ],
)
def test_the_range_of_pooled_features_is_known_without_records(rng, scale, span):
    assert scaling.span(config(scale=scale, pool=2)) == span


def test_a_loaded_set_is_pooled_and_its_width_is_forecast():
    plain = loading.load(DataConfig(set="random", train=20, test=10), 1, HERE)
    groups = {"both": list(plain.features)}
    made = config(train=20, test=10, scale=["minmax", "pool", "bias"], pool=groups)
    found = loading.load(made, 1, HERE)
    assert found.features == ("both", "1")
    assert found.x.shape == (20, 2)
    assert scaling.width(made, len(plain.features)) == 2
    assert scaling.width(config(pool=2), 16) == 4
