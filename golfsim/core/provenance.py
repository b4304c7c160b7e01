"""Record the origin of results: versions, hashes of the golfsim sources, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from golfsim._version import __version__

PACKAGE = Path(__file__).parents[1]
ROOTS = (PACKAGE, PACKAGE.parent / "protocols")
WITH_KERNELS = ("core", "privacy", "data", "network", "protocol", "learning", "sim")  # and all of `protocols`
BEHIND_A_ROW = (*WITH_KERNELS, "scenario")  # the packages that a row can depend on


def sources(packages: Iterable[str]) -> list[Path]:
    """Return the source files of some golfsim packages and of all shipped protocols."""
    ours, protocols = ROOTS
    folders = [*(ours / name for name in packages), protocols]
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def digest_of(files: Iterable[Path]) -> str:
    """Return a hash of the names and contents of files."""
    digest = hashlib.blake2b(digest_size=12)
    for path in files:
        digest.update(path.name.encode() + b"\0")
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def code_version() -> str:
    """Return the golfsim version and a hash of the golfsim sources that a row can depend on."""
    return f"{__version__} {digest_of(sources(BEHIND_A_ROW))}"


def about_this_machine() -> dict[str, Any]:
    """Return versions and a description of the machine, for `run.json`; that of torch if this process uses it."""
    about = _about_this_machine()
    torch = {"torch": metadata.version("torch")} if "torch" in sys.modules else {}
    return about | {"versions": about["versions"] | torch}


@cache
def _about_this_machine() -> dict[str, Any]:
    from golfsim.core.kernels import TARGET

    packages = ("numpy", "numba", "scipy", "pandas", "pyarrow")
    return {
        "versions": {"golfsim": __version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in packages},
        "machine": {"system": platform.platform(), "processor": processor(), "cores": os.cpu_count()},
        "compiled_for": TARGET,
    }


def processor() -> str:
    """Return the name of the processor, or of its architecture if the name is not available."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
