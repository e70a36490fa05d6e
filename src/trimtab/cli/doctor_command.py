"""trimtab doctor: what can be reached, read, changed and restarted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import json_option, print_json, state_option, study_file_argument, tell_changed

if TYPE_CHECKING:
    from trimtab.study import StudyFile

__all__ = ["command"]


@click.command("doctor")
@study_file_argument
@state_option
@json_option
@click.option(
    "--grant-sql",
    is_flag=True,
    help="Print SQL that creates a role with only the rights the study needs, for each database among its targets.",
)
@click.option("--role", default="", metavar="NAME", help="With --grant-sql: the role's name.")
def command(study_file: Path, state_dir: Path, as_json: bool, grant_sql: bool, role: str) -> int:
    """Check access, rights and restarts, and show what is locked and why. Changes nothing.

    Exit code 1: something prevents a study, or what it asks for. A running config that breaks a constraint is only noted:
    it is measured anyway.
    """
    from trimtab.study import checks_of, load_study_file, open_stage

    file = load_study_file(study_file)
    if role and not grant_sql:
        raise click.UsageError("--role goes with --grant-sql")
    if grant_sql:
        return _print_grants(file, state_dir, role, as_json)
    with open_stage(file, state_dir, changes=False) as stage:
        tell_changed(stage, state_dir)
        checks = checks_of(stage, state_dir)
    is_fine = all(each.verdict != "fail" for each in checks)
    if as_json:
        print_json({"is_fine": is_fine, "checks": checks})
    else:
        for each in checks:
            click.echo(f"{'FAIL' if each.verdict == 'fail' else each.verdict:4}  {each.check}: {each.text}")
    return 0 if is_fine else 1


def _print_grants(file: StudyFile, state_dir: Path, role: str, as_json: bool) -> int:
    from trimtab.study import grant_sql

    grants = grant_sql(file, state_dir, role=role)
    is_one, is_enough = len(file.target) == 1, all(grant.is_enough for grant in grants.values())
    text = "\n".join(
        grant.sql if is_one else f"-- [target.{name}]: to be run on this server\n{grant.sql}"
        for name, grant in grants.items()
    )
    if as_json:
        targets = {name: {"is_enough": grant.is_enough, "sql": grant.sql} for name, grant in grants.items()}
        print_json({"is_enough": is_enough, "sql": text} | ({} if is_one else {"targets": targets}))
    else:
        click.echo(text, nl=False)
    return 0 if is_enough else 1
