"""Group aggregation (Asplund & Frøystad 2015): means of the models of groups, computed by secure sums."""

from protocols.group_aggregation.protocol import GroupAggregation

__all__ = ["GroupAggregation"]
