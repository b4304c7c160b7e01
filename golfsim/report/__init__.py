"""Figures and pages from logs."""

from golfsim.report.gallery import Drawing, fitting

__all__ = ["Drawing", "fitting"]
