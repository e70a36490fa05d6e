"""What a server that tunes its own queries had learnt at a study's end, as the commands that report a study show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from trimtab.history import History, StudyRecord
    from trimtab.records import QueryClass, Trial

__all__ = ["classes_of", "echo_classes", "json_of"]


def classes_of(history: History, record: StudyRecord) -> Sequence[QueryClass] | None:
    """Those that the study has kept; None where the server does not tune its queries."""
    from trimtab.report import kept_classes

    return kept_classes(history.events(record.id))


def json_of(record: StudyRecord, trials: Sequence[Trial], classes: Sequence[QueryClass] | None) -> dict[str, Any]:
    """The study as `--json` prints it."""
    from trimtab.report import to_json

    return to_json(record, trials) | ({} if classes is None else {"query_classes": classes})


def echo_classes(classes: Sequence[QueryClass] | None) -> None:
    """For people, below the report of the study."""
    from trimtab.report import engine_text

    if classes is not None:
        click.echo(
            f"\nClasses of queries that the server tunes itself, at the end of the study:\n{engine_text(classes)}"
        )
