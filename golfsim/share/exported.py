"""What an experiment tracker receives: settings, metrics per cycle, guarantees, figures and the page.

Neither records nor states of nodes are part of it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from golfsim.core.errors import UserError
from golfsim.runs import results
from golfsim.runs.logs import frame_of
from golfsim.sim.log import SCENARIO, note_of

FIGURES = (".png", ".svg", ".pdf")
PAGE = "report.html"
MADE = ("setup_s", "cycles_s")  # the parts of the time of a run
SUMMARY = "all runs"  # the name of what belongs to the group
QUIET = {  # environment variables, unless the user has set them: no telemetry, and few attempts to connect
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "WANDB_ERROR_REPORTING": "false",
}


class Sent(NamedTuple):
    """The number of runs that an export has added, and of runs that were in the tracker before."""

    new: int
    known: int


def imported(name: str, extra: str) -> Any:
    """Import a module of a tracker, with its telemetry switched off."""
    for key, value in QUIET.items():
        os.environ.setdefault(key, value)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        what = f"the packages of golfsim[{extra}] are not installed: {error}"
        raise UserError(what, hint=f'pip install "golfsim[{extra}]"', docs="reports") from None


@dataclass(frozen=True)
class Exported:
    """One run as a tracker receives it."""

    run: results.Run

    @property
    def hash(self) -> str:
        """The hash of the content of the run."""
        return str(self.run.about["hash"])

    @property
    def name(self) -> str:
        """The values of its point, and its number."""
        point = [f"{key} = {value}" for key, value in self.run.point.items()]
        return ", ".join([*point, f"run {self.run.about.get('run', 1)}"])

    @property
    def key(self) -> str:
        """What identifies it in a tracker: its hash and its name, since two points can have equal runs."""
        return hashlib.sha256(f"{self.hash} {self.name}".encode()).hexdigest()

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of its scenario by path, with the values of its point, its number and its seed."""
        own = {key: self.run.about[key] for key in ("run", "seed") if key in self.run.about}
        return self.run.keys | self.run.point | own

    @cached_property
    def tags(self) -> dict[str, str]:
        """Where the run comes from, and the guarantee of each layer."""
        about = self.run.about
        origin = {
            key: str(about[key]) for key in ("hash", "code", "status", "data_sha256", "written") if about.get(key)
        }
        version = {"version": str(about.get("versions", {}).get("golfsim", ""))}
        promises = {f"guarantee.{layer}": str(text) for layer, text in about.get("guarantees", {}).items()}
        note = {"note": note_of(self._frame)} if note_of(self._frame) else {}
        return {f"golfsim.{key}": value for key, value in (version | origin | promises | note).items()}

    @cached_property
    def _frame(self) -> Any:
        return frame_of([self.run.piece])

    def metrics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield each observed cycle with its finite values, named by layer and metric."""
        frame = self._frame[np.isfinite(self._frame["value"])]
        names = frame["layer"].astype(str) + "/" + frame["metric"].astype(str)
        for cycle, rows in frame.assign(name=names).groupby("cycle", sort=True):
            yield int(cycle), dict(zip(rows["name"], rows["value"].astype(float), strict=True))

    @property
    def scenario(self) -> Path:
        """The file of its scenario with explicit defaults."""
        return self.run.piece.file.parent / SCENARIO

    @property
    def times(self) -> tuple[float, float]:
        """When it began and when its results were written, in seconds of Unix time."""
        end = time.time()
        with suppress(ValueError):
            end = datetime.strptime(str(self.run.about.get("written")), "%Y-%m-%dT%H:%M:%S%z").timestamp()
        return end - seconds_of(self.run), end


def seconds_of(run: results.Run) -> float:
    """Return how long a run took."""
    return float(sum(value for key, value in run.about.get("times", {}).items() if key in MADE))


@dataclass(frozen=True)
class Group:
    """All complete runs of a folder of results, with the figures and the page about them."""

    name: str
    folder: Path
    runs: tuple[Exported, ...]

    @property
    def hash(self) -> str:
        """A hash of all its runs."""
        return hashlib.sha256("".join(sorted(run.hash for run in self.runs)).encode()).hexdigest()

    @property
    def figures(self) -> list[Path]:
        """The figures that `golfsim run` has drawn."""
        return sorted(path for path in self.folder.glob("*") if path.suffix in FIGURES and path.is_file())

    def page(self) -> str:
        """Return the page about the runs as HTML."""
        place = self.folder.resolve()
        return shared_page(results.find([place]), place.parent, place.name)

    @contextmanager
    def files(self) -> Iterator[list[Path]]:
        """Write the page to a temporary folder; return it with the figures."""
        with tempfile.TemporaryDirectory() as aside:
            page = Path(aside) / PAGE
            page.write_text(self.page(), encoding="utf-8")
            yield [*self.figures, page]


def shared_page(found: results.Results, parent: Path, name: str) -> str:
    """Return the page about results in parent/name as HTML; this path is shortened to the name, also in commands."""
    from golfsim.report import page

    return page.html(replace(found, paths=(Path(name),)), out=Path(PAGE)).replace(f"{parent}/", "")


def of(folder: Path, name: str | None = None) -> Group:
    """Return the complete runs of a folder as trackers receive them; the default name is that of the folder."""
    found: dict[tuple[str, str], Exported] = {}
    for run in results.find([folder]).runs:
        if "hash" not in run.about:
            what = f"{run.piece.file.parent}: run.json is missing or damaged"
            raise UserError(what, hint="golfsim run with the same scenario repeats this run", docs="reports")
        found.setdefault((run.about["hash"], str(run.point)), Exported(run))
    return Group(name or folder.resolve().name, folder, tuple(found.values()))
