"""trimtab engine: what a server that tunes its own queries has learnt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import json_option, print_json, state_option, study_file_argument

if TYPE_CHECKING:
    from trimtab.study import StudyFile

__all__ = ["command"]


@click.command("engine")
@study_file_argument
@state_option
@json_option
@click.option(
    "--mode",
    type=click.Choice(["off", "observe", "tune"]),
    help="Set the extension's mode for the whole server, permanently; loads it where it is installed and not loaded.",
)
@click.option(
    "--install",
    "is_install",
    is_flag=True,
    help="Build the extension and put it where the server looks; needs a C compiler and the server's header files.",
)
@click.option(
    "--sql",
    "as_sql",
    is_flag=True,
    help="Print it as ALTER ROLE ... SET and hints, for servers without the extension.",
)
@click.option(
    "--advice", "as_advice", is_flag=True, help="Print settings that help most of the time as lines of a study file."
)
@click.option(
    "--hints",
    "winner",
    metavar="NAME",
    help="Have each new class try the proven winner of the study NAME first, permanently.",
)
def command(
    study_file: Path,
    state_dir: Path,
    as_json: bool,
    mode: str | None,
    is_install: bool,
    as_sql: bool,
    as_advice: bool,
    winner: str | None,
) -> int:
    """Show what PostgreSQL has learnt about its queries with the extension, for the target that has `in_engine = true`.

    Changes nothing, except with --install, --mode and --hints.
    """
    from trimtab.study import engine_advice, engine_classes, install_engine, load_study_file, switch_engine

    file = load_study_file(study_file)
    if sum((as_json, as_sql, as_advice, is_install, mode is not None, winner is not None)) > 1:
        raise click.UsageError("use only one of --json, --sql, --advice, --install, --mode and --hints")
    if is_install:
        for path in install_engine(file, state_dir):
            click.echo(path)
        return 0
    if mode is not None:
        says = switch_engine(file, state_dir, mode)
        click.echo(f"trimtab.mode = {mode}")
        if says:
            click.echo(says)
        return 0
    if winner is not None:
        _hint(file, state_dir, winner)
        return 0
    if as_sql:
        click.echo(engine_advice(file, state_dir), nl=False)
        return 0
    classes = engine_classes(file, state_dir)
    if as_json:
        print_json({"classes": classes})
        return 0
    from trimtab.report import advice_toml, engine_text

    click.echo(advice_toml(classes) if as_advice else engine_text(classes))
    return 0


def _hint(file: StudyFile, state_dir: Path, name: str) -> None:
    from trimtab.history import find_study, read_history_at
    from trimtab.study import hint_engine, history_of

    with read_history_at(history_of(state_dir, name, file), state_dir) as history:
        record = find_study(history, name)
    hints = hint_engine(file, state_dir, record)
    click.echo("trimtab.hints = " + ", ".join(f"{knob}={value}" for knob, value in hints.items()))
