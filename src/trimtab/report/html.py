"""The report as one HTML file that needs nothing else: no network, no JavaScript; plots are SVG in the page."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import UsageError
from trimtab.records import QueryClass, Trial
from trimtab.report.charts import Figure, figures
from trimtab.report.explain import Explanation, with_plots, without_proven
from trimtab.report.explain_charts import by_knobs, explanation_figures, worth_figure
from trimtab.report.facts import danger_of
from trimtab.report.headline import times_of
from trimtab.report.parallel import parallel_figure
from trimtab.report.summary import Summary, compared_trials, summarise
from trimtab.report.svg import NARROW, WIDE, figure_svg
from trimtab.report.words import (
    clean,
    first_line,
    level_text,
    ms_text,
    number_text,
    percent_text,
    ratio_text,
    workload_name,
)
from trimtab.units import format_duration, format_size

if TYPE_CHECKING:
    from jinja2 import Environment

    from trimtab.history import StudyRecord
    from trimtab.importance import Consensus

__all__ = ["render_html", "render_rank_html", "report_figures", "require_html_place", "write_html", "write_rank_html"]

_COLOURS = ("#3b82c4", "#2a9d6f", "#d08a1d", "#8a63d2", "#d1495b", "#4aa3a2", "#8a8f98", "#b5651d")
"""Of the stacked bars, in order; the same middle tones as in the plots."""


def write_html(
    study: StudyRecord, trials: Sequence[Trial], path: str | Path, classes: Sequence[QueryClass] | None = None
) -> None:
    """Writes the report to `path` (some 100 kB: text, tables and plots as SVG, no script).

    Args:
        study, trials: what it is about.
        path: of the file.
        classes: what a server that tunes its own queries had learnt; None where it does not.

    Raises:
        UsageError: the file cannot be written; a report that was there before stays whole.
        OSError: the disk is full, or nobody reads what goes into a pipe; the same.
    """
    _write(render_html(study, trials, classes), path)


def write_rank_html(
    study: StudyRecord, consensus: Consensus, trials: Sequence[Trial], path: str | Path, *, sources: Sequence[str] = ()
) -> None:
    """Writes the ranking of `trimtab rank` with its plots to `path`, as one file.

    Args:
        study: whose knobs they are.
        consensus: the ranks.
        trials: those behind the ranks; slices and interactions are made of them.
        path: of the file.
        sources: names of the studies behind the ranks; the study's own when empty.

    Raises:
        UsageError: the file cannot be written.
        OSError: the disk is full.
    """
    _write(render_rank_html(study, consensus, trials, sources=sources), path)


def require_html_place(path: str | Path) -> None:
    """Before what takes long: that a report can be written to `path`, as far as that can be seen now.

    Raises:
        UsageError: its folder is not there, one may not write to it, it is a database, or it is "-", which other programs take
            for the standard output.
    """
    place = Path(path)
    if str(path) == "-":
        raise UsageError(
            "cannot write the report: path='-' would be a file of that name",
            hint="give the name of a file, or /dev/stdout",
        )
    from trimtab.history import is_database  # here: it brings the database's library along

    if is_database(place):
        raise _refused(path, "it is a database, perhaps a history")
    if place.is_dir():  # as "" is
        raise _refused(path, os.strerror(errno.EISDIR))
    if not place.parent.is_dir():
        raise _refused(path, os.strerror(errno.ENOENT))
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise _refused(path, os.strerror(errno.EACCES))


def _refused(path: str | Path, why: str | None) -> UsageError:
    return UsageError(f"cannot write the report: path={str(path)!r}: {why}", hint="give a path that you may write to")


def _write(page: str, path: str | Path) -> None:
    """Beside the file first, so that an older report stays whole when the disk is full."""
    from trimtab.history import is_only_written_to

    place, goal = Path(path), Path(os.path.realpath(path))  # a link goes on pointing to the report
    try:
        if is_only_written_to(place):
            place.write_text(page, encoding="utf-8")
            return
        with tempfile.TemporaryDirectory(prefix=".trimtab-report-", dir=goal.parent) as folder:
            part = Path(folder) / "part"
            part.write_text(page, encoding="utf-8")
            if goal.exists():
                shutil.copymode(goal, part)
            part.replace(goal)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EPIPE):
            raise  # no other path is asked for: a full disk, and a reader who has gone, are told as everywhere
        raise _refused(path, error.strerror) from error


def render_html(study: StudyRecord, trials: Sequence[Trial], classes: Sequence[QueryClass] | None = None) -> str:
    """The report as a whole HTML page; `classes` as in `write_html`."""
    summary = summarise(study, trials)
    explanation = with_plots(study, trials, None)
    drawn = report_figures(study, trials, summary) | explanation_figures(explanation, summary.times)
    return _page("report.html.j2", study, explanation, drawn, summary=summary, classes=classes)


def report_figures(study: StudyRecord, trials: Sequence[Trial], summary: Summary) -> dict[str, Figure]:
    """Every figure of a study's trials and proof there is data for."""
    made = figures(summary, *compared_trials(study, trials, summary.best)) | _line_figures(summary)
    lines = parallel_figure(study, trials)
    return made if lines is None else made | {"parallel": lines}


