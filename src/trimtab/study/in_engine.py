"""What servers that tune their own queries have learnt, and their mode; by the targets of a study file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.records import QueryClass
from trimtab.study.file import StudyFile
from trimtab.study.stage import build_stack
from trimtab.systems import SelfTuningTarget, Tier

__all__ = ["engine_advice", "engine_classes", "switch_engine"]


@contextmanager
def _engine(file: StudyFile, state_dir: Path) -> Iterator[tuple[Tier, SelfTuningTarget]]:
    """The one target that says `in_engine = true`, or that could.

    Raises:
        UsageError: there is none, or several.
    """
    could = [
        (tier, tier.target) for tier in build_stack(file, state_dir).tiers if isinstance(tier.target, SelfTuningTarget)
    ]
    asked = [(tier, target) for tier, target in could if file.table_of(tier.name).get("in_engine")]
    if len(asked) != 1:
        raise UsageError(
            f"{len(asked)} targets of the study have in_engine = true",
            hint='add it to the one [target.NAME] table, of kind = "postgresql", whose server has the extension',
        )
    tier, target = asked[0]
    with tier.asked():
        try:
            tier.target.open()
            yield tier, target
        finally:
            tier.target.close()


def engine_classes(file: StudyFile, state_dir: Path) -> list[QueryClass]:
    """What the server has learnt, the most time first.

    Raises:
        UsageError: no target, or several, have in_engine = true.
        TargetError: the server cannot be reached, or lacks the extension.
    """
    with _engine(file, state_dir) as (_, target):
        return list(target.query_classes())


def engine_advice(file: StudyFile, state_dir: Path) -> str:
    """The same as statements for a server without the extension; see `engine_classes`."""
    with _engine(file, state_dir) as (_, target):
        return target.query_advice()


def switch_engine(file: StudyFile, state_dir: Path, mode: str) -> None:
    """Sets the mode off, observe or tune, for good; see `engine_classes`."""
    with _engine(file, state_dir) as (_, target):
        target.switch_engine(mode)
