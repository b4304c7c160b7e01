"""Export of published records: secret noise, columns, metadata."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from helpers import ALPHA, command, finished, needs_jit, simulation, tree
from scipy.stats import kstest

from golfsim.cli import export
from golfsim.core import rng
from golfsim.core.errors import UserError
from golfsim.privacy.mechanisms import Laplace
from golfsim.privacy.noise import add_laplace
from golfsim.protocol.symbols import symbols_of, vectors_of
from golfsim.scenario.model import Scenario
from golfsim.sim.simulation import Simulation

SEED, SEEDS = 4711, 10_000
PUBLISHED = {"name": "published", "use": "data_perturbation", "epsilon": 2.0}
DATA = {"set": "spambase", "train": 80, "test": 30, "scale": ["minmax", "l1"]}


def scenario(*layers, **tables):
    return tree(*(layers or (PUBLISHED,)), **({"data": DATA, "nodes": {"records": 2}, "cycles": 2} | tables))


def exported(path, what, name=None):
    """The table of an export after the first cycle, and the simulation."""
    run = simulation(what) if isinstance(what, dict) else Simulation(what)
    layer = export.prepare(run, name)
    run.step()
    export.write(run, layer, run.features, path)
    return pq.read_table(path), run


def guessed_seed(z, record):
    """The seed whose noise, subtracted from a published vector, leaves a record: equal signs, and an L1 length of 1."""
    scale = Laplace(epsilon=2.0, sensitivity=2.0).scale
    for seed in range(SEEDS):
        noise = np.zeros((1, z.size), np.float32)
        add_laplace(rng.key(seed, "published", "noise"), 0, record, 0, scale, noise, 0)
        found = z - noise[0]
        if abs(abs(found.sum()) - 1) < 1e-3 and (np.sign(found.sum()) * found > -1e-4).all():
            return seed
    return None


@needs_jit
def test_a_guessed_seed_takes_no_noise_away_from_an_export(tmp_path):
    attacked = scenario(seed=SEED)
    table, run = exported(tmp_path / "published.parquet", attacked)
    z, record = np.column_stack([table[name] for name in run.features])[0], table["record"][0].as_py()
    assert guessed_seed(finished(attacked).layer("published").z[record], record) == SEED  # the attack works
    assert guessed_seed(z, record) is None


@pytest.mark.parametrize("mode", ["per-class", "joint", "label+features", "as-coded"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_everything_random_in_an_export_comes_from_its_secret(tmp_path, mode, norm):
    data = {"set": "segmentation", "train": 20, "test": 10, "scale": ["minmax", norm], "bounds": "train"}
    what = scenario(PUBLISHED | {"mode": mode, "norm": norm}, data=data)
    (one, run), (other, _) = (exported(tmp_path / f"{i}.parquet", what) for i in range(2))
    assert one.column_names == other.column_names
    for column in one.column_names:
        same = np.asarray(one[column]) == np.asarray(other[column])
        if column in ("node", "record", "problem"):
            assert same.all()
        elif column == "label":
            assert same.all() == (mode == "as-coded")  # then it is published as it is
        else:
            assert not same.any()
    plain = finished(what).layer("published").z
    assert not (np.column_stack([one[name] for name in run.features]) == plain).any()


@pytest.mark.parametrize("channel", ["response", "unary"])
def test_symbols_are_exported_as_they_are_published(tmp_path, channel):
    layer = PUBLISHED | {"mode": "sampled", "samples": 2, "channel": channel}
    table, run = exported(tmp_path / "published.parquet", scenario(layer))
    x, records = run.layer("published").rows.x, run.raw.rows.label.size
    assert table.num_rows == 2 * records
    assert np.asarray(table["sample"]).tolist() == [0, 1] * records
    found, _ = symbols_of(x, np.arange(records))
    symbols = table["symbols"].to_pylist()
    assert [s for report in symbols for s in report] == found.tolist()
    features, classes = x.shape[1], 2
    first = np.full(classes * features, np.asarray(table["low"])[0])
    for report in symbols[:2]:
        first[report] += np.asarray(table["gain"])[0] / 2
    blocks = first.reshape(classes, features)
    assert vectors_of(x, 1, np.array([0]))[0, 0] == pytest.approx(blocks[1] - blocks[0], rel=1e-5)
    assert json.loads(table.schema.metadata[b"golfsim.symbols"])["features"] == features
    plain = symbols_of(finished(scenario(layer)).layer("published").rows.x, np.arange(records))[0]
    assert plain.tolist() != found.tolist()  # the draws of the seed are not those of the export


@needs_jit
def test_the_noise_of_an_export_has_the_scale_of_its_guarantee(tmp_path):
    table, run = exported(tmp_path / "published.parquet", scenario(data=DATA | {"train": 400}))
    z = np.column_stack([table[name] for name in run.features])
    rows = run.raw.rows
    noise = z - np.where(rows.label[:, None] == 1, 1, -1) * rows.x
    assert kstest(noise.ravel() / Laplace(epsilon=2.0, sensitivity=2.0).scale, "laplace").pvalue > ALPHA


def test_an_export_has_the_guarantee_and_neither_seed_nor_secret_nor_raw_labels(tmp_path, monkeypatch):
    secret = bytes(range(100, 132))
    monkeypatch.setattr(export.chacha, "new_secret", lambda: secret)
    path = tmp_path / "published.parquet"
    table, run = exported(path, scenario())
    layer = run.layer("published")
    assert table.num_rows == len(layer.z)
    assert table.schema.metadata[b"golfsim.guarantee"].decode() == str(layer.guarantee())
    assert not any(b"seed" in name or b"scenario" in name for name in table.schema.metadata)
    assert "label" not in table.column_names
    assert (np.column_stack([table[name] for name in run.features]) == layer.z).all()
    content = path.read_bytes()
    assert not any(part in content for part in (secret, secret.hex().encode(), secret[:8]))


def test_a_run_whose_noise_follows_from_the_seed_is_not_written(tmp_path):
    run = finished(scenario())
    with pytest.raises(UserError, match="follows from the seed"):
        export.write(run, run.layer("published"), run.features, tmp_path / "published.parquet")
    assert not list(tmp_path.iterdir())


OWN = """
import numpy as np
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.base import Layer, LayerConfig
from golfsim.core.rng import uniform
from golfsim.protocol.records import Published, Records, Rows
from typing import Any


