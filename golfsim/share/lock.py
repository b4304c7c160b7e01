"""The packages that runs use, with their installed versions."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from golfsim.core.errors import UserError

GOLFSIM = "golfsim"


def packages(protocols: Iterable[str], code: Iterable[Path]) -> dict[str, metadata.Distribution]:
    """Return golfsim, the packages of protocols, what the user's code imports, and what all of these require."""
    points = {point.name: point for point in metadata.entry_points(group="golfsim.protocols")}
    plugins = [points[name].dist for name in protocols if name in points]
    waiting = [GOLFSIM, *(dist.name for dist in plugins if dist is not None), *_imports(code)]
    found: dict[str, metadata.Distribution] = {}
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in found:
            with suppress(metadata.PackageNotFoundError):  # of another system or another version of Python
                found[name] = metadata.distribution(name)
                waiting += _required(found[name])
    return dict(sorted(found.items()))


def _required(dist: metadata.Distribution) -> list[str]:
    wanted = [Requirement(text) for text in dist.requires or ()]
    return [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]


def _imports(files: Iterable[Path]) -> list[str]:
    """Return the packages that provide what some Python files import."""
    words = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                words |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                words.add(str(node.module).partition(".")[0])
    provided = metadata.packages_distributions()
    return sorted(name for word in words - sys.stdlib_module_names for name in provided.get(word, ()))


def check(found: dict[str, metadata.Distribution], abouts: Iterable[dict[str, Any]]) -> None:
    """Refuse runs that were made with other versions than those installed."""
    for about in abouts:
        for name, version in about.get("versions", {}).items():
            if name in found and found[name].version != version:
                raise UserError(
                    f"a run was made with {name} {version}, but {found[name].version} is installed",
                    hint="pack in the environment of the runs, or repeat them here with golfsim run --force",
                )


def text(found: dict[str, metadata.Distribution]) -> str:
    """Return the lock file: one exact version per line. Hashes of archives are not known after an installation."""
    lines = ["# The packages that the runs use, for: pip install -r requirements.lock"]
    return "\n".join([*lines, *(_line(name, dist) for name, dist in found.items())]) + "\n"


def _line(name: str, dist: metadata.Distribution) -> str:
    """Return the exact version, or the public address from which the package was installed."""
    origin = json.loads(dist.read_text("direct_url.json") or "{}")
    url = str(origin.get("url", ""))
    if url.startswith("https://") and "@" not in url:
        commit = origin.get("vcs_info", {}).get("commit_id")
        return f"{name} @ git+{url}@{commit}" if commit else f"{name} @ {url}"
    return f"{name}=={dist.version}"


def disk(found: dict[str, metadata.Distribution]) -> int:
    """Return the bytes of the installed packages."""
    return sum(file.size or 0 for dist in found.values() for file in dist.files or ())
