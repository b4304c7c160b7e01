"""The settings that choose the kind of noise: pure ε, or Gaussian noise with a δ."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from golfsim.core.settings import Settings
from golfsim.privacy.ledger import HalvingSchedule, UniformSchedule
from golfsim.privacy.noise import GAMMA_NORM, GAUSSIAN, LAPLACE

TARGET = "target"  # in place of a number: the budget for the target of [privacy]
PURE = {"l1": LAPLACE, "l2": GAMMA_NORM}


def or_target(schema: dict[str, Any]) -> None:
    """Let the schema of a budget allow “target”."""
    number = {key: schema.pop(key) for key in ("type", "minimum", "exclusiveMinimum", "anyOf") if key in schema}
    schema["anyOf"] = [*number.pop("anyOf", [number] if number else []), {"const": TARGET}]


class DeltaConfig(Settings):
    """The δ of Gaussian noise, for a layer that has it with noise = “gaussian”."""

    delta: float | None = Field(
        None, ge=1e-10, lt=1, description="with noise = “gaussian”: the δ at which the budget ε holds"
    )

    @model_validator(mode="after")
    def _with_delta(self) -> DeltaConfig:
        if self.gaussian and self.delta is None:
            raise ValueError("delta: missing; Gaussian noise has an ε only at a δ, e.g. delta = 1e-5")
        if not self.gaussian and self.delta is not None:
            raise ValueError('delta: needs noise = "gaussian"; other noise has pure ε')
        return self

    @property
    def gaussian(self) -> bool:
        """Whether noise is Gaussian."""
        return bool(getattr(self, "noise", None) == "gaussian")

    @property
    def at_delta(self) -> str:
        """The δ of the budget in words; empty for pure ε."""
        return "" if self.delta is None else f" at δ = {self.delta:g}"


class NoiseConfig(DeltaConfig):
    """The kind of noise, and the δ of Gaussian noise."""

    noise: Literal["pure", "gaussian"] = Field(
        "pure",
        description="“pure”: noise with pure ε, as `norm` says; “gaussian”: Gaussian noise, for records of L2 length "
        "≤ 1, with which ε holds at `delta`",
    )

    @model_validator(mode="after")
    def _complete(self) -> NoiseConfig:
        if self.gaussian and getattr(self, "norm", "l2") != "l2":
            raise ValueError('noise: “gaussian” needs norm = "l2"')
        if self.gaussian and getattr(self, "rule", "") == "as-coded":
            raise ValueError('noise: “gaussian” needs rule = "shared"')
        return self

    @property
    def noise_kind(self) -> int:
        """The kind of noise, for kernels."""
        return GAUSSIAN if self.gaussian else PURE[getattr(self, "norm", "l2")]

    @property
    def visits(self) -> UniformSchedule | HalvingSchedule:
        """The schedule of the visits of a record; a layer without one uses each record once."""
        found: Any = getattr(self, "schedule", None)
        return found if found is not None else UniformSchedule(kind="uniform", visits=1)
