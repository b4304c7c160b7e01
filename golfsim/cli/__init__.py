"""The command line."""

from golfsim.cli.app import main

__all__ = ["main"]
