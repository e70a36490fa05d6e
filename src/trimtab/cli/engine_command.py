"""trimtab engine: what a server that tunes its own queries has learnt."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import json_option, print_json, state_option, study_file_argument

__all__ = ["command"]


@click.command("engine")
@study_file_argument
@state_option
@json_option
@click.option(
    "--mode",
    type=click.Choice(["off", "observe", "tune"]),
    help="Set the extension's mode for the whole server, permanently.",
)
@click.option(
    "--sql",
    "as_sql",
    is_flag=True,
    help="Print it as ALTER ROLE ... SET and hints, for servers without the extension.",
)
def command(study_file: Path, state_dir: Path, as_json: bool, mode: str | None, as_sql: bool) -> int:
    """Show what PostgreSQL has learnt about its queries with the extension, for the target that has `in_engine = true`.

    Changes nothing, except with --mode.
    """
    from trimtab.study import engine_advice, engine_classes, load_study_file, switch_engine

    file = load_study_file(study_file)
    if sum((as_json, as_sql, mode is not None)) > 1:
        raise click.UsageError("use only one of --json, --sql and --mode")
    if mode is not None:
        switch_engine(file, state_dir, mode)
        click.echo(f"trimtab.mode = {mode}")
        return 0
    if as_sql:
        click.echo(engine_advice(file, state_dir), nl=False)
        return 0
    classes = engine_classes(file, state_dir)
    if as_json:
        print_json({"classes": classes})
        return 0
    from trimtab.report import engine_text

    click.echo(engine_text(classes))
    return 0
