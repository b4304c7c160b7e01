"""Measure the overhead of a sweep per run, and the speed-up by a second worker.

python benchmarks/sweeps.py
"""

import tempfile
import time
from pathlib import Path

import golfsim
from golfsim.runs import batch

TINY = {
    "name": "tiny", "seed": 1, "cycles": 1, "runs": 1000, "nodes": {"number": 10},
    "protocol": [{"name": "peers", "use": "uniform"}],
}  # fmt: skip
WORK = {
    "name": "work", "seed": 1, "cycles": 600, "runs": 32,
    "data": {"set": "spambase", "scale": ["minmax", "l1"]},
    "protocol": [
        {"name": "peers", "use": "newscast", "view": 20},
        {"name": "learning", "use": "golf", "peers": "peers", "records": "raw"},
    ],
}  # fmt: skip


def seconds(tree: dict, workers: int) -> float:
    scenario = golfsim.Scenario.of(tree)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        made = batch.run(scenario, Path(folder), batch.Execution(workers=workers, threads=1))
        took = time.perf_counter() - begun
        assert not made.failures
        if tree is TINY:
            begun = time.perf_counter()
            golfsim.load(folder)
            print(f"loading {tree['runs']} runs: {time.perf_counter() - begun:.2f} s")
    return took


def main() -> None:
    golfsim.Simulation(golfsim.Scenario.of(WORK)).step()  # compile
    print(
        f"overhead of a tiny run: {seconds(TINY, 1):.2f} ms in one process, {seconds(TINY, 2):.2f} ms with two workers"
    )
    tries = [(seconds(WORK, 1), seconds(WORK, 2)) for _ in range(2)]
    one, two = (min(column) for column in zip(*tries, strict=True))
    print(f"{WORK['runs']} runs: {one:.1f} s with one worker, {two:.1f} s with two: {one / two:.2f} times as fast")


if __name__ == "__main__":
    main()
