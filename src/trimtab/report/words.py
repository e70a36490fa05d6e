"""Numbers and foreign strings as people may read them: rounded, with units, and without control characters."""

from __future__ import annotations

import math
import re

from trimtab.records import Context, Role
from trimtab.units import counted, format_figure, format_percent

__all__ = [
    "clean",
    "counted",
    "failed_in_proof",
    "first_line",
    "level_text",
    "ms_text",
    "number_text",
    "one_line",
    "percent_text",
    "ratio_text",
    "stolen",
    "workload_name",
    "workload_text",
]

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS and the like: window titles, hyperlinks
    r"|\x1b[ -/]*[0-~]",  # two-character escapes
    re.DOTALL,
)
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls, save tab and newline
    "\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, which can make text read as other text
    "\ud800-\udfff]"  # surrogates, which no stream can encode
)
_PLURAL_OF_ONE = re.compile(r"(?<![\w.,])(1 (?:client|page|record|row|script|stream))s\b")
"""Stays in the names of workloads themselves, by which a study knows its own and older histories are read."""

_LARGEST_RATIO = 1000
_SMALLEST_PERCENT = 0.01

UNKNOWN = "–"
"""Shown for what is not known or not finite."""


def clean(text: object) -> str:
    """`text` without terminal escapes; other control characters become U+FFFD, so that nothing is hidden."""
    return _UNPRINTABLE.sub("\ufffd", _ESCAPE_SEQUENCE.sub("", str(text).replace("\r\n", "\n")))


def first_line(text: object) -> str:
    """The first line of `clean(text)` that is not blank; "" when there is none."""
    return next((line.strip() for line in clean(text).splitlines() if line.strip()), "")


def workload_name(context: Context) -> str:
    """The name of a workload for people: `sql shop 1 script 3f2a9c1d`."""
    return _PLURAL_OF_ONE.sub(r"\1", clean(context.workload))


def workload_text(context: Context) -> str:
    """What is asked of a system, and by how many, as far as it is known: `sql shop 1 script 3f2a9c1d, 8 clients`."""
    clients = counted(context.clients, "client") if context.clients else ""
    return ", ".join(filter(None, (workload_name(context), clients)))


def failed_in_proof(failure: str) -> str:
    """Who failed in a proof that was not made to its end: the settings as found may, too."""
    who = "your own config" if f"({Role.PROOF_BASELINE})" in failure else "the best candidate"
    return f"{who} failed during the proof ({failure})"


def one_line(text: object) -> str:
    """`clean(text)` in one line: line ends, tabs and whatever else cannot be printed become U+FFFD too."""
    return "".join(char if char.isprintable() else "\ufffd" for char in clean(text))


def number_text(value: float | None) -> str:
    """As `format_figure` to three digits: `0.0123`, `1.82`, `10.5`, `1,234`; what is not finite is not known."""
    return UNKNOWN if value is None or not math.isfinite(value) else format_figure(value, 3)


def ms_text(value: float | None) -> str:
    """The same with its unit, where it is known."""
    text = number_text(value)
    return text if text == UNKNOWN else f"{text} ms"


def ratio_text(value: float) -> str:
    """How many times, with two decimals; what no measurement can tell apart is bounded: `1.82`, `< 0.01`, `> 1000`.

    What is not a number is not known.
    """
    if math.isnan(value):
        return UNKNOWN
    if value >= _LARGEST_RATIO:
        return f"> {_LARGEST_RATIO}"
    return "< 0.01" if 0 <= value < 0.005 else f"{value:.2f}"


def percent_text(share: float | None) -> str:
    """A share in [0, 1] as `4.2 %`, `3 %` or `42 %`; what is too small to matter as `< 0.01 %`."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    percent = 100 * share
    if 0 < abs(percent) < _SMALLEST_PERCENT:
        return f"< {_SMALLEST_PERCENT} %" if percent > 0 else f"> -{_SMALLEST_PERCENT} %"
    return f"{percent:.2g} %" if abs(percent) < 99.5 else f"{percent:.0f} %"


def level_text(level: float) -> str:
    """The level of an interval, never more than it is: `95 %`, `98.7 %`, `99.9 %`."""
    if not math.isfinite(level):
        return UNKNOWN
    tenths = min(999, math.floor(1000 * level + 1e-6))
    return f"{tenths / 10:g} %"


def stolen(share: float) -> str:
    """CPU seconds per second that the hypervisor took from a machine, all its cores together."""
    return f"stolen by the hypervisor {format_percent(share)} of a core"
