"""What a number comes from: versions, hashes of our sources, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
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
BEHIND_A_ROW = (*WITH_KERNELS, "scenario")  # what a row can depend on


def sources(packages: Iterable[str]) -> list[Path]:
    """Return the source files of some of our packages and of all protocols."""
    ours, protocols = ROOTS
    folders = [*(ours / name for name in packages), protocols]
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def digest_of(files: Iterable[Path]) -> str:
    """A hash of names and contents of files."""
    digest = hashlib.blake2b(digest_size=12)
    for path in files:
        digest.update(path.name.encode() + b"\0")
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def code_version() -> str:
    """Return our version and a hash of those of our sources that a row can depend on."""
    return f"{__version__} {digest_of(sources(BEHIND_A_ROW))}"


@cache
def about_this_machine() -> dict[str, Any]:
    """Versions and machine, for `run.json`."""
    from golfsim.core.kernels import TARGET

    packages = ("numpy", "numba", "scipy", "pandas", "pyarrow")
    return {
        "versions": {"golfsim": __version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in packages},
        "machine": {"system": platform.platform(), "processor": processor(), "cores": os.cpu_count()},
        "compiled_for": TARGET,
    }


def processor() -> str:
    """The processor's name, as well as it can be found."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
