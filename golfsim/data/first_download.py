"""Record the checksums of files whose source publishes none, so that later downloads are compared with the first.

The record is a text file that `sha256sum --check` reads. It lies outside the folder of the data set, so that it remains
when the set is deleted and downloaded again.
"""

from __future__ import annotations

from pathlib import Path

from golfsim.core.files import checksum, write_whole
from golfsim.core.paths import private, user_cache
from golfsim.data.cards import Card


def record_of(card: Card) -> Path:
    """Return the file with the recorded checksums of a set; it may not exist yet."""
    return user_cache() / "checksums" / f"{card.name}.sha256"


def recorded(card: Card) -> dict[str, str]:
    """Return the recorded checksums of a set by the name of the file."""
    record = record_of(card)
    lines = record.read_text(encoding="utf-8", errors="replace").splitlines() if record.is_file() else []
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines) if name}


def record(card: Card, folder: Path) -> None:
    """Record the checksums of those files in `folder` for which the card has none, unless a record exists."""
    names = unpublished(card)
    if names and not record_of(card).is_file():
        private("checksums")
        text = "".join(f"{checksum(folder / name)}  {name}\n" for name in names)
        write_whole(record_of(card), lambda path: path.write_text(text, encoding="utf-8"))


def unpublished(card: Card) -> list[str]:
    """Return the names of the files for which the card has no checksum."""
    return [str(file["name"]) for file in card.files if "sha256" not in file]


def notes(card: Card) -> list[str]:
    """Return a sentence for each file that was compared only with its first download."""
    known = recorded(card)
    return [
        f"no checksum of {name} is published; the one of this download, sha256 {known.get(name)}, "
        f"is recorded in {record_of(card)} and verified from now on"
        for name in unpublished(card)
    ]
