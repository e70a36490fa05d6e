"""A load run while it lasts: a live table of its seconds on a terminal, plain lines anywhere else; on stderr."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trimtab.report.printing import progress_console
from trimtab.report.words import first_line, stolen
from trimtab.units import format_figure, format_percent

if TYPE_CHECKING:
    from trimtab.workload import Frame

__all__ = ["BenchProgress"]

_SHOWN_SECONDS = 12
_OTHER_LINES = 3
"""Of the live table: its head, its titles, and the line of the cursor."""
_GAP = 2
"""Columns of the terminal between two of the table."""
_LINE_EVERY = 5
"""Seconds of load between two plain lines, unless every one is asked for."""

STEAL_SHOWN_S = 0.01
"""Less time than this that the hypervisor took within a second is not worth a word."""

_COLUMNS = (
    "second",
    "done/s",
    "goodput/s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "errors",
    "dropped",
    "waiting",
    "late ms",
    "CPU",
    "no core",
    "steal",
)


class BenchProgress:
    """Shows runs second by second: response percentiles, errors, and how the generator itself is doing.

    On a terminal it redraws one live table of the last seconds; piped, where the cursor cannot be moved (TERM=dumb), or
    when `every_second` is asked for, it writes lines. Use it as a context manager, or `close` it.
    """

    def __init__(self, console: Console | None = None, *, every_second: bool = False) -> None:
        self._console = console or progress_console()
        self._line_every = 1 if every_second else _LINE_EVERY
        self._is_live = self._console.is_interactive and not every_second
        self._frames: deque[Frame] = deque(maxlen=_SHOWN_SECONDS)
        self._step = ""
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Takes the live table away; lines stay. Idempotent."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        """A line that stays, above the live table."""
        # soft_wrap: a line for a log file must not be broken at the width of a terminal that is not there.
        self._console.print(Text(first_line(text)), soft_wrap=True)

    def step(self, name: str) -> None:
        """The trial enters a step ("apply", "load", ...)."""
        self._step = first_line(name)
        self._frames.clear()
        if self._is_live and self._live is None:
            self._live = Live(get_renderable=self._view, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def second(self, frame: Frame) -> None:
        """One second of load has passed."""
        self._frames.append(frame)
        if not self._is_live and (frame.second + 1) % self._line_every == 0:
            self.say(_line(frame))

    def _view(self) -> RenderableType:
        head = Text(self._step, style="bold")
        if not self._frames:
            return head
        # A low terminal cuts off what is below: the newest seconds.
        n_rows = max(1, self._console.height - _OTHER_LINES)
        rows = [_cells(frame) for frame in list(self._frames)[-n_rows:]]
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _GAP, 0, 0))
        n_columns = _n_fitting(rows, self._console.width)
        for name in _COLUMNS[:n_columns]:
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row[:n_columns])
        return Group(head, table)


def _n_fitting(rows: Sequence[Sequence[Text]], width: int) -> int:
    """How many columns have room: figures are not cut off, the last columns are left out instead."""
    columns = zip(_COLUMNS, zip(*rows, strict=True), strict=True)
    widths = (max(len(name), *map(len, cells)) + _GAP for name, cells in columns)
    return sum(total - _GAP <= width for total in accumulate(widths))


def _cells(frame: Frame) -> tuple[Text, ...]:
    n_bad = frame.n_error + frame.n_timed_out
    return (
        Text(str(frame.second)),
        Text(f"{frame.n_ok + n_bad:,}"),
        Text(format_figure(frame.credited)),
        *(Text(_ms(us)) for us in (frame.response_p50_us, frame.response_p95_us, frame.response_p99_us)),
        Text(f"{n_bad:,}", style="red" if n_bad else ""),
        Text(f"{frame.n_shed:,}", style="red" if frame.n_shed else ""),
        Text(f"{frame.backlog:,}"),
        Text(_ms(frame.lateness_p99_us)),
        Text(format_percent(frame.client_cpu_s)),
        Text("–" if frame.wait_s is None else format_percent(frame.wait_s)),
        Text(format_percent(frame.steal_s)),
    )


def _line(frame: Frame) -> str:
    parts = [f"second {frame.second}: {frame.n_ok + frame.n_error + frame.n_timed_out:,}/s done"]
    parts.append(f"goodput {format_figure(frame.credited)}/s")
    if frame.response_p50_us:
        percentiles = (frame.response_p50_us, frame.response_p95_us, frame.response_p99_us)
        parts.append(f"p50/p95/p99 {'/'.join(_ms(us) for us in percentiles)} ms")
    if frame.n_error or frame.n_timed_out:
        parts.append(f"{frame.n_error:,} failed, {frame.n_timed_out:,} timed out")
    if frame.n_shed or frame.backlog:
        parts.append(f"{frame.n_shed:,} dropped, {frame.backlog:,} waiting")
    own = f"generator: CPU {format_percent(frame.client_cpu_s)}, late by {_ms(frame.lateness_p99_us)} ms"
    if frame.wait_s is not None:
        own += f", waiting for a core {format_percent(frame.wait_s)} of the time"
    if frame.steal_s >= STEAL_SHOWN_S:
        own += f", {stolen(frame.steal_s)}"
    parts.append(own)
    return ", ".join(parts)


def _ms(microseconds: int) -> str:
    return format_figure(microseconds / 1e3, 3)
