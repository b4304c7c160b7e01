"""Completion of words in the shell. Nothing heavy is imported, since it must answer at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

from golfsim.cli import manual
from golfsim.core.paths import shipped, shipped_scenarios

TOPICS = ("protocols", "datasets", "learners", "churn", "splits", "sizes", "settings", "scenarios", "metrics")
FIGURES = (
    "convergence",
    "heatmap",
    "lines",
    "bars",
    "privacy-utility",
    "learning-curve",
    "messages",
    "online",
    "overlay",
    "spent",
    "degrees",
    "confusion",
    "roc",
    "time-to-accuracy",
)  # fmt: skip - of `golfsim plot`
FORMATS, WIDTHS = ("png", "svg", "pdf"), ("column", "page")
METRICS = (
    "accuracy",
    "age",
    "auc",
    "bytes.sent",
    "clustering",
    "components",
    "degree",
    "error",
    "f1",
    "indegree",
    "label.linear",
    "links.dead",
    "membership.advantage",
    "messages.lost",
    "messages.sent",
    "online",
    "path_length",
    "spent.max",
    "spent.mean",
    "voted_error",
)  # fmt: skip - frequent ones; those of a protocol are known only after it is loaded
KINDS = ("plain", "overlay", "learner")  # of protocols that `golfsim new` writes; the first is the default


SPECIAL = re.compile(r"[^\w./+,@%=:~-]")  # characters that a shell may interpret


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    shown = (_quoted(word) for word in words)
    return sorted(word for word in shown if word and word.startswith(incomplete))


def _quoted(word: str) -> str | None:
    """Return a word as the shell has to read it: a file name must never be executed. None: leave it out.

    bash inserts the word as it is, so special characters get a backslash. For other shells such words are left out.
    """
    if not SPECIAL.search(word):
        return word
    if os.environ.get("_GOLFSIM_COMPLETE") == "complete_bash" and word.isprintable():
        return SPECIAL.sub(lambda found: f"\\{found[0]}", word)
    return None


def files(incomplete: str) -> list[str]:
    """Return scenario files and folders below the working folder, and the scenarios shipped with golfsim."""
    folder = incomplete[: incomplete.rfind("/") + 1]
    found = list(Path(folder or ".").glob("*")) if Path(folder or ".").is_dir() else []
    own = [f"{folder}{path.name}" for path in found if path.suffix == ".toml" and path.is_file()]
    below = [f"{folder}{path.name}/" for path in found if path.is_dir() and not path.name.startswith(".")]
    return _beginning(incomplete, [*own, *below, *(() if folder else shipped_scenarios())])


def topics(incomplete: str) -> list[str]:
    """Return the topics of `golfsim list`."""
    return _beginning(incomplete, TOPICS)


def named(topic: str | None, incomplete: str) -> list[str]:
    """Return the names within a topic that are known without loading anything."""
    names = _NAMES.get(topic or "", lambda: ())
    return _beginning(incomplete, names())


def sets(incomplete: str) -> list[str]:
    """Return the data sets that have a card."""
    return named("datasets", incomplete)


def kinds(incomplete: str) -> list[str]:
    """Return the kinds of protocols that `golfsim new` writes."""
    return _beginning(incomplete, KINDS)


def figures(incomplete: str) -> list[str]:
    """Return the kinds of figures that `golfsim plot` draws."""
    return _beginning(incomplete, FIGURES)


def formats(incomplete: str) -> list[str]:
    """Return the formats of figures."""
    return _beginning(incomplete, FORMATS)


def widths(incomplete: str) -> list[str]:
    """Return the widths of figures."""
    return _beginning(incomplete, WIDTHS)


def metrics(incomplete: str) -> list[str]:
    """Return the most frequent metrics."""
    return _beginning(incomplete, METRICS)


def pages(incomplete: str) -> list[str]:
    """Return the pages of the manual."""
    return _beginning(incomplete, manual.pages())


_NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "protocols": lambda: {point.name for point in metadata.entry_points(group="golfsim.protocols")},
    "datasets": lambda: (path.stem for path in shipped("data").glob("*.toml")),
    "scenarios": shipped_scenarios,
}
