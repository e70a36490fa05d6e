"""trimtab bench-search: which searcher would have done best on a past study."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli.options import json_option, print_json, say, state_option, study_history_option, study_named

__all__ = ["command"]


@click.command("bench-search")
@click.argument("name", metavar="NAME|STUDY.toml|FILE")
@state_option
@study_history_option
@json_option
@click.option(
    "--searchers", metavar="A,B,C", help="Searchers to compare; default: auto,forest,bestconfig,nelder-mead,random."
)
@click.option(
    "--trials",
    "n_trials",
    metavar="N",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Trials per run.",
)
@click.option(
    "--repeats",
    "n_repeats",
    metavar="N",
    type=click.IntRange(2),
    default=8,
    show_default=True,
    help="Runs per searcher.",
)
@click.option(
    "--exact", "is_exact", is_flag=True, help="Answer with the nearest recorded config instead of a random forest."
)
@click.option("--study", "study", metavar="NAME", help="Which study of FILE to use if it holds several.")
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
def command(
    name: str, state_dir: Path, history_url: str | None, as_json: bool, searchers: str | None, n_trials: int,
    n_repeats: int, is_exact: bool, study: str | None, quiet: bool,
) -> int:  # fmt: skip
    """Compare searchers on a past study, without a server. Its recorded trials, failures and noise are replayed.

    NAME is a study in the history, STUDY.toml the file of one, FILE a file that `trimtab history export` wrote (jsonl,
    parquet, csv, ...). Exit code 0: the first searcher is significantly better than another; 1: it is not.
    """
    from trimtab.errors import UsageError
    from trimtab.report.search_bench import print_search_bench
    from trimtab.study import history_of
    from trimtab.study.replay import find_recorded_at, make_replay
    from trimtab.study.search_bench import DEFAULT_SEARCHERS, bench_search

    file, name = study_named(name) if name.endswith(".toml") else (None, name)
    if study is not None and not Path(name).is_file():
        raise UsageError(
            f"--study={study!r} chooses a study of a file, and there is no file={name!r}",
            hint="give the file; a study of the history is named without --study",
        )
    copy = find_recorded_at(history_url or history_of(state_dir, name, file), state_dir, name, study)
    chosen = (
        DEFAULT_SEARCHERS if searchers is None else tuple(part.strip() for part in searchers.split(",") if part.strip())
    )
    found = bench_search(
        make_replay(copy.record, copy.trials, is_exact=is_exact), searchers=chosen, n_trials=n_trials, n_repeats=n_repeats,
        say=(lambda text: None) if quiet else say,
    )  # fmt: skip
    if as_json:
        print_json(found.to_json())
    else:
        print_search_bench(found.to_json())
    return 0 if found.beaten else 1
