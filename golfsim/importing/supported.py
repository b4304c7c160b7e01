"""Find out which settings this version of golfsim has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from golfsim.importing.written import Table
from golfsim.learning.loading import installed
from golfsim.protocol.loading import find


def accepts(table: type[BaseModel], key: str, value: Any) -> bool:
    """Return whether a table of settings has a key that may have a value."""
    for name, field in table.model_fields.items():
        if (field.alias or name) == key:
            try:
                TypeAdapter(_whole_type(field)).validate_python(value)
            except ValidationError:
                return False
            return True
    return False


def _whole_type(field: FieldInfo) -> Any:
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


@cache
def has(use: str, key: str, value: Any) -> bool:
    """Return whether an installed protocol has a setting that may have a value."""
    protocol = find(use, Path())
    several = key != "times" or getattr(protocol, "repeats", False)
    return several and accepts(protocol.Config, key, value)


def carries(table: Table, fault: str) -> bool:
    """Return whether the messages of a layer may have a fault."""
    return fault in find(str(table.settings["use"]), Path()).accepts


def learners() -> Iterable[str]:
    """Return the names of all learners."""
    return installed()
