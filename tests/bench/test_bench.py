"""What `golfsim bench` measures, and that asv finds all of it; how fast anything is, no test says."""

import importlib.util
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from golfsim import bench
from golfsim.bench import bare, gossip, start, strategies, timing
from golfsim.protocol.symbols import symbols_of

FIGURES = Path(__file__).parents[2] / "benchmarks" / "tracked" / "figures.py"
SMALL = (40, 60)


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setattr(gossip, "SIZES", SMALL)
    monkeypatch.setattr(gossip, "SETTLED", 2)
    monkeypatch.setattr(gossip, "AVERAGED", 40)
    monkeypatch.setattr(gossip, "OVERLAID", 40)
    monkeypatch.setattr(start, "MANY", 600)
    monkeypatch.setattr(timing, "SECONDS_A_CASE", 0.0)
    monkeypatch.setattr(timing, "FEWEST_TRIES", 1)


def tracked():
    """The classes that asv looks at, and the names by which it finds their methods."""
    spec = importlib.util.spec_from_file_location("figures", FIGURES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [kind for kind in vars(module).values() if isinstance(kind, type) and hasattr(kind, "section")]
    return {kind: [name for name in dir(kind) if name.startswith("track_")] for kind in found}


def test_asv_keeps_something_of_every_section():
    found = tracked()
    assert {kind.section for kind in found} == set(bench.SECTIONS)
    assert all(found.values())


@pytest.mark.needs_jit
@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    "section",
    [
        "protocols",
        "faults",
        "averages",
        "messages",
        "overlays",
        "observing",
        pytest.param("large", marks=pytest.mark.long),
    ],
)
def test_every_figure_that_asv_keeps_is_among_those_measured(section):
    rows = [{"section": section} | row for row in bench.measure([section])]
    kinds = {kind: names for kind, names in tracked().items() if kind.section == section}
    assert kinds
    for kind, names in kinds.items():
        given = getattr(kind, "params", ())
        params = given if not given or isinstance(given[0], list | tuple) else (given,)
        for name, values in itertools.product(names, itertools.product(*params)):
            value = getattr(kind(), name)(rows, *values)
            assert value >= 0
            assert math.isfinite(value)


@pytest.mark.needs_jit
@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(("epsilon", "named"), [(10.0, 1), (1.0, 2109)])
def test_symbols_are_published_through_the_channels_that_the_figures_name(epsilon, named, monkeypatch):
    layers = []
    sampled = importlib.import_module("protocols.data_perturbation.sampled")
    original = sampled.sampled
    monkeypatch.setattr(sampled, "sampled", lambda **keys: layers.append(original(**keys)) or layers[-1])
    row = strategies.published_symbols(epsilon)
    assert row["name"] == f"published symbols, ε = {epsilon:g}"
    assert row["symbols/s"] > 0
    _, ends = symbols_of(layers[0].x, np.arange(2000))
    assert (np.diff(ends, prepend=0) == named).all()


@pytest.mark.needs_jit
def test_bare_golf_is_the_mean_of_the_own_model_and_the_updated_one():
    rng = np.random.default_rng(1)
    x, sign = rng.random((6, 3), np.float32), np.array([1, -1, 1, 1, -1, -1], np.float32)
    w, age, peer = rng.random((6, 3), np.float32), np.arange(6, dtype=np.int32), np.empty(6, np.int32)
    models, ages = w.astype(float), age.tolist()
    bare.golf_cycle(w, age, x, sign, peer, 1, 0.1)
    assert (peer != np.arange(6)).all()
    for i, j in enumerate(peer):
        t = ages[i] + 1
        step = sign[j] / (0.1 * t) if sign[j] * (models[i] @ x[j]) < 1 else 0.0
        models[j] = (models[j] + (1 - 1 / t) * models[i] + step * x[j]) / 2
        ages[j] = max(ages[j], t)
    np.testing.assert_allclose(w, models, rtol=1e-4)
    assert age.tolist() == ages


@pytest.mark.needs_jit
def test_random_rows_are_read_and_written_once_for_each_row_there_is():
    rows = np.zeros((50, 3))
    bare.change_rows(rows, 1)
    assert rows.sum() == 150
    assert (rows[:, 0] == rows[:, 2]).all()
    assert np.unique(rows[:, 0]).size > 2
