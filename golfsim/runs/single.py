"""A single run, from the checked scenario to the written log."""

from __future__ import annotations

import math
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golfsim.core.errors import IndexOutOfRange, UserError, nearest
from golfsim.core.files import write_whole
from golfsim.core.kernels import USERS, when_compiling
from golfsim.core.paths import not_text
from golfsim.core.provenance import about_this_machine, code_version
from golfsim.privacy.accounting import AtDelta, spent
from golfsim.privacy.mechanisms import Guarantee
from golfsim.protocol.checking import random_uses
from golfsim.protocol.learner import Learner
from golfsim.protocol.records import Records
from golfsim.runs import sensitive
from golfsim.runs.interrupt import Interrupt, listening
from golfsim.runs.progress import COMPILING, Silent, for_python, last_error
from golfsim.runs.sensitive import TRACE
from golfsim.runs.store import WHOLE, about_run, hash_of
from golfsim.scenario.model import Scenario
from golfsim.scenario.sweep import Point
from golfsim.sim import checkpoint
from golfsim.sim.observers import accountable
from golfsim.sim.simulation import Simulation

if TYPE_CHECKING:
    import pandas as pd

SECONDS_BETWEEN_CHECKPOINTS = 180.0


@dataclass(frozen=True)
class Task:
    """One run to execute: a point of a sweep, a seed, and the folder of its results."""

    point: Point
    run: int
    hash: str
    folder: Path
    threads: int = 1
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS
    paranoid: bool = False  # check invariants after each cycle

    def packed(self) -> dict[str, Any]:
        """Return the task in types that JSON supports, for another process."""
        return vars(self) | {"point": self.point.packed, "folder": str(self.folder)}

    @classmethod
    def unpacked(cls, parts: dict[str, Any]) -> Task:
        """Return the task that `packed` was called on."""
        return cls(**parts | {"point": Point.unpacked(parts["point"]), "folder": Path(parts["folder"])})


@dataclass(frozen=True)
class Outcome:
    """How a run ended: finished, stopped (by its stop rule), interrupted or failed."""

    status: str
    cycle: int = 0
    seconds: float = 0.0
    error: str = ""
    measured: str = ""  # the last measured error as text

    @property
    def whole(self) -> bool:
        """Whether the run is complete."""
        return self.status in WHOLE


@dataclass(frozen=True)
class Reporting:
    """The functions to which a run reports its cycles and its messages."""

    cycle: Callable[[int, str], None] = lambda cycle, error: None
    note: Callable[[str], None] = lambda text: None


def run(
    scenario: Scenario,
    out: str | Path | None = None,
    *,
    threads: int | None = None,
    workers: int = 1,
    progress: bool = True,
) -> pd.DataFrame:
    """Execute all runs of a scenario and return their log as a DataFrame.

    With `out`, results are stored in that folder, and complete runs in it are not repeated. `workers` is the number of
    processes that share the runs; it changes no result. Progress is shown in a terminal and in a notebook, unless
    `progress` is false.
    """
    from golfsim.runs import batch

    with tempfile.TemporaryDirectory() as aside, listening() as interrupt:
        how = batch.Execution(workers=workers, threads=threads)
        shown = for_python() if progress else Silent()
        done = batch.run(scenario, Path(out or aside), how, shown, interrupt)
        if interrupt.asked:
            raise KeyboardInterrupt
        if done.failures:
            raise UserError(done.complaint())
        frame = done.frame()
        assert frame is not None  # there is at least one run, and none failed
        return frame.drop(columns="path")


def perform(task: Task, told: Reporting, interrupt: Interrupt) -> Outcome:
    """Execute one run, from its last checkpoint if it has one, and write its log."""
    with when_compiling(lambda: told.note(COMPILING), lambda text: told.note(f"warning: {text}")):
        return _perform(task, told, interrupt)


def _perform(task: Task, told: Reporting, interrupt: Interrupt) -> Outcome:
    begun = time.perf_counter()
    with telling(task.point.scenario):
        check_content(task)
        simulation, notes = checkpoint.resumed(
            lambda: Simulation(task.point.scenario, task.run, task.threads, task.paranoid), task.folder
        )
    for note in notes:
        told.note(f"run {task.run} {', '.join(map(str, task.point.values.values()))}: {note}".replace(" :", ":"))
    ready = time.perf_counter()
    about: dict[str, Any] = {"status": "failed"}
    try:
        with telling(task.point.scenario):
            about["status"] = cycle_through(simulation, task, told, interrupt)
    except KeyboardInterrupt:
        about["status"] = "interrupted"
        raise
    except Exception as error:
        about["error"] = str(error)
        raise
    finally:
        times = {"setup_s": ready - begun, "cycles_s": time.perf_counter() - ready}
        write(simulation, task, about, times)
    if about["status"] in WHOLE:
        checkpoint.forget(task.folder)
        (task.folder / TRACE).unlink(missing_ok=True)
    return Outcome(
        about["status"], simulation.world.cycle, time.perf_counter() - begun, measured=last_error(simulation)
    )


