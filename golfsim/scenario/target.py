"""Compute the budget of a layer from the target of `[privacy]`."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from golfsim.core.errors import UserError
from golfsim.privacy.accounting import budget_for
from golfsim.privacy.choice import TARGET, NoiseConfig
from golfsim.protocol.base import LayerConfig
from golfsim.scenario.tables import TargetConfig


def with_target(
    table: dict[str, Any], kind: type[LayerConfig], context: dict[str, Any], privacy: Any, others: int
) -> dict[str, Any]:
    """Return the table of a layer with a number in place of `epsilon = "target"`.

    Parameters
    ----------
    table : dict
        The table of the layer.
    kind : type of LayerConfig
        The settings of its protocol.
    context : dict
        What these settings are checked with.
    privacy : Any
        The table `[privacy]` of the scenario.
    others : int
        The number of other layers that ask for the target.
    """
    if table.get("epsilon") != TARGET:
        return table
    if not issubclass(kind, NoiseConfig):
        what = f"“{table.get('use')}” has no visits of records that a target could be divided by"
        raise UserError(what, key="epsilon", hint="state a number")
    if others:
        what = "two layers cannot both have the target: what they release would have more together"
        raise UserError(what, key="epsilon", hint="state numbers; `[privacy] delta` states what layers have together")
    target = _target_of(privacy)
    gaussian = table.get("noise") == "gaussian"
    trial = table | {"epsilon": target.epsilon} | ({"delta": target.delta} if gaussian else {})
    config = kind.model_validate(trial, context=context, by_alias=True, by_name=False)
    assert isinstance(config, NoiseConfig)
    return trial | {"epsilon": budget_for(target.epsilon, target.delta, config.visits, config.delta or 0.0)}


def _target_of(privacy: Any) -> TargetConfig:
    try:
        return TargetConfig.model_validate(privacy.get("target") if isinstance(privacy, dict) else None)
    except ValidationError:
        hint = "add target = { epsilon = 1.0, delta = 1e-5 } to [privacy]"
        raise UserError("there is no valid target in [privacy]", key="epsilon", hint=hint) from None
