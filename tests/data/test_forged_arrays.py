"""Forged .npz files: every reader refuses them in a message."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from golfsim.core.errors import UserError
from golfsim.data import graphs, known_sets
from golfsim.data.cards import cards
from golfsim.data.config import DataConfig
from golfsim.data.loading import load

NODES = 6
LABELS = np.arange(NODES) % 2


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def header(shape, kind="'<f8'"):
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


FORGED = {
    "text without a header": b"no array",
    "nothing": b"",
    "half a header": b"\x93NUMPY\x01\x00\x05\x00{'''",
    "another version": b"\x93NUMPY\x09\x00" + bytes(100),
    "objects": npy(np.array([{}, None] * 3, dtype=object)),
    "records": npy(np.zeros(NODES, [("a", "f8"), ("b", "U1")])),
    "characters beyond Unicode": header((NODES,), "'<U1'") + b"\xff" * 4 * NODES,
    "half characters": header((NODES,), "'>U1'") + b"\x00\x00\xd8\x00\x00\x00\x00a" * 3,
    "ten terabytes": header((10**13,)),
    "a size beyond integers": header((2**70,)),
    "a negative size": header((-1,)),
    "numbers of no size": header((10**12,), "'|V0'"),
    "too short": npy(np.zeros(NODES))[:-9],
    "four dimensions": npy(np.zeros((NODES, 1, 1, 1))),
    "negative numbers": npy(np.array([-1, 0] * 3)),
    "numbers above the last class": npy(np.arange(NODES) + 2**40),
    "not a number": npy(np.full(NODES, np.nan)),
}


def packed(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def read_own_file(folder: Path) -> None:
    load(DataConfig(file="d.npz"), 1, folder)


def read_graph(folder: Path) -> None:
    try:
        graphs.read_adjacency(folder / "d.npz", NODES)
    except ValueError as error:  # the layer adds its key
        raise UserError(str(error)) from None


def read_susy(folder: Path) -> None:
    card = cards()["susy"]
    details = card.details | {"positive_share": (0, 1)}
    files = [dict(card.files[0]) | {"name": "d.npz"}]
    known_sets.read_card(replace(card, records=NODES, files=files, details=details))  # type: ignore[arg-type]


RECORDS = npy(np.random.default_rng(1).random((NODES, 18)))
OWN = {"x": RECORDS, "y": npy(LABELS), "test_x": RECORDS, "test_y": npy(LABELS)}
RING = {
    "format": npy(np.array("csr")),
    "shape": npy(np.array([NODES, NODES])),
    "indptr": npy(np.arange(NODES + 1)),
    "indices": npy((np.arange(NODES) + 1) % NODES),
}
READERS = {
    "own file": (read_own_file, OWN),
    "graph": (read_graph, RING),
    "susy": (read_susy, {"x": RECORDS, "y": npy(LABELS)}),
}
FINE = {("own file", "y", "negative numbers"), ("own file", "y", "numbers above the last class")}  # names of classes
CASES = [(reader, name, forgery) for reader in READERS for name in READERS[reader][1] for forgery in FORGED]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(known_sets, "_fetched", lambda _: tmp_path)  # as if it had the right checksum
    return tmp_path


@pytest.mark.parametrize("reader", READERS)
def test_what_is_forged_here_is_read_before(folder: Path, reader: str) -> None:
    read, members = READERS[reader]
    packed(folder / "d.npz", members)
    read(folder)


@pytest.mark.parametrize(("reader", "member", "forgery"), [case for case in CASES if case not in FINE])
def test_a_forged_array_is_refused_in_a_message(folder: Path, reader: str, member: str, forgery: str) -> None:
    read, members = READERS[reader]
    packed(folder / "d.npz", members | {member: FORGED[forgery]})
    with pytest.raises(UserError):
        read(folder)


@pytest.mark.parametrize("content", [b"", b"no archive", npy(LABELS), npy(np.array([None]))], ids=len)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_no_archive_is_refused_without_advice_to_trust_it(
    folder: Path, reader: str, content: bytes
) -> None:
    (folder / "d.npz").write_bytes(content)
    with pytest.raises(UserError) as caught:
        READERS[reader][0](folder)
    assert "pickle" not in str(caught.value)
