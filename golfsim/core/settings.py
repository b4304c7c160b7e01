"""Define the base class of the tables of a scenario file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Settings(BaseModel):
    """A table of a scenario file: frozen, without unknown keys, conversion of types, NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)
