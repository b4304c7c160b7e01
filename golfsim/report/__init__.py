"""From the log to figures."""
