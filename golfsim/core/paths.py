"""Where golfsim keeps what can be made again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

INDEX = "index.sqlite"  # of a folder of results


def user_cache() -> Path:
    """Return the folder for compiled code and fetched data: ``$GOLFSIM_CACHE``, or the system's place for caches.

    Where the home cannot be written to, as on some clusters, it is a private folder among the temporary files.
    """
    import platformdirs

    named = os.environ.get("GOLFSIM_CACHE")
    if named:
        return Path(named).expanduser()
    usual = Path(platformdirs.user_cache_dir("golfsim", appauthor=False))
    return usual if _can_be_written(usual) else _temporary_cache()


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _temporary_cache() -> Path:
    """Return a folder that is the user's alone; an error where somebody else has taken its name."""
    import tempfile

    user = os.geteuid() if hasattr(os, "geteuid") else os.environ.get("USERNAME", "user")
    folder = Path(tempfile.gettempdir(), f"golfsim-{user}")
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    others = hasattr(os, "geteuid") and about.st_uid != os.geteuid()
    if others or stat.S_ISLNK(about.st_mode) or about.st_mode & 0o077:
        raise PermissionError(f"{folder} is not private")
    return folder


def is_file(path: Path) -> bool:
    """Whether there is such a file; also where no file system could have that name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def private(*names: str) -> Path:
    """A folder below the user's cache that nobody else can look into or write to; an error where that cannot be had.

    What lies there is trusted: compiled code that is loaded, data that is taken for checked.
    """
    folder = user_cache()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        folder = folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        if hasattr(os, "geteuid") and folder.lstat().st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to somebody else")
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    return folder


def shipped(name: str) -> Path:
    """A folder of ours, e.g. `scenarios`: beside the package in a checkout, inside it once installed."""
    checkout = Path(__file__).parents[2] / name
    return checkout if (checkout.parent / "pyproject.toml").exists() else Path(__file__).parents[1] / f"_{name}"


def shipped_scenarios() -> dict[str, Path]:
    """The scenarios that come with golfsim, by name."""
    return {path.stem: path for path in sorted(shipped("scenarios").rglob("*.toml"), key=lambda path: path.stem)}


def scenario_file(file: str | Path) -> Path:
    """The file that a user means: one of the user's own, else the shipped scenario of that name."""
    path = Path(file)
    bare = path.name == str(file) and not path.suffix and not path.is_file()
    return shipped_scenarios().get(path.name, path) if bare else path
