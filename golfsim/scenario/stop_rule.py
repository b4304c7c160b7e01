"""The condition that ends a run early: a metric of a layer compared with a number."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass

from golfsim.core.errors import UserError

FORM = re.compile(r"\s*(?P<layer>[\w-]+)\.(?P<metric>[\w.-]+?)\s*(?P<sign><=|>=|<|>)\s*(?P<bound>[-+.\deE]+)\s*")
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Condition:
    """A condition on a metric of a layer, e.g. ``learning.error.mean < 0.1``."""

    layer: str
    metric: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition, or raise an error with an example of a valid one."""
        match = FORM.fullmatch(text)
        bound = _number(match["bound"]) if match else math.nan
        if match is None or not math.isfinite(bound):
            hint = "expected: layer.metric < number, e.g. “learning.error.mean < 0.1”; also <=, > and >="
            raise UserError(f"cannot read the condition “{text}”", key="stop.when", hint=hint)
        return cls(match["layer"], match["metric"], match["sign"], bound)

    def holds(self, value: float) -> bool:
        """Return whether a value of the metric fulfils the condition."""
        return bool(COMPARE[self.sign](value, self.bound))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
