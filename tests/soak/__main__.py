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
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[0] = str(TESTS)

from soak.cases import run_case, shared_memory  # noqa: E402 - only found there
from soak.faults import FAULTS  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="how long new cases are started (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of all draws (default: 1)")
    parser.add_argument("--case", type=int, help="run only the case with this number")
    parser.add_argument("--folder", type=Path, help="where folders of failed cases are kept (default: a temporary one)")
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
    minutes, cases = round((time.monotonic() - begun) / 60, 1), sum(count[f"{fault}: cases"] for fault in FAULTS)
    about = {"seed": options.seed, "minutes": minutes, "cases": cases}
    print(json.dumps(about | dict(sorted(count.items())) | {"failures": failures}, indent=1))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
