"""trimtab profile: a live server's own statements as a workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import NumberRange, json_option, print_json, say, state_option, study_file_argument
from trimtab.units import counted, format_duration, format_figure, format_percent

if TYPE_CHECKING:
    from trimtab.workload.sql.profile import Profile

__all__ = ["command"]

_WIDTH = 72


def _as_text(profile: Profile, study_file: Path) -> None:
    window = format_duration(profile.window_s)
    watched = f"watched for {window}" if profile.window_s else "since the statistics were last reset"
    calls, busy = counted(profile.calls, "call"), format_duration(profile.time_ms / 1e3)
    click.echo(f"{profile.database}: {calls}, {busy} of execution, {watched}")
    click.echo(
        f"the mix covers {format_percent(profile.share_of_calls, 1)} of the calls "
        f"and {format_percent(profile.share_of_time, 1)} of the execution time"
    )
    click.echo(f"\n{'statement':<16}{'calls':>8}{'time':>8}{'mean':>12}  parameters")
    for p in profile.proposals:
        time_share = p.time_ms / profile.time_ms if profile.time_ms else 0.0
        unknown = f"to be filled in: {', '.join(p.unknown)}" if p.unknown else f"{len(p.generators)} known"
        click.echo(
            f"{p.label:<16}{format_percent(p.calls / profile.calls, 1):>8}{format_percent(time_share, 1):>8}"
            f"{format_figure(p.time_ms / p.calls):>9} ms  {unknown}{' (writes)' if p.writes else ''}"
        )
    if profile.left_out:
        click.echo("\nleft out:")
    for s in profile.left_out:
        text = " ".join(s.text.split())
        shown = text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
        click.echo(f"  {counted(s.calls, 'call')}, {format_figure(s.time_ms)} ms: {s.reason}: {shown}")
    click.echo(f"\nwrote {study_file}")
    click.echo(
        "its [target] is still the server that was watched: name a test server there first, "
        "or this load is added to that of its users"
    )
    n_unknown = sum(len(p.unknown) for p in profile.proposals)
    if n_unknown:
        unknown = counted(n_unknown, "parameter")
        click.echo(f'next: fill in {unknown} of type "?" in it, then trimtab bench {quote(str(study_file))}')
    else:
        click.echo(f"next: trimtab bench {quote(str(study_file))}")


@click.command("profile")
@study_file_argument
@state_option
@json_option
@click.option("--seconds", "window_s", metavar="SECONDS", default=0.0, type=NumberRange(0, 86_400), show_default=True,
              help="Seconds to observe; 0 uses everything since the statistics were reset.")  # fmt: skip
@click.option("--database", metavar="NAME", help="Database to observe; default: the one in the target's url.")
@click.option("--coverage", metavar="SHARE", default=0.95, type=NumberRange(0, 1, min_open=True), show_default=True,
              help="Share of execution time and of calls that the mix should cover.")  # fmt: skip
@click.option(
    "--most",
    metavar="N",
    default=30,
    type=click.IntRange(1, 500),
    show_default=True,
    help="Maximum number of statements.",
)
@click.option("--output", "folder", metavar="DIRECTORY", type=click.Path(path_type=Path), default=Path("profile"),
              show_default=True,
              help="New folder for the study file and the scripts (one folder per target if there are several).")  # fmt: skip
def command(
    study_file: Path,
    state_dir: Path,
    as_json: bool,
    window_s: float,
    database: str | None,
    coverage: float,
    most: int,
    folder: Path,
) -> int:
    """Write a workload from the statements of a live server (pg_stat_statements). Changes nothing on the server."""
    from trimtab.study import load_study_file
    from trimtab.study.moved import moved_text
    from trimtab.study.profile import profile
    from trimtab.workload.sql.proposal import new_folder, write_files

    file = load_study_file(study_file)
    source, mode = moved_text(file, study_file.read_text(encoding="utf-8-sig")), study_file.stat().st_mode & 0o777
    with new_folder(folder):  # what could stand in the way of the files is known before the minutes of watching
        if window_s:
            say(f"watching for {format_duration(window_s)}")
        found = profile(file, state_dir, database=database, window_s=window_s, coverage=coverage, most=most)
        if len(file.target) == 1:
            (each,) = found.values()
            written = {"": (each, write_files(each, source, folder, mode=mode))}
        else:
            written = {
                name: (each, write_files(each, source, folder / name, mode=mode, target=name))
                for name, each in found.items()
            }
    _show(written, as_json)
    return 0


def _show(written: Mapping[str, tuple[Profile, Path]], as_json: bool) -> None:
    """What was found and where it is; each under the name of its target where a study has several."""
    tables = {name: {"study_file": str(path), **found.to_json(_WIDTH)} for name, (found, path) in written.items()}
    if as_json:
        print_json(tables.get("") or {"targets": tables})
        return
    for name, (found, path) in written.items():
        if name:
            click.echo(f"[target.{name}]")
        _as_text(found, path)
