"""From the log to figures."""

from golfsim.report.gallery import Drawing, fitting

__all__ = ["Drawing", "fitting"]