def check_content(task: Task) -> None:
    """Refuse a run whose sources, data or files differ from those it was planned with: its hash would differ."""
    if hash_of(task.point.scenario, task.run) != task.hash:
        raise UserError(
            "golfsim, the data or a file that the scenario names differs from the one that the run was planned with",
            hint="run again; workers of a cluster need the same golfsim and the same files",
        )


def attempt(task: Task, told: Reporting, interrupt: Interrupt) -> Outcome:
    """Execute one run of many: a failure is reported in its outcome and does not stop other runs."""
    begun = time.perf_counter()
    try:
        return perform(task, told, interrupt)
    except (Exception, SystemExit) as error:
        if not isinstance(error, UserError):
            _keep_trace(task.folder)
        return Outcome("failed", seconds=time.perf_counter() - begun, error=explained(error))


def _keep_trace(folder: Path) -> None:
    text = traceback.format_exc()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / TRACE, lambda path: path.write_text(text, encoding="utf-8"))


def explained(error: BaseException) -> str:
    """Return the message about an exception that ended a run."""
    if isinstance(error, UserError | IndexOutOfRange):
        return str(error)
    place = in_users_code(error)
    return f"{place + ': ' if place else ''}{type(error).__name__}: {error}"


def in_users_code(error: BaseException) -> str | None:
    """Return the place in a user's protocol file where an exception was raised; None if it was raised elsewhere."""
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith(USERS):
            place = f"{frame.f_code.co_filename}:{line}: in {frame.f_code.co_name}"
    return place


def code_notes(path: Path) -> list[str]:
    """Return the note that a scenario runs a file of the user's own code, and warnings about it."""
    return [f"this scenario runs code from {path}", *random_uses(path)]


def prepare(out: Path) -> None:
    """Create the folder of results, and check before a long run that it is writable."""
    try:
        if why := not_text(out):
            raise ValueError(why)
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except (OSError, ValueError) as error:
        raise cannot_write(out, error) from None


def cannot_write(folder: Path, error: Exception) -> UserError:
    """Return the error about results that cannot be written."""
    why = getattr(error, "strerror", None) or error
    return UserError(f"cannot write to {folder}: {why}", hint="choose another place with --out")


@contextmanager
def telling(scenario: Scenario) -> Iterator[None]:
    """Add file and line to a mistake that appears only when the scenario runs."""
    try:
        yield
    except UserError as error:
        raise scenario.located(error) from None
    except MemoryError as error:
        what = f"not enough memory: {error}"
        raise scenario.located(UserError(what, key="nodes", hint="simulate fewer nodes")) from None


def cycle_through(simulation: Simulation, task: Task, told: Reporting, interrupt: Interrupt) -> str:
    """Run all cycles, or those up to an interruption. Return “finished”, “stopped” (by the rule) or “interrupted”."""
    saved = time.monotonic()
    while not simulation.finished:
        simulation.step(settle=False)
        check_metric(simulation)
        told.cycle(simulation.world.cycle, last_error(simulation))
        if simulation.finished:
            break
        if interrupt.asked or time.monotonic() - saved >= task.checkpoint_every:
            _keep(simulation, task, told)
            saved = time.monotonic()
        if interrupt.asked:
            return "interrupted"
    simulation.pipeline.settle()
    return "finished" if simulation.world.cycle >= simulation.scenario.cycles else "stopped"


def _keep(simulation: Simulation, task: Task, told: Reporting) -> None:
    """Save the state; a run that cannot be saved continues."""
    try:
        checkpoint.keep(simulation, task.folder)
    except OSError as error:
        told.note(f"no checkpoint after cycle {simulation.world.cycle}: {error.strerror or error}")


def check_metric(simulation: Simulation) -> None:
    """Refuse a stop condition on a metric that its layer does not have."""
    condition = simulation.scenario.condition
    if condition is not None and simulation.latest and simulation.observer.due(simulation.world.cycle, whole=True):
        metrics = simulation.latest[condition.layer]
        if condition.metric not in metrics:
            what = f"“{condition.layer}” has no metric “{condition.metric}”"
            raise UserError(what, key="stop.when", hint=nearest(condition.metric, metrics))


