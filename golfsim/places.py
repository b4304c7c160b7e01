"""Where golfsim keeps what can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """The folder for compiled code and fetched data: ``$GOLFSIM_CACHE``, or the system's place for caches."""
    import platformdirs

    return Path(os.environ.get("GOLFSIM_CACHE") or platformdirs.user_cache_dir("golfsim", appauthor=False)).expanduser()
