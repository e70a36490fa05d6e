"""trimtab history export: studies into a file."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.history_options import query_options
from trimtab.cli.options import say, state_option, study_history_option
from trimtab.errors import UsageError

if TYPE_CHECKING:
    from trimtab.history import Format, History

__all__ = ["command"]


@click.command("export")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--to",
    "place",
    required=True,
    metavar="FILE|URL",
    help="File to write (- for stdout), or for taudb a postgresql:// URL.",
)
@click.option(
    "--format", "format_name", metavar="NAME", help="Format; default: by the file's suffix. See `trimtab plugins`."
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@query_options
@state_option
@study_history_option
def command(
    names: tuple[str, ...], place: str, format_name: str | None, force: bool, state_dir: Path, history_url: str | None,
    **options: Any,
) -> int:  # fmt: skip
    """Write studies to a file: those called NAME, those that match the filters, or all. Warns about data the format cannot store.

    The file appears only when it is complete.
    """
    from trimtab.cli.history_options import chosen
    from trimtab.history import is_database, load_format, read_history_at
    from trimtab.report.words import counted
    from trimtab.study import only_history_of

    if place == "-" and format_name is None:
        raise UsageError("--to - needs --format", hint="add --format jsonl")
    target = load_format(format_name, place)
    if "://" in place and not target.is_database:
        raise UsageError(
            f"format={format_name!r} cannot be written into a database", hint="give a file, or --format taudb"
        )
    if "://" not in place and place != "-" and Path(place).is_dir():
        raise UsageError(f"{place!r} is a directory", hint="give the name of a file in it")
    if "://" not in place and place != "-" and Path(place).is_file() and not force:
        raise UsageError(f"file={place!r} exists already", hint="give another one, or --force")
    if "://" not in place and is_database(Path(place)):
        raise UsageError(f"file={place!r} is a database, perhaps a history", hint="give another one")
    with read_history_at(history_url or only_history_of(state_dir, names), state_dir) as history:
        studies = chosen(history, names, options)
        if not studies:
            raise UsageError("no study fits: nothing was written", hint="`trimtab history list` shows what there is")
        notes = _write(history, [study.id for study in studies], target, place)
    for note in notes:
        say(f"note: {note}")
    say(f"wrote {counted(len(studies), 'study')}")
    return 0


def _write(history: History, study_ids: list[int], target: Format, place: str) -> tuple[str, ...]:
    """Beside the file first, so that a half-written one never bears its name.

    Raises:
        UsageError: the folder is not there, or nothing may be written to it.
        HistoryError: see `export_studies`.
    """
    from trimtab.history import export_studies, is_only_written_to

    if "://" in place:
        return export_studies(history, study_ids, target, place)
    is_stream, goal = place == "-" or is_only_written_to(Path(place)), Path(os.path.realpath(place))
    folder = Path(tempfile.gettempdir()) if is_stream else goal.parent
    if not folder.is_dir():
        raise UsageError(f"there is no directory {str(folder)!r}", hint="make it first")
    with ExitStack() as stack:
        with _writing(place):
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix=".trimtab-export-", dir=folder))
        part = Path(directory) / "part"
        # what has no room or may not be written is the folder of the copy, where that is not beside the file
        notes = export_studies(history, study_ids, target, str(part), shown=str(folder) if is_stream else place)
        if place == "-":
            sys.stdout.buffer.write(part.read_bytes())
            sys.stdout.buffer.flush()
        else:
            with _writing(place):
                _put(part, place, goal, is_stream=is_stream)
    return notes


def _put(part: Path, place: str, goal: Path, *, is_stream: bool) -> None:
    """What was written goes where it was wanted: a link goes on pointing to it, and a device or a pipe stays one."""
    if is_stream:
        with part.open("rb") as written, open(place, "wb") as stream:
            shutil.copyfileobj(written, stream)
        return
    if goal.exists():
        shutil.copymode(goal, part)
    os.replace(part, goal)


@contextmanager
def _writing(place: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of a pipe has gone: the path is not at fault
    except OSError as error:
        raise UsageError(
            f"cannot write {place!r}: {error.strerror}", hint="give a path that you may write to"
        ) from error
