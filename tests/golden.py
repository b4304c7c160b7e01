"""Short logs of every protocol that are kept, to see when a number changes; `python tests/golden.py` records them anew.

A file has what the numbers depend on (processor, packages), then a row a line: cycle, layer, metric, the value exactly
(in hexadecimal) and for reading. Last come hashes of all state. Where processor and packages are those of the file the
rows have to be the same to the last bit; elsewhere (and without compiled kernels) they have to be close.
"""

import hashlib
import re
import sys
from importlib import metadata
from pathlib import Path

import llvmlite.binding as llvm
from helpers import finished, known_state
from test_contract import ENTRIES, accepted, scenario

FOLDER = Path(__file__).parent / "golden"
PACKAGES = ("numpy", "numba", "llvmlite", "scipy")
CHURN = {"kind": "rate", "leave": 0.1, "rejoin": 0.5}


def here():
    """What the last bits of numbers may depend on."""
    features = sorted(name for name, there in llvm.get_host_cpu_features().items() if there)
    digest = hashlib.sha256(",".join(features).encode()).hexdigest()[:16]
    packages = " ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    return [f"# processor: {llvm.get_host_cpu_name()}, features {digest}", f"# packages: {packages}"]


def file_of(name, folder=FOLDER):
    return folder / f"{re.sub(r'[^a-z0-9]+', '_', name)}.txt"


def lines_of(name):
    """The log and the state of a short run of a protocol, with churn and all faults that it accepts."""
    entry = ENTRIES[name]
    observe = {"every": 4, "nodes": 10}
    run = finished(scenario(entry, churn=CHURN, transport=accepted(entry), cycles=8, observe=observe))
    log = zip(run.log.cycles, run.log.names, map(float, run.log.values), strict=True)
    for cycle, (layer, metric), value in log:
        if layer in ("subject", "probe"):
            yield f"{cycle} {layer} {metric} {value.hex()} {value:.6g}"
    for part, array in known_state(run):
        if part.startswith("layer."):
            yield f"state {part} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


def record(folder=FOLDER, names=ENTRIES):
    """Write the files of all protocols, or of those that are named."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.txt"):
        old.unlink()
    for name in names:
        text = "\n".join([f"# {name}", *here(), *lines_of(name)]) + "\n"
        file_of(name, folder).write_text(text, encoding="utf-8")


def read(name, folder=FOLDER):
    """What a file says that its numbers depend on, and its other lines."""
    lines = file_of(name, folder).read_text(encoding="utf-8").splitlines()
    return [line for line in lines[1:] if line.startswith("#")], [line for line in lines if not line.startswith("#")]


def values(lines):
    """The value of each cycle, layer and metric."""
    rows = [line.rsplit(" ", 2) for line in lines if not line.startswith("state ")]
    return {key: float.fromhex(exact) for key, exact, _ in rows}


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER, sys.argv[2:] or ENTRIES)
