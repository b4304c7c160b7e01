"""Nested tables, as TOML has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all keys of nested tables by path; a list of tables with names counts as a table of these names."""
    for key, value in tree.items():
        if isinstance(value, list) and value and all(isinstance(v, dict) and "name" in v for v in value):
            for table in value:
                yield from flat({k: v for k, v in table.items() if k != "name"}, f"{prefix}{table['name']}.")
        elif isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
