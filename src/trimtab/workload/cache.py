"""Where workloads keep files of their own on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from trimtab.errors import LoadError

__all__ = ["cache_directory"]


def cache_directory() -> Path:
    """The folder of everything that workloads make on this machine; made when missing.

    $TRIMTAB_CACHE, else /var/cache/trimtab for root, else $XDG_CACHE_HOME/trimtab or ~/.cache/trimtab.
    """
    if chosen := os.environ.get("TRIMTAB_CACHE"):
        directory = Path(chosen)
    elif os.geteuid() == 0:
        directory = Path("/var/cache/trimtab")
    else:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoadError(
            f"the cache directory cannot be made: cache={directory}: {error}",
            hint="set TRIMTAB_CACHE to a directory that you may write to",
        ) from error
    return directory
