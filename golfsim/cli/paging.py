"""Show long texts in a terminal, one screen at a time."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys


def in_terminal() -> bool:
    """Return whether a person reads the output and can answer a pager."""
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def page(text: str) -> None:
    """Show a text with the program in $PAGER, or less; print it if there is no such program or $PAGER is empty."""
    words = shlex.split(os.environ.get("PAGER", "less -R"))
    try:
        # F: a short text needs no key; R: colours.
        reader = subprocess.Popen(
            words, stdin=subprocess.PIPE, text=True, errors="replace", env={"LESS": "FR"} | os.environ
        )
    except (OSError, IndexError):
        return print(text, end="")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the pager
    try:
        reader.communicate(text)  # which accepts that the reader stops before the end
    finally:
        signal.signal(signal.SIGINT, before)
    return None
