"""From the log to figures, and to pages."""

from golfsim.report.gallery import Drawing, fitting

__all__ = ["Drawing", "fitting"]
