"""The checked tables of a scenario file, each with what its keys mean."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Settings(BaseModel):
    """A table of a scenario file: frozen, unknown keys refused, no conversion of types, no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)