class Settings(LayerConfig):
    records: Layer[Records[Any]]
    purpose: str = "own"


class Own(Published[Settings]):
    Config = Settings
    secret = frozenset({"own"})

    def setup(self, world):
        rows = self.config.records.rows
        noise = uniform(self.key(self.config.purpose), np.arange(rows.label.size, dtype=np.int32))
        self.z = (rows.x + 1000 * noise[:, None]).astype(np.float32)

    @property
    def rows(self):
        rows = self.config.records.rows
        return Rows(self.z, rows.label, rows.first, rows.stop, False)

    @property
    def classes(self):
        return 2

    def guarantee(self):
        return Guarantee(1.0)
"""


def test_a_users_publishing_layer_is_exported_only_if_its_noise_is_declared_secret(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    layer = {"name": "mine", "use": "own.py:Own", "records": "raw"}
    one, other = (
        exported(tmp_path / f"{i}.parquet", Scenario.of(scenario(layer), tmp_path))[0].to_pandas() for i in range(2)
    )
    features = one.columns.difference(["node", "record", "label"])
    assert not (one[features] == other[features]).any(axis=None)
    undeclared = Scenario.of(scenario(layer | {"purpose": "another"}), tmp_path)
    with pytest.raises(UserError, match="mine: the noise of “mine” follows from the seed"):
        exported(tmp_path / "refused.parquet", undeclared)


def test_features_named_like_columns_of_the_export_overwrite_none(tmp_path, capsys, monkeypatch):
    names = ["node", "record", "problem", "label", "feature_node", "x"]
    numbers = np.random.default_rng(1).random((40, 6))
    frame = pd.DataFrame(numbers / numbers.sum(axis=1, keepdims=True), columns=names).assign(y=[0, 1] * 20)
    frame.to_csv(tmp_path / "own.csv", index=False)
    (tmp_path / "s.toml").write_text(
        'name = "own"\nseed = 1\ncycles = 1\n[data]\nfile = "own.csv"\nlabel = "y"\ntest = 0.2\nscale = ["l1"]\n'
        '[nodes]\nrecords = 2\n[[protocol]]\nname = "published"\nuse = "data_perturbation"\nepsilon = inf\n'
    )
    out = tmp_path / "published.parquet"
    code, _, told = command(capsys, monkeypatch, "export-published", tmp_path / "s.toml", "--out", out)
    assert code == 0, told
    assert "feature “node” is column “feature_feature_node”" in told
    table = pq.read_table(out)
    columns = ["feature_feature_node", "feature_record", "feature_problem", "feature_label", "feature_node", "x"]
    assert table.column_names == ["node", "record", "problem", *columns]
    assert json.loads(table.schema.metadata[b"golfsim.features"]) == dict(zip(columns, names, strict=True))
    run = Simulation(Scenario.load(tmp_path / "s.toml"))
    assert np.asarray(table["record"]).tolist() == list(range(table.num_rows))
    assert sorted(set(np.asarray(table["node"]).tolist())) == list(range(run.world.nodes))
    assert np.abs(np.column_stack([table[name] for name in columns])) == pytest.approx(run.raw.rows.x)


def test_two_features_of_one_name_have_two_columns():
    assert export.column_names(["a", "a", "feature_a"]) == ["a", "feature_feature_a", "feature_a"]


def test_an_export_says_that_it_cannot_be_repeated(capsys, monkeypatch):
    _, told, _ = command(capsys, monkeypatch, "export-published", "--help")
    assert "cannot be repeated" in " ".join(told.split())
    assert "spends ε again" in " ".join(told.split())
