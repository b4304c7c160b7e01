"""Find the scenario that made the runs of a folder, and the files that a repetition needs."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError
from golfsim.core.paths import INDEX, scenario_file, text_of
from golfsim.core.provenance import code_version
from golfsim.runs import status
from golfsim.runs.logs import about
from golfsim.runs.store import Entry, Planned, Store, plan
from golfsim.scenario import sweep
from golfsim.scenario.model import Scenario
from golfsim.sim.log import LOG


@dataclass(frozen=True)
class Asked:
    """What the user names: results, and how their scenario is loaded if `run.json` does not suffice."""

    results: Path
    scenario: Path | None = None
    changes: tuple[str, ...] = ()  # as after --set
    allow_code: bool = False


@dataclass(frozen=True)
class Experiment:
    """Complete and undamaged runs, and the scenario that makes exactly these runs."""

    asked: Asked
    scenario: Scenario
    runs: tuple[Planned, ...]
    entries: dict[str, Entry]  # by hash

    @property
    def scenarios(self) -> list[Scenario]:
        """The scenarios of all points."""
        return list({run.point.folder: run.point.scenario for run in self.runs}.values())

    @property
    def folder(self) -> Path:
        """The folder of the scenario file."""
        return Path(os.path.abspath(self.scenario.folder))

    @cached_property
    def data(self) -> list[Path]:
        """The user's own files with records, which are never packed."""
        tables = [scenario.data for scenario in self.scenarios if scenario.data is not None]
        names = [name for table in tables for name in (table.file, table.test_file) if name is not None]
        return [self._path(name) for name in dict.fromkeys(names)]

    @cached_property
    def files(self) -> dict[Path, Path]:
        """Traces, graphs, and code of the user, by the path that the scenario names: files without records."""
        found = {Path(os.path.abspath(self.scenario.file)): Path(self.scenario.file)}
        for scenario in self.scenarios:
            found |= {path: path for name in scenario.files() if (path := self._path(name)) not in self.data}
            for use in (str(table["use"]) for table in scenario.protocol):
                if ":" in use:
                    found |= _with_imports(self._path(use.rpartition(":")[0]))
        return found

    def _path(self, name: str) -> Path:
        """Return the path of a file that the scenario names; in another place only a relative path can be found."""
        if Path(name).is_absolute():
            what = f"the scenario names {name}, an absolute path that does not exist on other machines"
            raise UserError(what, hint="store the file next to the scenario, and name it by a relative path")
        return Path(os.path.abspath(self.folder / name))

    @cached_property
    def base(self) -> Path:
        """The deepest folder that contains the scenario and all files that it names."""
        return Path(os.path.commonpath([self.folder, *(path.parent for path in (*self.files, *self.data))]))

    def place(self, path: Path) -> str:
        """Return the path of a file of the scenario in the pack."""
        return (Path("scenario") / path.relative_to(self.base)).as_posix()

    @property
    def place_of_scenario(self) -> str:
        """The path of the scenario file in the pack."""
        return self.place(Path(os.path.abspath(self.scenario.file)))

    @property
    def outside(self) -> bool:
        """Whether code is outside the folder of the scenario, so that --allow-code is needed."""
        folder = self.folder.resolve()
        return any(not file.is_relative_to(folder) for scenario in self.scenarios for file in scenario.code_files())


def _with_imports(file: Path) -> dict[Path, Path]:
    """Return a protocol file and the Python files next to it, which it may import; the hash of a run covers them."""
    real = file.resolve()
    return {file: real} | {file.parent / other.name: other for other in real.parent.glob("*.py")}


def find(asked: Asked) -> Experiment:
    """Return the experiment of a folder of results; refuse incomplete, damaged or changed runs."""
    _verify(asked.results)
    scenario = _scenario(asked)
    runs = tuple(plan(sweep.points(scenario)))
    entries = Store(asked.results).whole(list(runs))
    missing = {run.hash for run in runs} - entries.keys()
    if missing:
        raise _other_scenario(asked, scenario, len(missing), len({run.hash for run in runs}))
    return Experiment(asked, scenario, runs, entries)


def _verify(folder: Path) -> None:
    found = status.of(folder, verify=True)
    roots = [file.parent for file in sorted(folder.rglob(INDEX))]
    if roots != [folder]:
        names = ", ".join(str(root) for root in roots[:5])
        raise UserError(f"{folder} is not one folder of results but contains {names}", hint="pack each separately")
    if {state for state, number in found["runs"].items() if number} != {"complete"}:
        raise UserError(status.text(folder, found), hint="only complete and undamaged results are packed")
    for _, _, entry in Store(folder).planned():
        if entry and not (folder / entry.folder).resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{folder}: its index names a run outside of it: {entry.folder}")
        if entry and LOG not in about(folder / entry.folder).get("sha256", {}):
            what = f"{folder / entry.folder}: run.json has no checksum of {LOG}"
            raise UserError(what, hint="golfsim run --force with the same scenario repeats this run")


def _scenario(asked: Asked) -> Scenario:
    if asked.scenario is not None:
        return Scenario.load(asked.scenario, asked.changes, allow_code=asked.allow_code)
    entries = [entry for _, _, entry in Store(asked.results).planned() if entry is not None]
    named = dict.fromkeys(str(about(asked.results / entry.folder).get("scenario_file", "")) for entry in entries)
    file = scenario_file(next(iter(named), ""))
    resolved = asked.results / entries[0].folder / "scenario.toml"
    if len(named) != 1 or not file.is_file():
        why = "these runs name several scenario files" if len(named) > 1 else f"there is no scenario file {file}"
        raise UserError(why, hint=f"name it, e.g. --scenario {resolved}")
    if _names_code(file):
        what = f"{file} names protocol files, and loading them executes them"
        raise UserError(what, hint=f"if you trust them, use --scenario {file}", docs="safety")
    return Scenario.load(file, asked.changes)


def _names_code(file: Path) -> bool:
    with suppress(OSError, ValueError):
        return any(":" in use for use in _uses(tomllib.loads(text_of(file))))
    return False


def _uses(tree: Any, key: str = "") -> Iterator[str]:
    """Yield all texts in a scenario that name protocols, also in cases and sweeps."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from _uses(value, name)
    elif isinstance(tree, list):
        for value in tree:
            yield from _uses(value, key)
    elif isinstance(tree, str) and key.split(".")[-1] == "use":
        yield tree


def _other_scenario(asked: Asked, scenario: Scenario, missing: int, total: int) -> UserError:
    folder = next(entry.folder for _, _, entry in Store(asked.results).planned() if entry is not None)
    made = about(asked.results / folder).get("code")
    if made != code_version():
        what = f"the runs in {asked.results} were made by golfsim {made}; this is golfsim {code_version()}"
        return UserError(what, hint="install that version, or run the scenario again with this one")
    return UserError(
        f"{scenario.file} does not make the runs in {asked.results}: different runs: {missing} of {total}",
        hint="repeat the --set options of the run, or name the file with --scenario; "
        "if the scenario, the data or a file that it names has changed, run it again",
    )
