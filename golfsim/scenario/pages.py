"""Find the page of the manual that explains a key of a scenario."""

from __future__ import annotations

# The page that explains a key, by the first word of its path or by the last one.
BY_TABLE = {"sweep": "sweeps", "case": "sweeps", "plot": "reports"}
BY_KEY = dict.fromkeys(("epsilon", "norm", "noise", "unit", "trust", "bounds", "schedule"), "privacy") | {
    "use": "protocols"
}
GENERAL = "scenarios"


def page_for(path: tuple[str | int, ...]) -> str:
    """Return the page that explains a key of a scenario."""
    by_key = BY_KEY.get(str(path[-1]), GENERAL)
    return BY_TABLE.get(str(path[0]), by_key)
