"""Run one case of the soak: draw a scenario, disturb it, complete it, and compare its rows with undisturbed ones."""

import os
import random
import shutil
import time
from contextlib import suppress
from pathlib import Path

import tomlkit
from entries import ENTRIES
from helpers import HERE
from soak import scenarios
from soak.faults import FAULTS, SEVERAL, Case, Failed

from golfsim.runs.logs import load

PARTS = [["--workers", 1, "--threads", 1], ["--workers", 1, "--threads", 3], ["--workers", 2, "--threads", 2], []]
RHYTHMS = [0, 0, 0.02, 0.2]  # seconds between checkpoints
LEFT = (".", "checkpoint-", "error.txt")  # how names begin of files that must not be left


def run_case(seed, number, folder, count):
    """Draw and run one case; return why it failed, or an empty text."""
    fault, name, case = drawn(seed, number, folder)
    begun, failure = time.monotonic(), ""
    try:
        disturb(case, fault, count)
    except Failed as error:
        failure = str(error)
    if (left := case.close()) and not failure:
        failure = f"{len(left)} processes are left"
    count[f"{fault}: cases"] += 1
    count[f"{fault}: disturbances"] += case.hits
    count[f"protocol {name}"] += 1
    print(f"{number}: {fault}, {name}: {case.hits} disturbances, {time.monotonic() - begun:.0f} s", flush=True)
    return failure


def drawn(seed, number, folder):
    """Return the fault, the name of the tested protocol, and the case with its scenario file in a new folder."""
    rng = random.Random(f"{seed}/{number}")
    fault = list(FAULTS)[number % len(FAULTS)]
    names = sorted(ENTRIES)
    random.Random(f"{seed}/{number // len(names)}").shuffle(names)  # all of them, in another order each time
    name = names[number % len(names)]
    folder.mkdir()
    for needed in ("user_protocols", "traces"):
        shutil.copytree(HERE / needed, folder / needed)
    tree = scenarios.draw(rng, name, fault in SEVERAL)
    (folder / "s.toml").write_text(tomlkit.dumps(tree), encoding="utf-8")
    words = [*rng.choice(PARTS), "--checkpoint-every", rng.choice(RHYTHMS), *rng.choice([[], ["--paranoid"]])]
    return fault, name, Case(folder, rng, words)


def disturb(case, fault, count):
    """Run a case from its scenario file to the comparison of rows; raise Failed at the first thing that is wrong."""
    straight = case.folder / "undisturbed"
    case.ended(case.start("--workers", 1, "--threads", 1, "--paranoid", out=straight), 0)
    FAULTS[fault](case)
    case.ended(case.start("--workers", case.rng.choice([1, 2])), 0)
    text = case.errors.read_text(encoding="utf-8", errors="replace")
    if "Traceback" in text:
        raise Failed("a traceback")
    if rows(straight) != rows(case.out):
        raise Failed("other rows than those of the undisturbed run")
    frame = load(straight)
    if not frame.equals(load(case.out)):
        raise Failed("golfsim.load returns other rows than for the undisturbed run")
    if left := leftovers(case, fault):
        raise Failed(f"files are left: {', '.join(left)}")
    count["rows compared"] += len(frame)
    count["resumed from a checkpoint"] += text.count("resumed after cycle")


def rows(folder):
    """Return the content of all logs and tables, by path."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*.parquet")}


def leftovers(case, fault):
    """Return the names of files that a complete run must not leave."""
    found = [path for path in case.out.rglob("*") if path.name.startswith(LEFT) or path.suffix == ".sqlite-journal"]
    if fault != "damage":
        found += case.out.rglob("*.damaged")
    return [str(path.relative_to(case.folder)) for path in [*found, *(case.folder / "tmp").iterdir()]]


def shared_memory():
    """Return the names of shared memory that no process uses; that of libfaketime is not ours."""
    used = ""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            used += maps.read_text()
    return {name for name in os.listdir("/dev/shm") if name not in used and "faketime" not in name}
