"""A run interrupted and resumed."""

import hashlib
import io
import struct
import zipfile

import numpy as np
import pytest
from helpers import AVERAGING, assert_same_state, finished, learning_tree, make_world, simulation, tree

from golfsim.core.errors import UserError
from golfsim.core.state import Stateful
from golfsim.sim import checkpoint
from golfsim.testing import rows

PEERS = {"name": "peers", "use": "uniform"}
LEARNING = {"name": "learning", "use": "golf", "peers": "peers", "records": "raw", "variant": "mu", "cache": 2}
CHURN = [{"kind": "rate", "leave": 0.2, "rejoin": 0.4}, {"kind": "lognormal", "online": 0.8, "mu": 1.0, "sigma": 1.0}]


def whole_tree(**tables):
    """Everything that has a state: churn, mail in transit, a learner with a cache."""
    how = {"churn": CHURN, "transport": {"loss": 0.1, "delay": [1, 5]}, "order": "shuffled"}
    return learning_tree(PEERS, LEARNING, cycles=12, **(how | tables))


def saved(path, scenario_tree=None, cycles=5):
    run = simulation(scenario_tree or whole_tree())
    for _ in range(cycles):
        run.step()
    checkpoint.save(run, path)
    return run


@pytest.mark.parametrize("at", [1, 5, 11])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupted_run_ends_as_an_uninterrupted_one(tmp_path, at, threads):
    path = tmp_path / "state"
    half = saved(path, cycles=at)
    resumed = simulation(whole_tree(), threads=threads)
    checkpoint.load(resumed, path)
    assert_same_state(resumed, half)
    assert (resumed.world.order == half.world.order).all()
    assert list(resumed) == list(range(at + 1, 13))
    whole = finished(whole_tree())
    assert rows(resumed) == rows(whole)
    assert_same_state(resumed, whole)
    assert resumed.log.frame().equals(whole.log.frame())


def test_saving_changes_nothing(tmp_path):
    run = simulation(whole_tree())
    for _ in run:
        checkpoint.save(run, tmp_path / "state")
    whole = finished(whole_tree())
    assert rows(run) == rows(whole)
    assert_same_state(run, whole)


def test_a_finished_run_stays_finished(tmp_path):
    path = tmp_path / "state"
    whole = finished(whole_tree())
    checkpoint.save(whole, path)
    resumed = simulation(whole_tree())
    checkpoint.load(resumed, path)
    assert list(resumed) == []
    assert rows(resumed) == rows(whole)


def test_a_value_that_is_not_a_number_survives(tmp_path):
    run = saved(tmp_path / "state")
    run.log.add(5, {"peers": {"odd": float("nan"), "endless": float("inf"), "tiny": 5e-324}})
    checkpoint.save(run, tmp_path / "state")
    resumed = simulation(whole_tree())
    checkpoint.load(resumed, tmp_path / "state")
    assert rows(resumed) == rows(run)


def test_a_checkpoint_is_written_completely_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "state"
    run = saved(path)
    before = path.read_bytes()
    run.step()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(run, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("where", [0.0, 0.0001, 0.002, 0.5, 0.999])
def test_a_single_damaged_byte_is_noticed(tmp_path, where):
    path = tmp_path / "state"
    saved(path)
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"state: (damaged|not a checkpoint)"):
        checkpoint.load(simulation(whole_tree()), path)


@pytest.mark.parametrize("digit", [b"0", b"f"])
def test_a_checksum_that_is_too_small_or_too_large_is_wrong(tmp_path, digit):
    path = tmp_path / "state"
    saved(path)
    head, content = len(checkpoint.MAGIC), path.read_bytes()
    path.write_bytes(content[:head] + digit * checkpoint.DIGEST + content[head + checkpoint.DIGEST :])
    with pytest.raises(UserError, match="state: damaged: the checksum is wrong"):
        checkpoint.load(simulation(whole_tree()), path)


@pytest.mark.parametrize("keep", [0, 10, 21, 60, 85, 500, -1])
def test_a_truncated_file_is_refused(tmp_path, keep):
    path = tmp_path / "state"
    saved(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"state: (damaged|not a checkpoint)"):
        checkpoint.load(simulation(whole_tree()), path)


