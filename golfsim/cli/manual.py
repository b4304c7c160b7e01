"""The pages of the manual that are shipped with golfsim, and the line of an error message that names one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError, nearest
from golfsim.core.paths import shipped
from golfsim.scenario.pages import GENERAL

METRICS = "metrics"
GENERATED = {GENERAL: "Scenario reference", METRICS: "Metrics"}  # pages that come from the code


def pages() -> dict[str, Path]:
    """Return the pages by name. Pages that come from the code are generated on each request."""
    folder = shipped("docs")
    found = {path.stem: path for path in folder.glob("*.md")}
    return dict(sorted((found | {name: folder / f"{name}.md" for name in GENERATED}).items())) if found else {}


def titles() -> list[dict[str, Any]]:
    """Return names and titles of all pages."""
    return [{"name": name, "about": _title(path), "settings": []} for name, path in pages().items()]


def _title(path: Path) -> str:
    if path.stem in GENERATED:
        return GENERATED[path.stem]
    with path.open(encoding="utf-8") as lines:
        return next((line.lstrip("# ").strip() for line in lines if line.startswith("# ")), path.stem)


def text_of(name: str) -> str:
    """Return a page as Markdown."""
    found = pages()
    if name not in found:
        raise UserError(f"the manual has no page “{name}”", hint=nearest(name, found))
    if name == GENERAL:
        from golfsim.scenario import reference

        return reference.page()
    if name == METRICS:
        from golfsim.sim import metric_catalogue

        return metric_catalogue.page()
    return found[name].read_text(encoding="utf-8")


def more(page: str | None) -> str:
    """Return the line that refers to a page; an empty text where there is no such page."""
    return f"\n    more: golfsim help {page}" if page in pages() else ""
