"""trimtab report: what was tried, found and proven."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import (
    commands_at,
    json_option,
    print_json,
    say,
    state_option,
    study_history_option,
    study_named,
)
from trimtab.cli.query_classes import classes_of, echo_classes, json_of

__all__ = ["command"]


@click.command("report")
@click.argument("name", metavar="NAME|STUDY.toml")
@state_option
@study_history_option
@json_option
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write one self-contained HTML file.")
@click.option("--trials", "show_trials", is_flag=True, help="Also list every trial.")
def command(
    name: str, state_dir: Path, history_url: str | None, as_json: bool, html: Path | None, show_trials: bool
) -> int:
    """Show what the study NAME tried, found and proved, and how to apply and undo it. Reads the history only."""
    from trimtab.history import find_study, read_history_at
    from trimtab.report import print_report, require_html_place, write_html
    from trimtab.study import history_of

    if html is not None:
        require_html_place(html)

    file, name = study_named(name)
    with read_history_at(history_url or history_of(state_dir, name, file), state_dir) as history:
        record = commands_at(state_dir, find_study(history, name), history_url)
        trials = history.trials(record.id)
        classes = classes_of(history, record)
    if html is not None:
        write_html(record, trials, html, classes)
        say(f"wrote {html}")
    if as_json:
        print_json(json_of(record, trials, classes))
    elif html is None or show_trials:
        print_report(record, trials, with_trials=show_trials)
        echo_classes(classes)
    return 0
