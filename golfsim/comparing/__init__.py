"""Comparison of strategies: statistics of paired runs, as numbers, tables and sentences."""

from golfsim.comparing.comparison import Comparison, compare, costs

__all__ = ["Comparison", "compare", "costs"]
