"""The command line."""

from golfsim.cli.commands import main

__all__ = ["main"]