def test_a_missing_file_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match=r"state: No such file or directory$"):
        checkpoint.load(simulation(whole_tree()), tmp_path / "state")


@pytest.mark.parametrize(
    ("other", "how", "differing"),
    [
        (whole_tree(seed=2), {}, "seed"),
        (whole_tree(), {"run": 2}, "seed"),
        (whole_tree(transport={"loss": 0.2, "delay": [1, 5]}), {}, "scenario"),
        (whole_tree(churn=CHURN[:1]), {}, "scenario"),
        (whole_tree(data={"set": "random", "train": 80, "test": 30, "scale": ["minmax"], "test_seed": 9}), {}, "data"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, other, how, differing):
    path = tmp_path / "state"
    saved(path)
    with pytest.raises(UserError, match=f"another run:.*{differing}"):
        checkpoint.load(simulation(other, **how), path)


def test_a_refused_checkpoint_leaves_the_run_as_it_was(tmp_path):
    saved(tmp_path / "state")
    other = simulation(whole_tree(seed=2))
    with pytest.raises(UserError):
        checkpoint.load(other, tmp_path / "state")
    for _ in other:
        pass
    assert rows(other) == rows(finished(whole_tree(seed=2)))


def test_the_state_of_another_shape_is_refused_with_its_name():
    run = simulation(tree(PEERS, AVERAGING))
    run.step()
    arrays = run.state()
    arrays["layer.averaging/value"] = arrays["layer.averaging/value"][:-1]
    with pytest.raises(ValueError, match=r"Averaging\.value: expected float64\[30\], found float64\[29\]"):
        run.restore(arrays)
    del arrays["layer.averaging/value"]
    with pytest.raises(ValueError, match="found nothing"):
        run.restore(arrays)


def test_a_checkpoint_has_no_pickle(tmp_path, monkeypatch):
    path = tmp_path / "state"
    saved(path)
    payload = path.read_bytes()[len(checkpoint.MAGIC) + checkpoint.DIGEST :]
    with np.load(io.BytesIO(payload), allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)

    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("pickle.loads", refuse)
    checkpoint.load(simulation(whole_tree()), path)


def test_an_array_of_objects_cannot_be_saved(tmp_path):
    run = simulation(tree(PEERS, AVERAGING))
    run.step()
    run.layer("averaging").odd = np.array([{}, []], dtype=object)
    with pytest.raises(ValueError, match="allow_pickle"):
        checkpoint.save(run, tmp_path / "state")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, "text", None, {1}, (1, 2), lambda: 0])
def test_a_public_attribute_that_is_no_state_is_a_type_error_that_says_what_to_do(value):
    class Part(Stateful):
        def __init__(self):
            self.wrong = value

    with pytest.raises(TypeError, match=r"Part\.wrong is a .*begin the name with “_”"):
        Part().state()


def test_state_is_public_arrays_numbers_and_parts():
    class Part(Stateful):
        def __init__(self, fill):
            self.array = np.full(3, fill, np.float32)
            self._hidden = [fill]

    class Owner(Stateful):
        def __init__(self, fill):
            self.count, self.share, self.flag, self.word = fill, fill / 2, bool(fill), np.int32(fill)
            self.part = Part(fill)

    one, other = Owner(5), Owner(0)
    array = other.part.array
    assert set(one.state()) == {"count", "share", "flag", "word", "part/array"}
    other.restore({name: value.copy() for name, value in one.state().items()})
    assert (other.count, other.share, other.flag, other.word) == (5, 2.5, True, 5)
    assert [type(v) for v in (other.count, other.share, other.flag)] == [int, float, bool]
    assert other.part.array is array
    assert array.tolist() == [5, 5, 5]
    assert other.part._hidden == [0]


# Files with a right checksum that golfsim has not written


def members_of(path):
    """The packed files of a checkpoint, by name."""
    with zipfile.ZipFile(path) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def packed(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def text(content):
    return npy(np.frombuffer(content.encode(), np.uint8))


def longer_than_its_data(numbers):
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({numbers},), }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head


