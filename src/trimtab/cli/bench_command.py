"""trimtab bench: one config measured, with the noise floor of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import json_option, print_json, require_one_of, state_option, study_file_argument
from trimtab.errors import UsageError
from trimtab.units import format_figure

if TYPE_CHECKING:
    from trimtab.report import BenchProgress
    from trimtab.study import StudyFile

__all__ = ["command"]


_RUNS = 3
"""Measurements, unless it is said how many."""

_SECTION = re.compile(r"\[.*\]")
_TARGET = re.compile(r"# \[target\.([^\]]+)\]")


def _settings(pairs: tuple[str, ...], config_file: Path | None) -> dict[str, str]:
    return dict(map(_setting, [*(_lines(config_file) if config_file else ()), *pairs]))


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"cannot read setting {text.strip()!r}: write NAME=VALUE")
    return name.strip(), value.strip().strip("'")


def _lines(path: Path) -> Iterator[str]:
    """The settings of a file, without comments and names of sections; behind a line `# [target.NAME]` as NAME.KNOB."""
    prefix = ""
    for line in _read(path).splitlines():
        if (marked := _TARGET.fullmatch(line.strip())) is not None:
            prefix = f"{marked[1]}."
        text = line.partition("#")[0].strip()
        if text and not _SECTION.fullmatch(text):
            yield prefix + text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"cannot read config={str(path)!r}: {error.strerror}", hint="check its path and mode"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"config={str(path)!r} is not UTF-8 text: {error}", hint="write it as UTF-8") from error


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
@click.option("--runs", metavar="N", type=click.IntRange(1, 100), help=f"Number of measurements; default: {_RUNS}.")
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
    runs: int | None,
    slo_text: str | None,
    verbose: bool,
) -> int:
    """Measure the running config, or another one, then restore the server's own config."""
    from trimtab.report import BenchProgress
    from trimtab.study import load_study_file

    require_one_of({"--find-rate": slo_text is not None, "--runs": runs})
    file, settings = load_study_file(study_file), _settings(pairs, config_file)
    with BenchProgress(every_second=verbose) as progress:
        if slo_text is None:
            show = _measured(file, state_dir, settings, runs or _RUNS, progress, as_json)
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
