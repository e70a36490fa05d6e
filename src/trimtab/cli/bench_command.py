"""trimtab bench: one config measured, with the noise floor of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.options import json_option, print_json, say, state_option, study_file_argument

if TYPE_CHECKING:
    from trimtab.study import BenchResult
    from trimtab.workload import Frame

__all__ = ["command"]


class _Lines:
    def step(self, name: str) -> None:
        pass

    def second(self, frame: Frame) -> None:
        pass


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


def _as_json(result: BenchResult) -> dict[str, Any]:
    value = result.value
    return {
        "config": dict(result.config),
        "metric": result.objective.metric,
        "unit": result.objective.unit,
        "value": {"estimate": value.estimate, "low": value.low, "high": value.high, "level": value.level},
        "noise": {"relative_sd": result.noise.relative_sd, "floor": result.noise.floor, "n": result.noise.n},
        "runs": [
            {
                "throughput": t.measurement.throughput.estimate,
                "latency_mean_ms": t.measurement.latency_mean_ms.estimate,
                **{f"latency_{name}_ms": i.estimate for name, i in t.measurement.latency_ms.items()},
                "n_ok": t.measurement.n_ok,
                "n_error": t.measurement.n_error,
                "n_timed_out": t.measurement.n_timed_out,
                "duration_s": t.measurement.duration_s,
                "warmup_s": t.measurement.warmup_s,
                "is_steady": t.measurement.is_steady,
                "client_cpu_share": t.measurement.client_cpu_share,
            }
            for t in result.trials
            if t.measurement is not None
        ],
    }


def _as_text(result: BenchResult) -> None:
    value, unit = result.value, result.objective.unit
    click.echo(
        f"{result.objective.metric}: {value.estimate:.4g}{unit} "
        f"({value.level:.0%} interval {value.low:.4g} to {value.high:.4g}, {len(result.trials)} runs)"
    )
    for trial in result.trials:
        m = trial.measurement
        if m is not None:
            percentiles = ", ".join(f"{name} {i.estimate:.4g} ms" for name, i in m.latency_ms.items())
            click.echo(
                f"  run {trial.number + 1}: {m.throughput.estimate:.4g}/s, mean {m.latency_mean_ms.estimate:.4g} ms, "
                f"{percentiles}; {m.n_ok} ok, {m.n_error} failed, {m.n_timed_out} timed out in {m.duration_s:g} s "
                f"after {m.warmup_s:g} s of warm-up{'' if m.is_steady else ' (not steady)'}"
            )
    if result.noise.n >= 2:
        click.echo(f"noise of this machine: {result.noise.relative_sd:.1%} from run to run (standard deviation)")


@click.command("bench")
@study_file_argument
@state_option
@json_option
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A knob to set for this measurement; repeatable."
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with NAME = VALUE lines, such as the fragment that `tune` writes.",
)
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 100), help="Times it is measured.")
def command(
    study_file: Path, state_dir: Path, as_json: bool, pairs: tuple[str, ...], config_file: Path | None, runs: int
) -> int:
    """Measure the running config, or another one, and leave the target as it was found."""
    from trimtab.study import bench, load_study_file

    file, settings = load_study_file(study_file), _settings(pairs, config_file)
    result = bench(file, state_dir, settings=settings, n_runs=runs, listener=_Lines(), say=say)
    if as_json:
        print_json(_as_json(result))
    else:
        _as_text(result)
    return 0
