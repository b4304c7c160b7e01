"""What a metric of the log is: its name, meaning and unit, and whether more or less of it is better."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SUMMARY = ("mean", "std", *(f"q{round(100 * q):02}" for q in QUANTILES))  # what a log has of a metric per node


class Metric(NamedTuple):
    """A metric as it is declared next to the code that computes it.

    `about` is its meaning in one sentence. `better` is “up” where a larger value is better, and “down” where a smaller
    one is. A name has braces where the log has a number: `roc.at_{share}` is logged as `roc.at_0.05`. A metric with
    `summary` has a value per node. The log has its mean, standard deviation and quantiles over nodes, each with its own
    name: `error.mean`, `error.std`, `error.q05`.
    """

    name: str
    about: str
    unit: str = ""
    better: Literal["up", "down", ""] = ""
    summary: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the log, with braces where there is a number."""
        return tuple(f"{self.name}.{part}" for part in SUMMARY) if self.summary else (self.name,)

    def matches(self, logged: str) -> bool:
        """Return whether this is the metric that a log calls so."""
        return any(_pattern(name).fullmatch(logged) for name in self.names)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """A name as a regular expression, with a number for each pair of braces."""
    parts = re.split(r"\{\w+\}", name)
    return re.compile(r"\d+(?:\.\d+)?".join(re.escape(part) for part in parts))
