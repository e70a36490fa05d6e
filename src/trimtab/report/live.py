"""Progress of a running study: a live table on a terminal, one line per trial anywhere else; holds no logic of it."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trimtab.records import Role, Status, Trial
from trimtab.report.bench_live import STEAL_SHOWN_S
from trimtab.report.facts import Gain
from trimtab.report.printing import progress_console
from trimtab.report.text import STATUS_STYLES
from trimtab.report.words import clean, counted, first_line, number_text, percent_text, ratio_text, stolen
from trimtab.units import format_duration

if TYPE_CHECKING:
    from trimtab.workload import Frame

__all__ = ["Progress"]

_SHOWN_TRIALS = 12
"""Rows of the live table, in a terminal of 24 lines or more."""
_OTHER_LINES = 5
"""Of the live table: its head, which may be two or three, its titles and its foot."""

_COLUMNS = ("trial", "role", "status", "times as fast", "best")
_WHAT = "changed, or why it failed"
"""The last column, which takes what the others leave."""
_SPARED = (4, 1)
"""Of the columns those that a narrow terminal goes without: the head has the best, and a trial's role tells least."""
_LEAST_ROOM = 16
_GAP = 2
"""Columns of the terminal between two of the table."""

_SHOWN_KNOBS = 4
"""Changed knobs named in a trial's line; the report has them all."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One ended trial."""

    number: int
    role: str
    status: str
    style: str
    gain: str
    missed: str
    best: str
    what: str


