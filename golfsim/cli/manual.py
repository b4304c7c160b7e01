"""The pages of the manual that come with golfsim, and which of them an error sends its reader to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError, nearest
from golfsim.core.paths import shipped
from golfsim.scenario.pages import GENERAL

METRICS = "metrics"
GENERATED = {GENERAL: "Scenario reference", METRICS: "Metrics"}  # pages that come from the code


def pages() -> dict[str, Path]:
    """Return the pages by name; those that come from the code are generated when somebody asks for them."""
    folder = shipped("docs")
    found = {path.stem: path for path in folder.glob("*.md")}
    return dict(sorted((found | {name: folder / f"{name}.md" for name in GENERATED}).items())) if found else {}


def titles() -> list[dict[str, Any]]:
    """The pages as a list of what there is."""
    return [{"name": name, "about": _title(path), "settings": []} for name, path in pages().items()]


def _title(path: Path) -> str:
    if path.stem in GENERATED:
        return GENERATED[path.stem]
    with path.open(encoding="utf-8") as lines:
        return next((line.lstrip("# ").strip() for line in lines if line.startswith("# ")), path.stem)


def text_of(name: str) -> str:
    """A page, as Markdown."""
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
    """The line that sends a reader to a page; nothing where there is no such page."""
    return f"\n    more: golfsim help {page}" if page in pages() else ""
