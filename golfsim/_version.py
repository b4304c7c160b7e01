"""The version of golfsim."""

__version__ = "0.1.0"
