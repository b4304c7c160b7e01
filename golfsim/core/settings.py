"""Define the base class of the tables of a scenario file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class _NamesFile:
    """Mark a setting as the name of a file."""


FileName = Annotated[str, _NamesFile()]
"""The type of a setting that names a file, relative to the scenario file. Its content belongs to the run."""


class Settings(BaseModel):
    """A table of a scenario file: frozen, without unknown keys, conversion of types, NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    def files(self) -> Iterator[str]:
        """Return the names of all files that this table and the tables in it refer to."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, str) and _names_file(field.annotation, field.metadata):
                yield value
            yield from _files_in(value)


def _files_in(value: Any) -> Iterator[str]:
    if isinstance(value, Settings):
        yield from value.files()
    elif isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _files_in(part)


def _names_file(annotation: Any, metadata: Any = ()) -> bool:
    marked = any(isinstance(mark, _NamesFile) for mark in (*metadata, *getattr(annotation, "__metadata__", ())))
    return marked or any(_names_file(part) for part in get_args(annotation))
