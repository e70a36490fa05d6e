"""profile: what a live server is asked, as a workload; changes nothing on the server."""

from __future__ import annotations

from pathlib import Path

from trimtab.errors import UsageError
from trimtab.study.file import StudyFile
from trimtab.study.stage import build_target
from trimtab.workload.sql.profile import Profile, read_profile

__all__ = ["profile"]

_PROTOCOL = "postgresql"


def profile(
    file: StudyFile, state_dir: Path, *, database: str | None, window_s: float, coverage: float, most: int
) -> Profile:
    """What the study's target was asked in `database` (its own when None).

    Raises:
        UsageError: the target has no statement statistics that Trimtab can read.
        TargetError: the target cannot be reached.
        LoadError: the statistics are not there, or saw nothing.
    """
    target = build_target(file, state_dir)
    target.open()
    try:
        endpoint = target.endpoint()
        if endpoint.protocol != _PROTOCOL:
            raise UsageError(
                f"target kind={target.kind!r} has no statement statistics that can be profiled yet",
                hint="use a target of kind postgresql",
            )
        there = endpoint if database is None else endpoint.with_database(database)
        return read_profile(there, window_s=window_s, coverage=coverage, most=most)
    finally:
        target.close()
