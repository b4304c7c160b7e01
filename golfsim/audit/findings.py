"""What audits find: a lower bound on the ε of each layer, next to the ε that it states."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from golfsim.privacy.mechanisms import Unit


@dataclass(frozen=True)
class Bound:
    """A lower bound for one layer, or for all layers with the same unit together, at one point of a scenario."""

    point: str
    layer: str
    unit: Unit
    stated: float | None
    delta: float  # at which ε is stated
    note: str
    bound: float

    @property
    def broken(self) -> bool:
        """Whether the lower bound exceeds the stated ε."""
        return self.stated is not None and self.bound > self.stated


F = TypeVar("F", bound=Bound)


@dataclass(frozen=True)
class Findings(Generic[F]):
    """All findings of an audit; `confidence` is the confidence level of all lower bounds together."""

    findings: tuple[F, ...]
    confidence: float
    ceiling: float  # the largest bound that this number of runs, or of canaries, can give

    @property
    def broken(self) -> bool:
        """Whether the lower bound of any layer exceeds its stated ε."""
        return any(finding.broken for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the audit for programs."""
        found = [asdict(finding) | {"broken": finding.broken} for finding in self.findings]
        return {"confidence": self.confidence, "ceiling": self.ceiling, "broken": self.broken, "findings": found}
