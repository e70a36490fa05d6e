"""The report as one HTML file that needs nothing else: no network, and no JavaScript for what it has to say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import UsageError
from trimtab.records import Trial
from trimtab.report.charts import figures
from trimtab.report.json import strict
from trimtab.report.summary import compared_trials, summarise
from trimtab.report.words import clean, number_text, percent_text
from trimtab.units import format_duration, format_size

if TYPE_CHECKING:
    from jinja2 import Template

    from trimtab.history import StudyRecord

__all__ = ["render_html", "write_html"]

_COLOURS = ("#3b82c4", "#2a9d6f", "#d08a1d", "#8a63d2", "#d1495b", "#4aa3a2", "#8a8f98", "#b5651d")
"""Of the stacked bars, in order; the same middle tones as in the plots."""


def write_html(study: StudyRecord, trials: Sequence[Trial], path: str | Path) -> None:
    """Writes the report to `path` (about 5 MB, nearly all of it the plotting library).

    Raises:
        UsageError: the file cannot be written.
    """
    page = render_html(study, trials)
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write the report: path={str(path)!r}: {error.strerror}", hint="give a path that you may write to"
        ) from error


def render_html(study: StudyRecord, trials: Sequence[Trial]) -> str:
    """The report as a whole HTML page."""
    summary = summarise(study, trials)
    return _template().render(
        summary=summary,
        study=study,
        machine=_machine(study),
        figures=_script_json(figures(summary, *compared_trials(trials, summary.best))),
        plotly_js=_plotly_js(),
        colours=_COLOURS,
    )


@cache
def _template() -> Template:
    # Imported here, as Plotly below, so that the terminal reports do not wait for them.
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "clean": clean,
        "duration": format_duration,
        "number": number_text,
        "percent": percent_text,
        "size": format_size,
        "words": lambda text: str(text).replace("_", " "),
    }
    source = resources.files("trimtab.report").joinpath("templates/report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source)


@cache
def _plotly_js() -> str:
    from plotly.offline import get_plotlyjs

    # Inside <script> only this sequence could end it early; in a string or a comment the backslash changes nothing.
    text: str = get_plotlyjs()
    return text.replace("</script", r"<\/script")


def _script_json(values: Mapping[str, Any]) -> str:
    """JSON that may stand inside a script element: no character in it means anything to HTML."""
    text = json.dumps(strict(values), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _machine(study: StudyRecord) -> list[tuple[str, str]]:
    machine = study.machine
    facts = [
        ("server", machine.server_version),
        ("host", machine.hostname),
        ("cores", str(machine.cores)),
        ("memory", format_size(machine.memory_bytes)),
        ("processor", machine.cpu_model),
        ("disk", machine.disk),
        ("kernel", machine.kernel),
        ("workload", study.context.workload),
        ("clients", str(study.context.clients)),
    ]
    return [(name, clean(value)) for name, value in facts if value]
