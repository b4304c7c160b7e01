"""Disturb random scenarios for some time, and compare their rows with those of undisturbed runs bit for bit.

    python tests/soak --minutes 10 --seed 1

Each case draws a scenario and a fault. It runs the scenario undisturbed with --paranoid, then with the fault in another
folder, and then once more to complete what is missing there. A case fails if the rows differ, if a command ends in a
traceback or with another exit status than expected, or if a process or a temporary file is left. A failing case prints
how to repeat it and keeps its folder. A summary in JSON comes last; the exit status is 1 if a case failed.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[0] = str(TESTS)

import tomlkit  # noqa: E402
from entries import ENTRIES  # noqa: E402
from soak import scenarios  # noqa: E402
from soak.faults import FAULTS, SEVERAL, Case, Failed  # noqa: E402

from golfsim.runs.logs import load  # noqa: E402

PARTS = [["--workers", 1, "--threads", 1], ["--workers", 1, "--threads", 3], ["--workers", 2, "--threads", 2], []]
RHYTHMS = [0, 0, 0.02, 0.2]
LEFT = (".", "checkpoint-", "error.txt")  # how names begin of files that must not be left


def rows(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*.parquet")}


def leftovers(case, fault):
    """Return the names of files that a finished run must not leave."""
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


def disturb(case, fault, count):
    """Run a case from its scenario file to the comparison of rows; raise Failed at the first thing that is wrong."""
    straight = case.folder / "undisturbed"
    case.ended(case.start("--workers", 1, "--threads", 1, "--paranoid", out=straight), 0)
    FAULTS[fault](case)
    case.ended(case.start("--workers", case.rng.choice([1, 2])), 0)
    if "Traceback" in (text := case.errors.read_text(errors="replace")):
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


def run_case(seed, number, folder, count):
    """Draw and run one case; return why it failed, or an empty text."""
    rng = random.Random(f"{seed}/{number}")
    fault = list(FAULTS)[number % len(FAULTS)]
    names = sorted(ENTRIES)
    random.Random(f"{seed}/{number // len(names)}").shuffle(names)  # all of them, in another order each time
    name = names[number % len(names)]
    folder.mkdir()
    for needed in ("user_protocols", "traces"):
        shutil.copytree(TESTS / needed, folder / needed)
    tree = scenarios.draw(rng, name, fault in SEVERAL)
    (folder / "s.toml").write_text(tomlkit.dumps(tree))
    words = [*rng.choice(PARTS), "--checkpoint-every", rng.choice(RHYTHMS), *rng.choice([[], ["--paranoid"]])]
    case = Case(folder, rng, words)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="how long new cases are started")
    parser.add_argument("--seed", type=int, default=1, help="the seed of all draws")
    parser.add_argument("--case", type=int, help="repeat only the case with this number")
    parser.add_argument("--folder", type=Path, help="where the folders of failed cases are kept; default: a new one")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="soak-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    begun, number, failures, count = time.monotonic(), options.case or 0, [], Counter()
    shared = shared_memory()
    while True:
        place = folder / f"case-{number}"
        if failure := run_case(options.seed, number, place, count):
            failures.append(f"seed {options.seed}, case {number}: {failure}")
            print(f"FAILED: {failures[-1]}; repeat it with --seed {options.seed} --case {number}; see {place}")
        else:
            shutil.rmtree(place)
        number += 1
        if options.case is not None or time.monotonic() - begun > 60 * options.minutes:
            break
    if left := sorted(shared_memory() - shared):
        failures.append(f"shared memory is left: {', '.join(left)}")
    if not any(folder.iterdir()):
        folder.rmdir()
    summary = {
        "seed": options.seed,
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "cases": sum(count[f"{fault}: cases"] for fault in FAULTS),
    }
    print(json.dumps(summary | dict(sorted(count.items())) | {"failures": failures}, indent=1))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
