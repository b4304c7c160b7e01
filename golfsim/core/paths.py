"""Find the folders of the cache and of the shipped files."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from golfsim.core.errors import UserError

INDEX = "index.sqlite"  # the index of a folder of results
MISSING = os.strerror(errno.ENOENT)


def user_cache() -> Path:
    """Return the folder for compiled code and fetched data: ``$GOLFSIM_CACHE``, or the cache folder of the system.

    If the home directory is not writable, as on some clusters, it is a private folder among the temporary files.
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
    """Return a folder that is private to the user; raise an error if it belongs to another user."""
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
    """Return whether a file exists; also for names that no file system accepts."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def text_of(path: Path) -> str:
    """Return the text of a file; raise OSError for a pipe or a device, of which reading might never end."""
    if not path.is_file():
        raise OSError(errno.EINVAL, "not a file", str(path))
    return path.read_text(encoding="utf-8")


def unreadable(path: Path) -> str:
    """Return why a path cannot be read as a file, or an empty text: reading a pipe or a device might never end."""
    try:
        if path.is_file():
            return not_text(path)
        if path.is_dir():
            return "this is a folder, not a file"
        return "this is a pipe or a device, not a file" if path.exists() else MISSING
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)


def not_text(path: Path) -> str:
    """Return why a path cannot be recorded in `run.json`, scenarios and the index, or an empty text."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return "this path is not UTF-8 text; rename the file or folder"
    return ""


def cannot_cache(error: OSError) -> UserError:
    """Return the error about a cache that cannot be written."""
    return UserError(
        f"cannot write to the cache {user_cache()}: {error.strerror or error}",
        hint="free some space, or set GOLFSIM_CACHE to another folder",
    )


def private(*names: str) -> Path:
    """Return a folder below the user's cache that no other user can read or write; raise an error if impossible.

    Its content is trusted: compiled code is loaded from it, and data in it is not checked again.
    """
    folder = user_cache()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        folder = folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        if hasattr(os, "geteuid") and folder.lstat().st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to another user")
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    return folder


def shipped(name: str) -> Path:
    """Return a shipped folder, e.g. `scenarios`: next to the package in a checkout, inside it once installed."""
    checkout = Path(__file__).parents[2] / name
    return checkout if (checkout.parent / "pyproject.toml").exists() else Path(__file__).parents[1] / f"_{name}"


def shipped_scenarios() -> dict[str, Path]:
    """Return the files of the scenarios that come with golfsim, by name."""
    return {path.stem: path for path in sorted(shipped("scenarios").rglob("*.toml"), key=lambda path: path.stem)}


def scenario_file(file: str | Path) -> Path:
    """Return the file that a user names: the user's own file or, if it does not exist, a shipped scenario."""
    path = Path(file)
    bare = path.name == str(file) and not path.suffix and not path.is_file()
    return shipped_scenarios().get(path.name, path) if bare else path