class Progress:
    """Shows a study while it runs, on stderr; everything it is told is treated as foreign text.

    On a terminal it redraws one live table (without colours when NO_COLOR is set); piped, and where the cursor cannot be
    moved (TERM=dumb), it writes one line per event. Use it as a context manager, or `close` it: a live table must be ended.

        with Progress() as progress:
            tune(file, state_dir, progress)
    """

    def __init__(self, console: Console | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or progress_console()
        self._clock = clock
        self._started_at = clock()
        self._rows: deque[_Row] = deque(maxlen=_SHOWN_TRIALS)
        self._title = ""
        self._phase = ""
        self._step = ""
        self._current = ""
        self._changed = ""
        self._load = ""
        self._best = ""
        self._ends_at: float | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the live table; what it shows last stays. Idempotent."""
        if self._live is not None:
            self._current = ""
            self._live.update(self._view(), refresh=True)
            self._live.stop()
            self._live = None

    def study_started(self, name: str, budget_s: float | None) -> None:
        """Begins; `budget_s` is the wall clock it may use, None when it counts trials."""
        self._started_at = self._clock()
        self._title = first_line(name)
        self._ends_at = None if budget_s is None else self._started_at + budget_s
        budget = "" if budget_s is None else f", at most {format_duration(budget_s)}"
        if self._console.is_interactive:
            self._live = Live(get_renderable=self._view, console=self._console, refresh_per_second=4)
            self._live.start()
        else:
            self._say(f"study {self._title}{budget}")

    def phase(self, text: str) -> None:
        """The study enters a phase, or a phase has something to tell."""
        self._phase = first_line(text)
        self._say(self._phase)

    def step(self, name: str) -> None:
        """The trial enters a step ("apply", "load", ...)."""
        self._step, self._load = first_line(name), ""

    def trial_started(self, number: int, role: Role, changed: Mapping[str, str]) -> None:
        """A trial begins; `changed` are its knobs against the baseline, as texts."""
        self._current = f"trial {number}, {_words(role)}"
        shown = [f"{first_line(knob)}={first_line(value)}" for knob, value in changed.items()]
        rest = f" and {len(shown) - _SHOWN_KNOBS} more" if len(shown) > _SHOWN_KNOBS else ""
        self._changed = ", ".join(shown[:_SHOWN_KNOBS]) + rest
        self._step, self._load = "", ""

    def second(self, frame: Frame) -> None:
        """One second of load has passed."""
        errors = f", {counted(frame.n_error, 'error')}" if frame.n_error else ""
        steal = f", {stolen(frame.steal_s)}" if frame.steal_s >= STEAL_SHOWN_S else ""
        self._load = f"second {frame.second}: {number_text(frame.credited)} operations{errors}{steal}"

    def trial_ended(self, trial: Trial, best_gain: float | None, time_left_s: float | None) -> None:
        """A trial has ended; `best_gain` is the best so far (times as fast as the baseline), unproven."""
        gain = Gain.of_trial(trial)
        self._best = "" if best_gain is None else ratio_text(best_gain)
        if time_left_s is not None:
            self._ends_at = self._clock() + time_left_s
        row = _Row(
            number=trial.number,
            role=_words(trial.role),
            status=_words(trial.status),
            style=STATUS_STYLES.get(trial.status, "red"),
            gain="" if gain is None else gain.short_text,
            missed=_missed(trial),
            best=self._best,
            what=first_line(trial.reason) or self._changed,
        )
        self._rows.append(row)
        self._current = self._changed = self._step = self._load = ""
        if self._live is None:
            self._say(self._line(row))

    def _line(self, row: _Row) -> str:
        parts = [f"trial {row.number} ({row.role}): {row.status}"]
        if row.gain:
            parts.append(f"{row.gain} times as fast")
        if row.missed:
            parts.append(row.missed)
        if row.best:
            parts.append(f"best so far {row.best}")
        if left := self._left_text():
            parts.append(f"{left} left")
        line = ", ".join(parts)
        return f"{line}; {row.what}" if row.what else line

    def _say(self, text: str) -> None:
        elapsed = self._clock() - self._started_at
        # soft_wrap: a line for a log file must not be broken at the width of a terminal that is not there.
        self._console.print(Text(f"[{elapsed:6.0f}s] {clean(text)}"), soft_wrap=True)

    def _left_text(self) -> str:
        """Of the budget; "" without one, and when it is used: what follows the search has no end that is known."""
        left = 0.0 if self._ends_at is None else self._ends_at - self._clock()
        return format_duration(round(left)) if round(left) > 0 else ""

    def _view(self) -> RenderableType:
        head = Text(f"{self._title}: {self._phase}", style="bold")
        elapsed = format_duration(round(self._clock() - self._started_at))
        head.append(f"  {elapsed} gone" + (f", {left} left" if (left := self._left_text()) else ""), style="dim")
        if self._best:
            head.append(f"  best so far {self._best} times as fast, unproven", style="green")
        foot = Text(no_wrap=True, overflow="ellipsis")
        if self._current:
            running = ", ".join(part for part in (self._step, self._load) if part)
            foot.append(f"{self._current}: {running or 'starting'}", style="cyan")
            foot.append(f"  {self._changed}", style="dim")
        return Group(head, self._table(), foot)

    def _table(self) -> Table:
        # What has no room in a low terminal is cut off below, where the newest trials are: the oldest ones are left out instead.
        n_rows = max(1, self._console.height - _OTHER_LINES)
        rows = [_cells(row) for row in list(self._rows)[-n_rows:]]
        shown, room = _fitting(rows, self._console.width)
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _GAP, 0, 0))
        for i in shown:
            table.add_column(_COLUMNS[i], no_wrap=True, justify="right" if i == 0 else "left")
        table.add_column(_WHAT, no_wrap=True, overflow="ellipsis", max_width=room)
        for row in rows:
            table.add_row(*(row[i] for i in shown), row[-1])
        return table


def _cells(row: _Row) -> tuple[Text, ...]:
    """By column, what was changed or went wrong as the last one."""
    what = "; ".join(part for part in (row.missed, row.what) if part)
    texts = (str(row.number), row.role, row.status, row.gain, row.best, what)
    styles = ("", "", row.style, "", "green", "dim")
    return tuple(Text(text, style=style) for text, style in zip(texts, styles, strict=True))


def _fitting(rows: Sequence[Sequence[Text]], width: int) -> tuple[list[int], int]:
    """Which columns have room beside the last one, and what is left for that: none is cut off, some are left out instead."""
    widths = [max([len(name), *(row[i].cell_len for row in rows)]) + _GAP for i, name in enumerate(_COLUMNS)]
    shown = list(range(len(_COLUMNS)))
    for spared in _SPARED:
        if width - sum(widths[i] for i in shown) < _LEAST_ROOM:
            shown.remove(spared)
    return shown, max(_LEAST_ROOM, width - sum(widths[i] for i in shown))


def _words(name: Role | str) -> str:
    return str(name).replace("_", " ")


def _missed(trial: Trial) -> str:
    """By how much it missed the constraints of the objective, all together, where that is a number; "" when it met them, or was
    stopped by a guard."""
    if trial.status is not Status.OK or not trial.excess > 0:
        return ""
    by = f" by {percent_text(trial.excess)}" if math.isfinite(trial.excess) else ""
    return f"constraints of the objective missed{by}"