def render_rank_html(
    study: StudyRecord, consensus: Consensus, trials: Sequence[Trial], *, sources: Sequence[str] = ()
) -> str:
    """The ranking as a whole HTML page; arguments as in `write_rank_html`."""
    explanation = with_plots(study, trials, consensus)
    drawn = explanation_figures(explanation, times_of(study))
    return _page(
        "rank.html.j2",
        study,
        explanation,
        drawn,
        consensus=without_proven(study, consensus),
        sources=tuple(sources) or (study.name,),
    )


def _line_figures(summary: Summary) -> dict[str, Figure]:
    made = {
        "worth": worth_figure(summary.lines, summary.times),
        "by_knobs": by_knobs(summary.path, summary.times),
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def _page(name: str, study: StudyRecord, explanation: Explanation, drawn: Mapping[str, Figure], **more: Any) -> str:
    return (
        _environment()
        .get_template(name)
        .render(
            study=study,
            machine=_machine(study),
            times=times_of(study),
            explanation=explanation,
            docs={entry["name"]: first_line(entry.get("doc", "")) for entry in study.space.get("knobs", ())},
            plots={key: figure_svg(key, figure, width=_width(key)) for key, figure in drawn.items()},
            colours=_COLOURS,
            **more,
        )
    )


@cache
def _environment() -> Environment:
    # Imported here, so that the terminal reports do not wait for it.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = resources.files("trimtab.report").joinpath("templates")
    loader = FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8"))
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=loader
    )
    environment.filters |= {
        "clean": clean,
        "danger": danger_of,
        "duration": format_duration,
        "level": level_text,
        "ms": ms_text,
        "number": number_text,
        "percent": percent_text,
        "ratio": ratio_text,
        "size": format_size,
        "words": lambda text: str(text).replace("_", " "),
    }
    return environment


def _width(key: str) -> int:
    """Two plots of these stand side by side."""
    return NARROW if key in ("pairs", "drift") or key.startswith(("slice", "pair")) else WIDE


def _machine(study: StudyRecord) -> list[tuple[str, str]]:
    machine = study.machine
    facts = [
        ("server", machine.server_version),
        ("host", machine.hostname),
        # An imported study may not tell them.
        ("cores", str(machine.cores or "")),
        ("memory", format_size(machine.memory_bytes) if machine.memory_bytes else ""),
        ("processor", machine.cpu_model),
        ("disk", machine.disk),
        ("kernel", machine.kernel),
        ("workload", workload_name(study.context)),
        ("clients", str(study.context.clients or "")),
    ]
    return [(name, clean(value)) for name, value in facts if value]
