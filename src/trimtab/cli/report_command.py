"""trimtab report: what was tried, found and proven."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import history_option, json_option, print_json, say, state_option

__all__ = ["command"]


@click.command("report")
@click.argument("name")
@state_option
@history_option
@json_option
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write one self-contained HTML file.")
@click.option("--trials", "show_trials", is_flag=True, help="Also list every trial.")
def command(
    name: str, state_dir: Path, history_url: str | None, as_json: bool, html: Path | None, show_trials: bool
) -> int:
    """Show what the study NAME tried, found and proved, and how to apply and undo it. Reads the history only."""
    from trimtab.history import find_study, read_history_at
    from trimtab.report import engine_text, kept_classes, print_report, to_json, write_html

    with read_history_at(history_url, state_dir) as history:
        record = find_study(history, name)
        trials = history.trials(record.id)
        classes = kept_classes(history.events(record.id))
    if html is not None:
        write_html(record, trials, html, classes)
        say(f"wrote {html}")
    if as_json:
        print_json(to_json(record, trials) | ({} if classes is None else {"query_classes": classes}))
    elif html is None:
        print_report(record, trials, with_trials=show_trials)
        if classes is not None:
            click.echo(
                f"\nClasses of queries that the server tunes itself, at the end of the study:\n{engine_text(classes)}"
            )
    return 0
