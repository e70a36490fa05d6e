"""trimtab history show: one study and its trials."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import in_history, json_option, print_json, state_option, study_history_option
from trimtab.errors import UsageError

if TYPE_CHECKING:
    from trimtab.history import StudyCopy
    from trimtab.records import Machine, Trial

__all__ = ["command"]

_MOST_CHANGES = 6


@click.command("show")
@click.argument("name")
@state_option
@study_history_option
@json_option
@click.option("--trial", "number", type=int, metavar="NUMBER", help="Show everything stored about this trial.")
def command(name: str, state_dir: Path, history_url: str | None, as_json: bool, number: int | None) -> int:
    """Show the study NAME (the newest of that name; "#7" means the study of id 7) and its trials, as they are stored."""
    from trimtab.cli.history_options import chosen
    from trimtab.history import read_history_at
    from trimtab.study import history_of
    from trimtab.trial.command_line import command_at

    with read_history_at(history_url or history_of(state_dir, name), state_dir) as history:
        study = history.copy(chosen(history, [name], {})[-1].id)
    trials = [trial for trial in study.trials if number in (None, trial.number)]
    if number is not None and not trials:
        whole = command_at(state_dir, in_history(f"trimtab history show {quote(name)}", history_url))
        raise UsageError(f"study {name!r} has no trial {number}", hint=f"it has {len(study.trials)}; see `{whole}`")
    if as_json:
        print_json(_as_json(study, trials))
    elif number is not None:
        _print_trial(trials[0])
    else:
        _print_study(study)
    return 0


def _as_json(study: StudyCopy, trials: list[Trial]) -> dict[str, object]:
    from trimtab.jsonable import strict

    return {"study": strict(study.record), "trials": strict(trials), "events": strict(study.events)}


def _print_study(study: StudyCopy) -> None:
    from trimtab.cli.history_options import table, when
    from trimtab.report.values import ValueTexts
    from trimtab.report.words import one_line, workload_text

    record = study.record
    facts = {
        "study": f"{record.name} (id {record.id})",
        "status": record.status,
        "begun": when(record.created_at),
        "imported": record.origin and f"from {record.origin}",
        "objective": record.objective,
        "workload": workload_text(record.context),
        "server": record.machine.server_version,
        "host": record.machine.hostname,
        "machine": _machine_text(record.machine),
        "trials": f"{len(study.trials):,}",
        "events": f"{len(study.events):,}",
    }
    for key, value in facts.items():
        if value:
            click.echo(f"{key + ':':11}{one_line(value)}")
    if not study.trials:
        return
    click.echo()
    rows, texts = [], ValueTexts(record)
    for trial in study.trials:
        changed = [
            f"{name}={texts.of(name, trial.config.get(name))}" for name in trial.config.difference(record.baseline)
        ]
        more = f" and {len(changed) - _MOST_CHANGES} more" if len(changed) > _MOST_CHANGES else ""
        loss = "" if trial.loss is None else f"{trial.loss:+z.3f}"  # z: no -0.000
        rows.append((str(trial.number), trial.role.value, trial.status.value, loss, trial.searcher,
                     ", ".join(changed[:_MOST_CHANGES]) + more))  # fmt: skip
    table(("trial", "role", "status", "loss", "searcher", "changed"), rows)


def _machine_text(machine: Machine) -> str:
    """Its cores and memory, as far as they are known: a file that was imported need not tell both."""
    from trimtab.units import counted, format_size

    cores = counted(machine.cores, "core") if machine.cores else ""
    memory = f"{format_size(machine.memory_bytes)} of memory" if machine.memory_bytes else ""
    return ", ".join(filter(None, (cores, memory)))


def _print_trial(trial: Trial) -> None:
    from trimtab.jsonable import strict
    from trimtab.report.words import one_line

    def show(value: object, indent: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, dict) and item:
                    click.echo(f"{indent}{one_line(key)}:")
                    show(item, indent + "  ")
                elif item not in (None, "", [], {}):
                    click.echo(f"{indent}{one_line(key)}: {one_line(item)}")

    show(strict(trial), "")
