"""Where golfsim keeps what can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """The folder for compiled code and fetched data: ``$GOLFSIM_CACHE``, or the system's place for caches."""
    import platformdirs

    return Path(os.environ.get("GOLFSIM_CACHE") or platformdirs.user_cache_dir("golfsim", appauthor=False)).expanduser()


def shipped(name: str) -> Path:
    """A folder of ours, e.g. `scenarios`: beside the package in a checkout, inside it once installed."""
    checkout = Path(__file__).parents[1] / name
    return checkout if (checkout.parent / "pyproject.toml").exists() else Path(__file__).parent / f"_{name}"


def shipped_scenarios() -> dict[str, Path]:
    """The scenarios that come with golfsim, by name."""
    return {path.stem: path for path in sorted(shipped("scenarios").glob("*.toml"))}


def scenario_file(file: str | Path) -> Path:
    """The file that a user means: one of the user's own, else the shipped scenario of that name."""
    path = Path(file)
    bare = path.name == str(file) and not path.suffix and not path.is_file()
    return shipped_scenarios().get(path.name, path) if bare else path
