"""trimtab tune: the main job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import (
    commands_at,
    json_option,
    print_json,
    say,
    state_option,
    study_file_argument,
    study_history_option,
)
from trimtab.cli.query_classes import classes_of, echo_classes, json_of

if TYPE_CHECKING:
    from trimtab.history import StudyRecord
    from trimtab.records import QueryClass, Trial

__all__ = ["command"]

_EXIT = {"better": 0, "no_improvement": 1, "interrupted": 130}
_STOPPED = 130
"""Also where a winner was proven before: no command that waits for this one shall follow a Ctrl-C."""


@click.command("tune")
@study_file_argument
@state_option
@study_history_option
@json_option
@click.option(
    "--again", is_flag=True, help="Start a new study even if one of this name exists, of this host or another."
)
@click.option("--budget", metavar="TIME|TRIALS", help='Override the study file\'s budget: "5m" or "40 trials".')
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Also write the report as one HTML file.")
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
def command(
    study_file: Path, state_dir: Path, history_url: str | None, as_json: bool, again: bool, budget: str | None,
    html: Path | None, quiet: bool,
) -> int:  # fmt: skip
    """Find a config that is better than the running one and prove it, then restore the server's own config.

    The same command resumes a study that was stopped. Ctrl-C stops cleanly and keeps all results, also a winner that is proven.
    Exit code 0: a better config was proven; 1: no improvement was found.
    """
    from trimtab.study import Budget, load_study_file

    file = load_study_file(study_file)  # before the rest is loaded: a slip in the file is told at once
    if budget is not None:
        Budget.parse(budget)
    from trimtab.history import fixed_place, read_history_at
    from trimtab.report import Progress, require_html_place
    from trimtab.report.printing import progress_console
    from trimtab.study import remember_file, tune

    def remember() -> None:  # `apply` obeys what is remembered: not before the history has taken the study
        remember_file(state_dir, file.study.name, study_file, history=history_url)

    said = {"budget": budget, "history": history_url and fixed_place(history_url)}
    changes = {key: value for key, value in said.items() if value is not None}
    file = file.model_copy(update={"study": file.study.model_copy(update=changes)})
    if html is not None:
        require_html_place(html)
    with Progress(progress_console(quiet=quiet)) as progress:
        record, trials = tune(file, state_dir, progress, again=again, say=say, on_accept=remember)
    with read_history_at(file.history, state_dir) as history:
        classes = classes_of(history, record)
    _show(commands_at(state_dir, record), trials, classes, as_json, html)
    code = _STOPPED if record.verdict.is_stopped else _EXIT[record.verdict.result]
    if code == _STOPPED and not again:
        say("the same command resumes this study")
    return code


def _show(
    record: StudyRecord, trials: Sequence[Trial], classes: Sequence[QueryClass] | None, as_json: bool, html: Path | None
) -> None:
    """The report, on stdout and as a page."""
    from trimtab.report import print_report, write_html

    if as_json:
        print_json(json_of(record, trials, classes))
    else:
        print_report(record, trials)
        echo_classes(classes)
    if html is not None:  # last: a disk that is full must not cost the result
        write_html(record, trials, html, classes)
        if not as_json:
            say(f"report: {html}")
