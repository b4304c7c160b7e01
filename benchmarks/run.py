"""Measure this machine with `golfsim bench --json` and add the result to a history, a line each.

python benchmarks/run.py [history.jsonl]
"""

import json
import sys
import time
from pathlib import Path

from golfsim import __version__, bench
from golfsim.log import processor


def main() -> None:
    history = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("history.jsonl"))
    about = {"when": time.strftime("%Y-%m-%d"), "version": __version__, "processor": processor()}
    for threads in (1, 2):
        rows = bench.measure(threads)
        with history.open("a", encoding="utf-8") as file:
            file.write(json.dumps(about | {"threads": threads, "rows": rows}) + "\n")
        print(bench.table(rows))


if __name__ == "__main__":
    main()
