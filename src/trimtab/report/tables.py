"""Tables of a report: columns without lines, whose figures are whole in a narrow terminal, too."""

from __future__ import annotations

import re
from collections.abc import Collection

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

__all__ = ["make_table"]

_GAP = 2
"""Columns of the terminal between two of the table."""
_ENDLESS = 10_000
_TITLE_BREAK = re.compile(" (?!%)")


def make_table(*titles: str, right: Collection[str] = ()) -> Table:
    """A table without rows; the columns with a title in `right` hold figures, which are not broken."""
    table = _Fitting(box=None, pad_edge=False, header_style="dim", show_edge=False, padding=(0, _GAP, 0, 0))
    for title in titles:
        is_number = title in right
        # as text: a name may hold what rich takes for markup
        table.add_column(Text(title), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    return table


class _Fitting(Table):
    """Breaks its titles at their blanks where there is no room for all columns: else rich takes it from the others, and
    then cuts figures off."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._needs(console, options) > options.max_width:
            for column in self.columns:
                column.header = Text(_TITLE_BREAK.sub("\n", str(column.header)))
        yield from super().__rich_console__(console, options)

    def _needs(self, console: Console, options: ConsoleOptions) -> int:
        """Columns of a terminal in which no figure and no word is broken."""
        endless, total = options.update(width=_ENDLESS), 0
        for column in self.columns:
            sizes = [Measurement.get(console, endless, cell) for cell in (column.header, *column.cells)]
            total += _GAP + max(size.maximum if column.no_wrap else size.minimum for size in sizes)
        return total