def with_fields(body, **fields):
    """The same archive with other numbers in the entry of its last member, in both places where they are stored."""
    places = {"flags": (8, 6, "<H"), "method": (10, 8, "<H"), "packed": (20, 18, "<L"), "unpacked": (24, 22, "<L")}
    changed, entry = bytearray(body), body.rindex(b"PK\x01\x02")
    (member,) = struct.unpack_from("<L", body, entry + 42)
    for name, value in fields.items():
        in_entry, in_member, form = places[name]
        struct.pack_into(form, changed, entry + in_entry, value)
        struct.pack_into(form, changed, member + in_member, value)
    return bytes(changed)


VALUE = "state/layer.averaging/value.npy"
FORGED = {
    "no archive": lambda members: b"nothing of this kind" * 9,
    "an archive after something else": lambda members: npy(np.zeros(3)) + packed(members),
    "no description": lambda members: packed({name: c for name, c in members.items() if name != "about.npy"}),
    "a description that is no JSON": lambda members: packed(members | {"about.npy": text("{")}),
    "a description that is a number": lambda members: packed(members | {"about.npy": text("5")}),
    "a description of great depth": lambda members: packed(members | {"about.npy": text("[" * 100_000)}),
    "a state that is no array": lambda members: packed(members | {VALUE: b"text"}),
    "a state of another shape": lambda members: packed(members | {VALUE: npy(np.zeros(3))}),
    "a log that is no JSON": lambda members: packed(members | {"state/log.npy": text("{")}),
    "a log of great depth": lambda members: packed(members | {"state/log.npy": text("[" * 100_000)}),
    "a log that is a list": lambda members: packed(members | {"state/log.npy": text("[1]")}),
    "a log without cycles": lambda members: packed(members | {"state/log.npy": text("{}")}),
    "an unknown compression": lambda members: with_fields(packed(members), method=1),
    "encryption": lambda members: with_fields(packed(members), flags=1),
    "no compression where some is stated": lambda members: with_fields(
        packed(members | {"zzz": b"\xff" * 50}), method=8
    ),
    "more numbers than any memory": lambda members: packed(members | {VALUE: longer_than_its_data(10**15)}),
    "more numbers than a machine counts": lambda members: packed(members | {VALUE: longer_than_its_data(10**30)}),
    "more numbers than the file": lambda members: with_fields(
        packed(members | {"zzz.npy": longer_than_its_data(10**5)}), packed=800_128, unpacked=800_128
    ),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_checkpoint_that_golfsim_has_not_written_is_refused_with_its_name(tmp_path, forge):
    path = tmp_path / "state"
    saved(path, tree(PEERS, AVERAGING), 2)
    body = forge(members_of(path))
    path.write_bytes(checkpoint.MAGIC + hashlib.sha256(body).hexdigest().encode() + body)
    with pytest.raises(UserError, match=r"state: (damaged|the checkpoint does not match)"):
        checkpoint.load(simulation(tree(PEERS, AVERAGING)), path)


def test_an_error_of_the_system_without_a_number_is_reported_with_its_text(tmp_path):
    path = tmp_path / "state"
    saved(path, tree(PEERS, AVERAGING), 2)
    body = with_fields(packed(members_of(path) | {"zzz": b"no such compression"}), method=zipfile.ZIP_BZIP2)
    path.write_bytes(checkpoint.MAGIC + hashlib.sha256(body).hexdigest().encode() + body)
    with pytest.raises(UserError, match="state: Invalid data stream"):
        checkpoint.load(simulation(tree(PEERS, AVERAGING)), path)


def test_an_array_of_objects_is_not_loaded(tmp_path):
    path = tmp_path / "state"
    saved(path, tree(PEERS, AVERAGING), 2)
    objects = io.BytesIO()
    np.save(objects, np.array([{}, []], object), allow_pickle=True)
    body = packed(members_of(path) | {"state/objects.npy": objects.getvalue()})
    path.write_bytes(checkpoint.MAGIC + hashlib.sha256(body).hexdigest().encode() + body)
    with pytest.raises(UserError, match="state: damaged: Object arrays cannot be loaded"):
        checkpoint.load(simulation(tree(PEERS, AVERAGING)), path)


def test_a_checkpoint_is_loaded_if_it_just_fits_into_memory(tmp_path, monkeypatch):
    path = tmp_path / "state"
    half = saved(path)
    size = sum(map(len, members_of(path).values()))
    monkeypatch.setattr(checkpoint, "available", lambda: size - 1)
    with pytest.raises(UserError, match=r"state: needs .* of memory; .* are available"):
        checkpoint.load(simulation(whole_tree()), path)
    monkeypatch.setattr(checkpoint, "available", lambda: size)
    resumed = simulation(whole_tree())
    checkpoint.load(resumed, path)
    assert_same_state(resumed, half)


# The checkpoints in the folder of a run


def kept(folder, *cycles):
    """The state of a run at these cycles, each written as a checkpoint into the folder."""
    run, states = simulation(whole_tree()), {}
    for cycle in run:
        if cycle in cycles:
            checkpoint.keep(run, folder)
            states[cycle] = {name: array.copy() for name, array in run.state().items()}
    return states


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def assert_state(run, expected):
    found = run.state()
    assert found.keys() == expected.keys()
    for name, array in found.items():
        assert array.tobytes() == expected[name].tobytes(), name


def test_the_two_newest_checkpoints_are_kept_in_a_folder_that_is_created(tmp_path):
    folder = tmp_path / "results" / "run-1"
    kept(folder, 2, 3, 9, 10)
    assert names(folder) == ["checkpoint-000000000009", "checkpoint-000000000010"]


def test_a_run_is_resumed_at_its_newest_checkpoint(tmp_path):
    states = kept(tmp_path, 9, 10)
    run, notes = checkpoint.resumed(lambda: simulation(whole_tree()), tmp_path)
    assert notes == ["resumed after cycle 10"]
    assert_state(run, states[10])


@pytest.mark.parametrize("damage", [lambda content: b"", lambda content: content[:-1]])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_used(tmp_path, damage):
    states = kept(tmp_path, 4, 5)
    newest = tmp_path / "checkpoint-000000000005"
    newest.write_bytes(damage(newest.read_bytes()))
    run, (first, second) = checkpoint.resumed(lambda: simulation(whole_tree()), tmp_path)
    assert first.startswith(f"{newest}: ")
    assert first.endswith("; this checkpoint is ignored")
    assert second == "resumed after cycle 4"
    assert_state(run, states[4])


@pytest.mark.parametrize("contents", [[], ["checkpoint-000000000003"], ["checkpoint-000000000003", "checkpoint-2"]])
def test_a_run_without_a_usable_checkpoint_begins_at_its_beginning(tmp_path, contents):
    for name in contents:
        (tmp_path / name).write_bytes(b"no checkpoint")
    run, notes = checkpoint.resumed(lambda: simulation(whole_tree()), tmp_path)
    assert len(notes) == len(contents)
    assert_state(run, simulation(whole_tree()).state())


def test_nothing_of_a_checkpoint_that_is_ignored_half_way_remains(tmp_path):
    kept(tmp_path, 5)
    (path,) = tmp_path.iterdir()
    body = packed({name: c for name, c in members_of(path).items() if name != "state/finished.npy"})  # restored last
    path.write_bytes(checkpoint.MAGIC + hashlib.sha256(body).hexdigest().encode() + body)
    run, (note,) = checkpoint.resumed(lambda: simulation(whole_tree()), tmp_path)
    assert "does not match this scenario" in note
    assert_state(run, simulation(whole_tree()).state())


def test_the_checkpoints_of_a_complete_run_are_deleted_and_nothing_else(tmp_path):
    kept(tmp_path, 1, 2)
    for name in (
        ".checkpoint-000000000003.x.part",
        ".log.parquet.x.part",
        ".part of a user",
        "log.parquet",
        "about-checkpoint-1",
    ):
        (tmp_path / name).write_bytes(b"content")
    checkpoint.forget(tmp_path)
    assert names(tmp_path) == [".part of a user", "about-checkpoint-1", "log.parquet"]


def test_the_worlds_state_is_what_the_next_cycle_depends_on():
    assert set(make_world(3).state()) == {
        "cycle",
        "online",
        "seen",
        "since",
        "last_came",
        "restarts",
        "transport/counts",
    }
