"""trimtab rank: which knobs matter."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.options import (
    in_history,
    json_option,
    print_json,
    say,
    state_option,
    study_history_option,
    study_named,
)
from trimtab.errors import UsageError
from trimtab.units import counted

if TYPE_CHECKING:
    from trimtab.study import StudyFile

__all__ = ["command"]


@click.command("rank")
@click.argument("study", metavar="STUDY.toml|NAME")
@state_option
@study_history_option
@json_option
@click.option("--with", "beside", multiple=True, metavar="NAME",
              help="Also use the trials of this study (same knobs, baseline, workload, objective); repeatable.")  # fmt: skip
@click.option("--ranker", "rankers", multiple=True, metavar="NAME",
              help="Use this ranker; repeatable. Default: all that fit the trials.")  # fmt: skip
@click.option("--top", metavar="N", type=click.IntRange(1), help="Show the first N knobs only.")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the ranking with plots as one HTML file.",
)
@click.option("--design", metavar="KIND", help="First measure a planned experiment: sard, lhs, sobol or one-at-a-time.")
@click.option(
    "--runs", metavar="N", type=click.IntRange(1), help="Number of runs; default: as many as the design needs."
)
@click.option("--again", is_flag=True, help="Start a new experiment even if one can be resumed.")
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
def command(
    study: str, state_dir: Path, history_url: str | None, as_json: bool, beside: tuple[str, ...],
    rankers: tuple[str, ...], top: int | None, html: Path | None, design: str | None, runs: int | None, again: bool, quiet: bool,
) -> int:  # fmt: skip
    """Rank the knobs by their effect, from trials in the history. Measures nothing unless --design is given.

    With --design, a planned experiment is measured first, as the separate study NAME.rank-KIND. The same command resumes
    it, and a higher --runs extends it. Exit code 0: the knobs could be ranked; 1: not enough data to tell.
    """
    from trimtab.history import fixed_place, read_history_at
    from trimtab.report import print_rank, rank_to_json, require_html_place, write_rank_html
    from trimtab.study import history_of, make_rankers, rank_study
    from trimtab.trial.command_line import command_at

    make_rankers(rankers)
    if html is not None:
        require_html_place(html)
    file, name = study_named(study)
    _require_design(design, runs, again, file, study)
    url = history_url or history_of(state_dir, name, file)
    if file is not None and design is not None:
        if url != file.history:
            there = url and fixed_place(url)
            file = file.model_copy(update={"study": file.study.model_copy(update={"history": there})})
        name = _measured(file, state_dir, design, runs, again, quiet)
        if not name:
            return 130
    with read_history_at(url, state_dir) as history:
        ranked = rank_study(history, name, beside=beside, rankers=rankers)
    next_command = f"trimtab rank {quote(study) if file is not None else 'STUDY.toml'} --design {design or 'lhs'}"
    next_command = in_history(f"{next_command} --runs {ranked.next_runs}", history_url)
    is_measurable = "session" not in ranked.record.settings  # whose program makes its trials: there is no study file
    next_command = command_at(state_dir, next_command) if ranked.next_runs and is_measurable else ""
    shown: dict[str, Any] = {"sources": ranked.sources, "top": top, "next_command": next_command}
    if as_json:
        print_json(rank_to_json(ranked.record, ranked.consensus, **shown))
    else:
        print_rank(ranked.record, ranked.consensus, **shown)
    if html is not None:  # last: a disk that is full must not cost the result
        write_rank_html(ranked.record, ranked.consensus, ranked.trials, html, sources=ranked.sources)
        say(f"wrote {html}")
    return 1 if ranked.consensus.verdict else 0


def _require_design(design: str | None, runs: int | None, again: bool, file: StudyFile | None, study: str) -> None:
    if design is None and (runs is not None or again):
        what = f"--runs {runs}" if runs is not None else "--again"
        raise UsageError(f"{what} without --design", hint="say which: --design lhs, sobol, sard or one-at-a-time")
    if design is not None and file is None:
        raise UsageError(
            f"--design {design} measures, and {study!r} names no study file",
            hint="give the study file: trimtab rank STUDY.toml --design ...",
        )


def _measured(file: StudyFile, state_dir: Path, design: str, runs: int | None, again: bool, quiet: bool) -> str:
    """Makes the runs; returns the name of the design's study, "" when it was interrupted."""
    from trimtab.report import Progress
    from trimtab.report.printing import progress_console
    from trimtab.study import run_design

    with Progress(progress_console(quiet=quiet)) as progress:
        record, trials = run_design(file, state_dir, progress, kind=design, runs=runs, again=again, say=say)
    if record.status != "ranked":
        on = "" if again else "; the same command goes on"
        say(f"interrupted after {counted(len(trials), 'trial')}{on}")
        return ""
    return record.name
