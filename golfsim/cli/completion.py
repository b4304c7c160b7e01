"""Completion of words in the shell. Nothing heavy is imported, since it must answer at once."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from golfsim.cli import manual
from golfsim.core.errors import UserError
from golfsim.core.metrics import SUMMARY
from golfsim.core.paths import scenario_file, shipped, shipped_scenarios, unreadable
from golfsim.core.tables import flat

TOPICS = ("protocols", "datasets", "learners", "churn", "splits", "sizes", "settings", "scenarios", "metrics")
FIGURES = (
    "convergence",
    "heatmap",
    "lines",
    "bars",
    "privacy-utility",
    "learning-curve",
    "differences",
    "errors",
    "messages",
    "online",
    "overlay",
    "spent",
    "spent-by-record",
    "degrees",
    "confusion",
    "roc",
    "time-to-accuracy",
    "time-to-target",
)  # fmt: skip - of `golfsim plot`
FORMATS, WIDTHS = ("png", "svg", "pdf"), ("column", "page")
CONFIGURATIONS = (".txt", ".cfg", ".conf", ".config", ".properties")  # of files that `golfsim import` reads
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


def configurations(incomplete: str) -> list[str]:
    """Return files of other simulators and folders below the working folder."""
    folder = incomplete[: incomplete.rfind("/") + 1]
    found = list(Path(folder or ".").glob("*")) if Path(folder or ".").is_dir() else []
    own = [f"{folder}{path.name}" for path in found if path.suffix in CONFIGURATIONS and path.is_file()]
    below = [f"{folder}{path.name}/" for path in found if path.is_dir() and not path.name.startswith(".")]
    return _beginning(incomplete, [*own, *below])


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


USUAL = {"cycles": "", "runs": "1", "seed": ""}  # keys of every scenario, with their defaults


def settings(ctx: Any, incomplete: str) -> list[str]:
    """Return the keys of the scenario that is typed before, with their values: “cycles=1000”."""
    known = {key: _value(value) for name in _typed(ctx, "file")[:1] for key, value in flat(_tree(name))}
    own = {key: value for key, value in known.items() if value is not None}
    return _beginning(incomplete, [f"{key}={value}" for key, value in (USUAL | own).items()])


def _typed(ctx: Any, *names: str) -> list[str]:
    """Return the values of some arguments; the words without a place if an option is not complete yet."""
    given = next((value for name in names if (value := ctx.params.get(name))), None) or ctx.args
    return [str(given)] if isinstance(given, str | Path) else [str(word) for word in given]


def _tree(name: str) -> dict[str, Any]:
    """Return the content of a scenario file; empty if it cannot be read."""
    with suppress(OSError, ValueError, RecursionError, UserError):
        file = scenario_file(name)
        return {} if unreadable(file) else tomllib.loads(file.read_text(encoding="utf-8"))
    return {}


def _value(value: Any) -> str | None:
    """Return a value as --set reads it; None for lists, tables and times."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | str) else None


def metrics(ctx: Any, incomplete: str) -> list[str]:
    """Return the metrics in the results that are typed before; a mean has the short name.

    Standard deviations and quantiles are offered once a dot is typed.
    """
    names = {name for folder in _typed(ctx, "results", "folder") for name in _logged(Path(folder))}
    short = {name.removesuffix(".mean") for name in names if name.rpartition(".")[2] not in SUMMARY[1:]}
    return _beginning(incomplete, names | short if "." in incomplete else short)


def _logged(folder: Path) -> set[str]:
    """Return the metrics of one run in a folder of results; empty if none can be read."""
    from pyarrow import parquet

    with suppress(OSError, ValueError, StopIteration, KeyError):
        log = parquet.read_table(next(folder.rglob("log.parquet")), columns=["metric"])["metric"]
        return set(log.unique().to_pylist())
    return set()


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


def pages(incomplete: str) -> list[str]:
    """Return the pages of the manual."""
    return _beginning(incomplete, manual.pages())


_NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "protocols": lambda: {point.name for point in metadata.entry_points(group="golfsim.protocols")},
    "datasets": lambda: (path.stem for path in shipped("data").glob("*.toml")),
    "scenarios": shipped_scenarios,
}
