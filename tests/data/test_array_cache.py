"""Arrays that workers map into memory are those that were stored, or are not used."""

import os
import shutil
import time

import numpy as np
import pytest
from helpers import HERE, learning_tree, needs_jit

from golfsim.core.files import UNUSED_DAYS
from golfsim.data import array_cache, loading
from golfsim.data.files import Unscaled
from golfsim.runs import batch
from golfsim.scenario.model import Scenario

LEARNING = (
    {"name": "peers", "use": "uniform"},
    {"name": "learning", "use": "golf", "peers": "peers", "records": "raw", "learner": "pegasos"},
)


@pytest.fixture
def raw():
    x = np.arange(24.0).reshape(8, 3)
    y = np.array([0, 1] * 4, dtype=np.int32)
    return Unscaled(x, y, ("a", "b", "c"), ("no", "yes"), columns={"town": np.array(["x", "y"] * 4)})


def change_label(place):
    labels = np.load(place / "y.npy")
    labels[0] = 1 - labels[0]
    np.save(place / "y.npy", labels)


def change_name(place):
    names = place / "names.json"
    names.write_text(names.read_text().replace('"yes"', '"YES"'))


def flip_a_bit(place):
    content = bytearray((place / "x.npy").read_bytes())
    content[-5] ^= 1
    (place / "x.npy").write_bytes(content)


def header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


DAMAGES = {
    "a label": change_label,
    "a class": change_name,
    "a bit": flip_a_bit,
    "no labels": lambda place: (place / "y.npy").unlink(),
    "no column": lambda place: (place / "column-0.npy").unlink(),
    "no names": lambda place: (place / "names.json").unlink(),
    "cut": lambda place: os.truncate(place / "x.npy", 150),
    "empty": lambda place: os.truncate(place / "x.npy", 0),
    "no JSON": lambda place: (place / "names.json").write_bytes(b"\xff{"),
    "another JSON": lambda place: (place / "names.json").write_text("[1]"),
    "deep JSON": lambda place: (place / "names.json").write_text("[" * 100_000),
    "half a header": lambda place: (place / "x.npy").write_bytes(header("{'descr': '<f8', 'fortran_order': ")),
    "a size beyond integers": lambda place: (place / "x.npy").write_bytes(
        header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**70},)}}")
    ),
    "an archive": lambda place: (place / "x.npy").write_bytes(b"PK\x05\x06" + bytes(18)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_arrays_are_refused_and_recreated(raw, tmp_path, damage):
    place = array_cache.stored(raw, tmp_path)
    assert (array_cache.mapped(place).y == raw.y).all()
    damage(place)
    with pytest.raises(array_cache.Damaged, match=r"the arrays in .* (differ from their checksum|cannot be read)"):
        array_cache.mapped(place)
    with pytest.warns(UserWarning, match=r"the arrays in .*; they are recreated"):
        assert array_cache.stored(raw, tmp_path) == place
    assert (array_cache.mapped(place).x == raw.x).all()
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


def test_arrays_that_are_right_are_not_written_again(raw, tmp_path):
    place = array_cache.stored(raw, tmp_path)
    before = (place / "x.npy").stat()
    assert array_cache.stored(raw, tmp_path) == place
    assert (place / "x.npy").stat().st_ino == before.st_ino


def test_arrays_that_nobody_uses_are_deleted(raw, tmp_path):
    old, used = tmp_path / "old", tmp_path / "used"
    for folder, days in ((old, UNUSED_DAYS + 1), (used, UNUSED_DAYS - 1)):
        folder.mkdir()
        os.utime(folder, (time.time() - days * 86400,) * 2)
    array_cache.stored(raw, tmp_path)
    assert not old.exists()
    assert used.exists()


def test_a_process_reads_the_source_if_the_arrays_of_another_process_are_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "cache"))
    config = Scenario.of(learning_tree(*LEARNING, data={"set": "spambase"}, nodes={"records": 1})).data
    shared = loading.share([config], HERE)
    (place,) = shared.values()
    change_label(place)
    monkeypatch.setattr(loading, "shared", shared)
    monkeypatch.setattr(loading, "_kept_sets", {})
    with pytest.warns(UserWarning, match="the set is read from its source"):
        raw = loading._read(loading.card_of("spambase"), config, HERE)
    assert raw.digest() == place.name


@needs_jit
@pytest.mark.slow
def test_changed_labels_in_the_cache_change_no_row(tmp_path, monkeypatch):
    """Two workers gave other rows than one, under the same hash."""
    kernels = loading.private("kernels")  # compiled before: compiling is not what is tested here
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    shutil.copytree(kernels, tmp_path / "cache/kernels")
    table = learning_tree(*LEARNING, data={"set": "spambase"}, nodes={"number": 60, "leave_out": True}, runs=2)
    scenario = Scenario.of(table)
    batch.run(scenario, tmp_path / "one", batch.Execution(workers=2))
    (place,) = (tmp_path / "cache/arrays").iterdir()
    labels = np.load(place / "y.npy")
    np.save(place / "y.npy", 1 - labels)
    with pytest.warns(UserWarning, match="they are recreated"):
        made = batch.run(scenario, tmp_path / "two", batch.Execution(workers=2))
    assert not made.failures
    one, two = ({f.parent.name: f.read_bytes() for f in (tmp_path / n).rglob("log.parquet")} for n in ("one", "two"))
    assert len(one) == 2
    assert one == two
