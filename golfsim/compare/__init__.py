"""Which strategy wins: statistics of paired runs, in numbers and in words."""

from golfsim.compare.comparison import Comparison, compare, costs

__all__ = ["Comparison", "compare", "costs"]
