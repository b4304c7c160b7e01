"""Pack the results of a scenario with everything that a repetition needs into one zip file.

Records, checkpoints and caches are never packed: only files of the kinds below are copied.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path

from golfsim._version import __version__
from golfsim.core.errors import UserError
from golfsim.core.files import write_whole
from golfsim.core.provenance import BEHIND_A_ROW, code_version, digest_of
from golfsim.runs import results
from golfsim.runs.logs import about
from golfsim.runs.store import Entry, Store
from golfsim.share import crate, lock, readme
from golfsim.share.experiment import Asked, Experiment, find
from golfsim.share.exported import FIGURES, PAGE, shared_page
from golfsim.sim.log import ABOUT, LOG, SCENARIO
from golfsim.sim.tables import FILES

FIRST = (1980, 1, 1, 0, 0, 0)  # the time of all files in the zip: the earliest that it can store
PACKED = {LOG, SCENARIO, *FILES.values()}  # of each run, with `run.json`
OF_REPOSITORY = {"CITATION.cff": ("CITATION.cff",), "LICENSE": ("LICENSE", "LICENSE.md", "LICENSE.txt", "COPYING")}


@dataclass(frozen=True)
class Terms:
    """Who made the results, under which licence, and a wheel of golfsim to include."""

    authors: tuple[str, ...] = ()
    licence: str | None = None
    wheel: Path | None = None


def write(asked: Asked, out: Path, terms: Terms) -> int:
    """Write the zip file and return the number of its files. The same content gives the same bytes."""
    if terms.licence is not None and not re.fullmatch(r"[A-Za-z0-9.+-]+", terms.licence):
        raise UserError(f"--license: expected an SPDX identifier, e.g. CC-BY-4.0; got “{terms.licence}”")
    experiment = find(asked)
    with tempfile.TemporaryDirectory() as aside:
        stage = Path(aside)
        _stage(experiment, stage, terms)
        files = sorted(path for path in stage.rglob("*") if path.is_file())
        write_whole(out, lambda path: _zip(path, stage, files))
    return len(files)


def _zip(out: Path, stage: Path, files: list[Path]) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.relative_to(stage).as_posix(), FIRST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())


def _stage(experiment: Experiment, stage: Path, terms: Terms) -> None:
    """Write all files of the pack to an empty folder."""
    for path, source in experiment.files.items():
        _copy(source, stage / experiment.place(path))
    _results(experiment, stage / "results")
    found = results.find([stage / "results"])
    (stage / PAGE).write_text(shared_page(found, stage, "results"), encoding="utf-8")
    packages = _packages(experiment, found)
    (stage / "requirements.lock").write_text(lock.text(packages), encoding="utf-8")
    if terms.wheel is not None:
        _check_wheel(terms.wheel)
        _copy(terms.wheel, stage / "wheels" / terms.wheel.name)
    parts = _parts(experiment, terms)
    content = readme.Content(experiment, found, packages, parts, _bytes(stage), terms.wheel is not None)
    _of_repository(experiment, "CITATION.cff", stage, lambda: crate.citation(content, terms.authors, terms.licence))
    _of_repository(experiment, "LICENSE", stage, lambda: crate.licence_note(content, terms.licence))
    (stage / "README.md").write_text(readme.text(content), encoding="utf-8")
    sizes = {path.relative_to(stage).as_posix(): path.stat().st_size for path in stage.rglob("*") if path.is_file()}
    text = crate.ro_crate(content, sizes, terms.authors, terms.licence)
    (stage / crate.METADATA).write_text(text, encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _results(experiment: Experiment, target: Path) -> None:
    """Copy logs, scenarios and figures; write `run.json` with paths of the pack, and an index of these runs only."""
    folder = experiment.asked.results
    entries = []
    for hash_, entry in sorted(experiment.entries.items()):
        known = about(folder / entry.folder)
        for name in PACKED & known["sha256"].keys():
            _copy(folder / entry.folder / name, target / entry.folder / name)
        known["scenario_file"] = experiment.place_of_scenario
        known["code_files"] = [experiment.place(path) for path in experiment.files if path.suffix == ".py"]
        text = json.dumps(known, indent=2, ensure_ascii=False) + "\n"
        (target / entry.folder / ABOUT).write_text(text, encoding="utf-8")
        entries.append(Entry(hash_, entry.folder, entry.status, entry.error, entry.cycles))
    for figure in folder.glob("*"):
        if figure.suffix in FIGURES and figure.is_file():
            _copy(figure, target / figure.name)
    store = Store(target)
    store.record(entries)
    store.ask_for(Path(experiment.scenario.file).name, list(experiment.runs))


def _packages(experiment: Experiment, found: results.Results) -> dict[str, Distribution]:
    protocols = {str(table["use"]) for scenario in experiment.scenarios for table in scenario.protocol}
    code = [file for path, file in experiment.files.items() if path.suffix == ".py"]
    packages = lock.packages(sorted(protocols), code)
    lock.check(packages, (run.about for run in found.runs))
    return packages


def _parts(experiment: Experiment, terms: Terms) -> list[tuple[str, str]]:
    own = "the scenario, and the files that it names" if len(experiment.files) > 1 else "the scenario"
    return [
        (experiment.place_of_scenario, own),
        ("results/", "logs (`log.parquet`), the scenario of each run with explicit defaults, `run.json` and figures"),
        (PAGE, "figures, tables, guarantees and provenance; opens in a browser"),
        ("requirements.lock", "the packages with their versions"),
        *([(f"wheels/{terms.wheel.name}", "golfsim itself")] if terms.wheel else []),
        ("CITATION.cff", "how to cite"),
        ("LICENSE", "licences"),
        (crate.METADATA, "a description of all files (RO-Crate 1.1)"),
    ]


def _of_repository(experiment: Experiment, name: str, stage: Path, otherwise: Callable[[], str]) -> None:
    """Copy a file of the user's repository, or write one."""
    for folder in _repository(experiment.folder):
        for spelling in OF_REPOSITORY[name]:
            if (folder / spelling).is_file():
                return _copy(folder / spelling, stage / name)
    (stage / name).write_text(otherwise(), encoding="utf-8")
    return None


def _repository(folder: Path) -> list[Path]:
    """Return the folder of the scenario and, in a git repository, those above it up to the root of the repository."""
    above = [folder, *folder.parents]
    root = next((number for number, path in enumerate(above) if (path / ".git").exists()), 0)
    return above[: root + 1]


def _check_wheel(wheel: Path) -> None:
    """Refuse a wheel that is not the golfsim that made the runs."""
    if not wheel.is_file() or not wheel.name.startswith(f"golfsim-{__version__}-") or not zipfile.is_zipfile(wheel):
        raise UserError(f"--wheel {wheel}: expected a wheel of golfsim {__version__}", hint="pip wheel --no-deps")
    with tempfile.TemporaryDirectory() as aside, zipfile.ZipFile(wheel) as archive:
        archive.extractall(aside, [name for name in archive.namelist() if name.endswith(".py")])
        folders = [*(Path(aside, "golfsim", name) for name in BEHIND_A_ROW), Path(aside, "protocols")]
        digest = digest_of(path for folder in folders for path in sorted(folder.rglob("*.py")))
    if f"{__version__} {digest}" != code_version():
        raise UserError(f"--wheel {wheel}: its sources differ from those of this golfsim", hint="build it again")
