"""Options that the history's subcommands share, and how they print studies."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar
from unicodedata import combining, east_asian_width

import click

from trimtab.errors import UsageError
from trimtab.units import format_time

if TYPE_CHECKING:
    from trimtab.history import History, StudyQuery, StudySummary
    from trimtab.records import Machine

__all__ = ["chosen", "print_studies", "query_of", "query_options", "table", "when"]

F = TypeVar("F", bound=Callable[..., Any])

_MACHINE = re.compile(r"\s*(0*[1-9]\d{0,8})\s*x\s*(\S+)\s*")
_LONGEST = 60


def query_options(function: F) -> F:
    """Which studies are meant."""
    for option in reversed(
        (
            click.option("--name", metavar="NAME", help="Part of the study's name; with * or ? a pattern for the whole name."),
            click.option("--target", metavar="KIND", help="Kind of the target: postgresql, mysql, …"),
            click.option("--version", metavar="VERSION", help='Part of the server\'s version text: "18.", "MariaDB".'),
            click.option("--workload", metavar="WORKLOAD", help='Part of the workload\'s text: "tpch".'),
            click.option("--status", metavar="STATUS", help="A status: running, proven, ranked, benched, ... (see history.md)."),
            click.option("--since", metavar="WHEN",
                         help="Started on or after this day (2026-05-31) or time (2026-05-31T12:00) of UTC, or with a zone."),
            click.option("--until", metavar="WHEN", help="Started before this day or time."),
            click.option("--like-machine", metavar="MACHINE",
                         help='Measured on a machine like "here", or like one given as CORESxMEMORY: "8x32GiB".'),
            click.option("--origin", type=click.Choice(["own", "imported"]), help="Measured here, or imported."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def query_of(options: dict[str, Any]) -> StudyQuery:
    """The query that `query_options` were given.

    Raises:
        UsageError: a status, a day or a machine that is none.
    """
    from trimtab.history import STUDY_STATUSES, StudyQuery

    status, origin, like = options["status"], options["origin"], options["like_machine"]
    if status is not None and status not in STUDY_STATUSES:
        raise UsageError(f"--status={status!r} is unknown", hint=f"use one of: {', '.join(STUDY_STATUSES)}")
    texts = {name: options[name] for name in ("name", "target", "version", "workload")}
    return StudyQuery(
        **texts,
        status=status,
        since=_moment(options["since"], "--since"),
        until=_moment(options["until"], "--until"),
        like=None if like is None else _machine(like),
        is_own=None if origin is None else origin == "own",
    )


def _moment(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"{option}={text!r} is not a date", hint="write it as 2026-05-31 or 2026-05-31T12:00"
        ) from error


def _machine(text: str) -> Machine:
    from trimtab.host import read_limits
    from trimtab.records import Machine
    from trimtab.units import parse_size

    if text == "here":
        limits = read_limits()
        return Machine(cores=limits.cores, memory_bytes=limits.memory_bytes)
    found = _MACHINE.fullmatch(text)
    memory = 0 if found is None else parse_size(found[2])
    if found is None or not memory:  # what is 0 of a machine counts as not known, and all would be like it
        raise UsageError(f"--like-machine={text!r} is not a machine", hint='write here, or as in "8x32GiB"')
    return Machine(cores=int(found[1]), memory_bytes=memory)


def chosen(history: History, names: Sequence[str], options: dict[str, Any]) -> list[StudySummary]:
    """The studies called `names` (or with that id: "#7"), else those that fit the options; oldest first.

    Raises:
        UsageError: a name that there is not, or names beside options.
    """
    if not names:
        return history.summaries(query_of(options))
    if any(value is not None for value in options.values()):
        raise UsageError("names and filters are given at once", hint="give names, or filters such as --target")
    from trimtab.history import find_studies

    found = {study.id: study for name in names for study in find_studies(history, name)}
    return [found[study_id] for study_id in sorted(found)]


def when(at: float) -> str:
    """A moment for people, in UTC; "unknown" where a format did not hold it, or damage has made it none."""
    from trimtab.history.record import LATEST_S

    return format_time(at) if 0 < at < LATEST_S else "unknown"


def print_studies(studies: Sequence[StudySummary], as_json: bool) -> None:
    """A table, or JSON with every field of each study."""
    from trimtab.cli.options import print_json

    if as_json:
        print_json({"studies": [asdict(study) for study in studies]})
        return
    rows = [
        (f"#{study.id}", study.name, study.status, f"{study.n_trials}", when(study.created_at), study.objective, study.target,
         study.server_version, study.workload, study.origin)
        for study in studies
    ]  # fmt: skip
    table(("id", "name", "status", "trials", "begun", "objective", "target", "version", "workload", "from"), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their widest cell; columns that are empty throughout are left out."""
    from trimtab.report.words import one_line

    cells = [[_short(one_line(cell)) for cell in row] for row in rows]
    kept = [index for index in range(len(head)) if any(row[index] for row in cells)]
    lines = [[head[index] for index in kept], *([row[index] for index in kept] for row in cells)]
    widths = [max(_width(line[index]) for line in lines) for index in range(len(kept))]
    for line in lines:
        click.echo(
            "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def _width(text: str) -> int:
    """In columns of a terminal: letters of East Asia take two, and marks over a letter none."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
