"""trimtab bench: one config measured, with the noise floor of this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import json_option, print_json, state_option, study_file_argument
from trimtab.units import format_figure

if TYPE_CHECKING:
    from trimtab.report import BenchProgress
    from trimtab.study import StudyFile

__all__ = ["command"]


def _settings(pairs: tuple[str, ...], config_file: Path | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    lines = config_file.read_text(encoding="utf-8").splitlines() if config_file else []
    for text in [*(line.partition("#")[0] for line in lines), *pairs]:
        if not text.strip():
            continue
        name, sign, value = text.partition("=")
        if not sign:
            raise click.UsageError(f"cannot read setting {text.strip()!r}: write NAME=VALUE")
        settings[name.strip()] = value.strip().strip("'")
    return settings


_LIMITS = {
    "server": "at {broken}/s it is not kept",
    "generator": "at {broken}/s the load generator, and not the server, was at its end: the true rate may be higher",
    "none": "no rate was found that breaks it",
}


@click.command("bench")
@study_file_argument
@state_option
@json_option
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Change a knob for this measurement; repeatable."
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with NAME = VALUE lines, such as the fragment that `tune` writes for a database.",
)
@click.option(
    "--runs", metavar="N", default=3, show_default=True, type=click.IntRange(1, 100), help="Number of measurements."
)
@click.option(
    "--find-rate",
    "slo_text",
    metavar="SLO",
    help='Instead of the runs, find the highest rate that meets a latency goal such as "p99 <= 20ms".',
)
@click.option("--verbose", "-v", is_flag=True, help="Print a line on stderr for every second of load.")
def command(
    study_file: Path,
    state_dir: Path,
    as_json: bool,
    pairs: tuple[str, ...],
    config_file: Path | None,
    runs: int,
    slo_text: str | None,
    verbose: bool,
) -> int:
    """Measure the running config, or another one, then restore the server's own config."""
    from trimtab.report import BenchProgress
    from trimtab.study import load_study_file

    file, settings = load_study_file(study_file), _settings(pairs, config_file)
    with BenchProgress(every_second=verbose) as progress:
        if slo_text is None:
            show = _measured(file, state_dir, settings, runs, progress, as_json)
        else:
            show = _rate_found(file, state_dir, settings, slo_text, progress, as_json)
    show()  # after the live table is gone
    return 0


def _measured(
    file: StudyFile, state_dir: Path, settings: dict[str, str], runs: int, progress: BenchProgress, as_json: bool
) -> Callable[[], None]:
    """Measures; the result shows the figures."""
    from trimtab.report import bench_to_json, print_bench
    from trimtab.study import bench

    r = bench(file, state_dir, settings=settings, n_runs=runs, listener=progress, say=progress.say)
    if as_json:
        return lambda: print_json(bench_to_json(r.config, r.trials, r.objective, r.value, r.noise, r.remarks))
    return lambda: print_bench(r.trials, r.objective, r.value, r.noise, remarks=r.remarks)


def _rate_found(
    file: StudyFile, state_dir: Path, settings: dict[str, str], text: str, progress: BenchProgress, as_json: bool
) -> Callable[[], None]:
    """Searches; the result shows the rate."""
    from trimtab.study import Slo, find_rate, rate_to_json

    r = find_rate(file, state_dir, slo=Slo.parse(text), settings=settings, listener=progress, say=progress.say)
    if as_json:
        return lambda: print_json({"find_rate": rate_to_json(r)})
    limit = _LIMITS[r.limit].format(broken=format_figure(r.broken_at_per_s))
    return lambda: click.echo(f"{r.slo.text}: kept up to {format_figure(r.rate_per_s)}/s; {limit}")
