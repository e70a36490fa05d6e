"""trimtab doctor: what can be reached, read, changed and restarted."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import json_option, print_json, state_option, study_file_argument

__all__ = ["command"]


@click.command("doctor")
@study_file_argument
@state_option
@json_option
def command(study_file: Path, state_dir: Path, as_json: bool) -> int:
    """Say what can be reached, read, changed and restarted, and what is locked and why. Changes nothing.

    Exits with 1 when something is not fine.
    """
    from trimtab.study import load_study_file, open_stage

    file = load_study_file(study_file)
    with open_stage(file, state_dir) as stage:
        checks = list(stage.target.doctor())
        checks.append(
            ("workload", True, f"{stage.workload.context.workload}, {stage.workload.context.clients} clients")
        )
        checks.append(("space", True, f"{len(stage.space.knobs)} knobs, {len(stage.space.constraints)} constraints"))
        broken = stage.space.violations(stage.baseline)
        checks.append(("running config", not broken, "; ".join(broken) or "meets every constraint"))
    is_fine = all(fine for _, fine, _ in checks)
    if as_json:
        print_json({"is_fine": is_fine, "checks": [{"check": c, "is_fine": f, "text": t} for c, f, t in checks]})
    else:
        for check, fine, text in checks:
            click.echo(f"{'ok  ' if fine else 'FAIL'}  {check}: {text}")
    return 0 if is_fine else 1
