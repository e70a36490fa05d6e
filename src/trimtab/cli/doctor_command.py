"""trimtab doctor: what can be reached, read, changed and restarted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import json_option, print_json, state_option, study_file_argument

if TYPE_CHECKING:
    from trimtab.study import StudyFile

__all__ = ["command"]

_ROOT = "programs of the server run as its own user; a user who may restart the server and write its files is enough"

_REMARKS = ("memory use", "running config")
"""Checks of the user's own config: a study measures it as it is, even where no candidate may be like it."""


@click.command("doctor")
@study_file_argument
@state_option
@json_option
@click.option(
    "--grant-sql",
    is_flag=True,
    help="Print the SQL that makes a role with just the rights the study needs, and no more.",
)
@click.option("--role", default="", metavar="NAME", help="With --grant-sql: the role's name.")
def command(study_file: Path, state_dir: Path, as_json: bool, grant_sql: bool, role: str) -> int:
    """Say what can be reached, read, changed and restarted, and what is locked and why. Changes nothing.

    Exits with 1 when something stands in a study's way. A running config that breaks a constraint is noted only: it is
    measured all the same.
    """
    from trimtab.report.words import counted
    from trimtab.study import load_study_file, open_stage

    file = load_study_file(study_file)
    if role and not grant_sql:
        raise click.UsageError("--role goes with --grant-sql")
    if grant_sql:
        return _print_grants(file, state_dir, role, as_json)
    with open_stage(file, state_dir) as stage:
        checks, context = list(stage.target.doctor()), stage.workload.context
        checks.append(("workload", True, f"{context.workload}, {counted(context.clients, 'client')}"))
        checks.append(
            (
                "space",
                True,
                f"{counted(len(stage.space.knobs), 'knob')}, {counted(len(stage.space.constraints), 'constraint')}",
            )
        )
        if os.geteuid() == 0:
            checks.append(("user", True, f"root: {_ROOT}"))
        broken = stage.space.violations(stage.baseline)
        told = f"{'; '.join(broken)}; it is measured all the same" if broken else "meets every constraint"
        checks.append(("running config", not broken, told))
    rows = [(check, "ok" if fine else "note" if check in _REMARKS else "FAIL", text) for check, fine, text in checks]
    is_fine = all(verdict != "FAIL" for _, verdict, _ in rows)
    if as_json:
        found = [{"check": check, "verdict": verdict.lower(), "text": text} for check, verdict, text in rows]
        print_json({"is_fine": is_fine, "checks": found})
    else:
        for check, verdict, text in rows:
            click.echo(f"{verdict:4}  {check}: {text}")
    return 0 if is_fine else 1


def _print_grants(file: StudyFile, state_dir: Path, role: str, as_json: bool) -> int:
    from trimtab.study import grant_sql

    text, is_enough = grant_sql(file, state_dir, role=role)
    if as_json:
        print_json({"is_enough": is_enough, "sql": text})
    else:
        click.echo(text, nl=False)
    return 0 if is_enough else 1