def guarantees(simulation: Simulation) -> dict[str, str]:
    """Return the guarantee of each layer that uses private data, and the guarantee of all of them together."""
    layers = {
        name: layer
        for name, layer in simulation.layers.items()
        if isinstance(layer, Learner | Records) or layer.touches_private_data
    }
    at_delta = at_delta_of(simulation)
    found = {
        name: "; ".join(
            map(str, filter(None, (layer.guarantee(), at_delta.get(name), layer.central(), layer.pairwise())))
        )
        for name, layer in layers.items()
    }
    private = [layer.guarantee() for layer in layers.values() if layer.touches_private_data]
    if len(private) > 1:
        found["together"] = "; ".join(map(str, filter(None, (together(private), at_delta.get("together")))))
    return found


def at_delta_of(simulation: Simulation) -> dict[str, AtDelta]:
    """Return the ε at the δ of `[privacy]` of each private layer, and of all together, for the visits that happened.

    Layers whose guarantee is not proven have none. Then there is none of all layers together, and none either if they
    count different units.
    """
    delta = simulation.scenario.privacy.stated_delta
    layers = {name: layer for name, layer in simulation.layers.items() if layer.touches_private_data}
    ledgers = {name: accountable(layer) for name, layer in layers.items()} if delta is not None else {}
    if delta is None or not ledgers:
        return {}
    units = {(layers[name].guarantee().unit, part.visits.size) for name, found in ledgers.items() for part in found}
    groups = ledgers | {"together": [part for found in ledgers.values() for part in found]}
    if len(ledgers) < 2 or len(units) > 1 or not all(ledgers.values()):
        del groups["together"]
    return {name: AtDelta(float(spent(found, delta).max()), delta) for name, found in groups.items() if found}


def privacy(simulation: Simulation) -> dict[str, dict[str, Any]]:
    """Return for each layer that uses private data what makes its ε comparable with that of other layers."""
    found, at_deltas = {}, at_delta_of(simulation)
    for name, layer in simulation.layers.items():
        if layer.touches_private_data:
            proven, stated = layer.guarantee(), getattr(layer.config, "epsilon", None)
            finite = proven.epsilon is not None and math.isfinite(proven.epsilon)
            found[name] = (
                layer.disclosure()._asdict()
                | {
                    "stated": stated if stated is not None and math.isfinite(stated) else None,
                    "unit": getattr(layer.config, "unit", proven.unit),
                    "proven": proven.epsilon if finite else None,
                    "note": proven.note,
                }
                | ({"delta": proven.delta} if finite and proven.delta else {})
            )
            if at_delta := at_deltas.get(name):
                found[name]["at_delta"] = at_delta._asdict() | {"text": str(at_delta)}
            if central := layer.central():
                found[name]["central"] = vars(central) | {"text": str(central)}
            if pairwise := layer.pairwise():
                found[name]["pairwise"] = vars(pairwise) | {"text": str(pairwise)}
    return found


def together(parts: list[Guarantee]) -> Guarantee:
    """Return the guarantee of several layers that use the same private records: ε adds up, for one unit."""
    if any(part.epsilon is None for part in parts) or len({part.unit for part in parts}) > 1:
        return Guarantee(None)
    epsilon = sum(part.epsilon or 0.0 for part in parts)
    return Guarantee(epsilon, parts[0].unit, delta=sum(part.delta for part in parts))


def _of_layers(simulation: Simulation) -> dict[str, float]:
    return {f"{n}.{part}": seconds for n, layer in simulation.layers.items() for part, seconds in layer.times().items()}


def write(simulation: Simulation, task: Task, outcome: dict[str, Any], times: dict[str, float]) -> None:
    """Write log, scenario and `run.json`; `outcome` has the status of the run and its error.

    An incomplete run never replaces a complete one, e.g. when a run is repeated and interrupted.
    """
    scenario = simulation.scenario
    there = about_run(task.folder)
    if outcome["status"] not in WHOLE and there.get("hash") == task.hash and there.get("status") in WHOLE:
        return
    about: dict[str, Any] = outcome | {
        "point": task.point.columns,
        "name": scenario.name,
        "run": simulation.run,
        "seed": simulation.seed,
        "hash": task.hash,
        "code": code_version(),
        "cycles": simulation.world.cycle,
        "nodes": simulation.world.nodes,
        "threads": task.threads,
        "scenario_file": scenario.file,
        "command": scenario.command,
        "code_files": [str(path) for path in scenario.code_files()],
        "data_sha256": simulation.data_digest,
        "guarantees": guarantees(simulation),
        "privacy": privacy(simulation),
        "sensitive_files": sensitive.files_of(simulation, task),
        "times": {name: round(seconds, 3) for name, seconds in (times | _of_layers(simulation)).items()},
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    try:
        simulation.log.write(task.folder, task.point.text, about | about_this_machine())
    except OSError as error:
        raise cannot_write(task.folder, error) from None
