"""What servers that tune their own queries have learnt, and their mode; by the targets of a study file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trimtab.errors import TargetError, UsageError
from trimtab.history import History, StudyRecord, knobs_from_json
from trimtab.records import CLASSES_KEPT, QueryClass, classes_to_json
from trimtab.study.change import winner_of
from trimtab.study.file import StudyFile
from trimtab.study.stage import Stage, build_stack
from trimtab.systems import SelfTuningTarget, Stack, Tier
from trimtab.trial.signals import signals_interrupt

__all__ = [
    "engine_advice",
    "engine_classes",
    "hint_engine",
    "install_engine",
    "keep_classes",
    "switch_engine",
    "watch_engines",
]

_MOST_KEPT = 100
"""Classes, those that take the most time first."""


def _asked(file: StudyFile, stack: Stack) -> list[tuple[Tier, SelfTuningTarget]]:
    """The targets that say `in_engine = true`."""
    could = [(tier, tier.target) for tier in stack.tiers if isinstance(tier.target, SelfTuningTarget)]
    return [(tier, target) for tier, target in could if file.table_of(tier.name).get("in_engine")]


@contextmanager
def _engine(file: StudyFile, state_dir: Path) -> Iterator[tuple[Tier, SelfTuningTarget]]:
    """The one target that says `in_engine = true`, open.

    Raises:
        UsageError: there is none, or several.
    """
    asked = _asked(file, build_stack(file, state_dir))
    if len(asked) != 1:
        raise UsageError(
            f"{len(asked)} targets of the study have in_engine = true"
            if asked
            else "no target of the study has in_engine = true",
            hint='give it to one [target.NAME] table, of kind = "postgresql", whose server has the extension',
        )
    tier, target = asked[0]
    with signals_interrupt(), tier.asked():
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


def hint_engine(file: StudyFile, state_dir: Path, record: StudyRecord) -> dict[str, str]:
    """Has new classes try the proven winner of a study first; those of its settings that can be set for one statement.

    Raises:
        UsageError: the study has no proven winner, or none of its settings can; else as `engine_classes`.
    """
    winner = winner_of(record)
    knobs = knobs_from_json(record.space)
    with _engine(file, state_dir) as (tier, target):
        settings = {}
        for name, value in winner.items():
            owner, _, bare = name.rpartition(".")
            if owner in ("", tier.name):
                settings[bare] = knobs[name].format(value)
        return dict(target.hint_engine(settings))


def keep_classes(stage: Stage, history: History, record: StudyRecord, say: Callable[[str], None]) -> None:
    """Keeps what the study's server has learnt by now, for reports; what is wrong with it is said and ends nothing."""
    for tier, target in _asked(stage.file, stage.stack):
        try:
            with tier.asked():
                found = list(target.query_classes())
        except TargetError as error:
            say(f"what the server has learnt of its queries is not kept: {error.message}")
        else:
            history.add_event(record.id, CLASSES_KEPT, classes_to_json(found[:_MOST_KEPT]), time.time())


def install_engine(file: StudyFile, state_dir: Path) -> list[Path]:
    """Builds and installs the extension for the study's server, to stay; the files written.

    Raises:
        see `engine_classes`.
    """
    with _engine(file, state_dir) as (_, target):
        return list(target.install_engine())


def watch_engines(stage: Stage, say: Callable[[str], None]) -> None:
    """Has the study's trials load what observes the queries of the servers that say `in_engine = true`, where that is possible.

    It is part of every trial's change, and goes with it. `say` is told why it is not possible.
    """
    for tier, target in _asked(stage.file, stage.stack):
        try:
            with tier.asked():
                target.watch_engine()
        except TargetError as error:
            say(f"the server's queries are not watched: {error.message}")


def switch_engine(file: StudyFile, state_dir: Path, mode: str) -> str:
    """Sets the mode off, observe or tune, for good, and loads the extension; says when it is in use, "" if it is already.

    Raises:
        see `engine_classes`.
    """
    with _engine(file, state_dir) as (_, target):
        return target.switch_engine(mode)
