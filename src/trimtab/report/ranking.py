"""The ranking of a study's knobs on a terminal: which matter, how sure that is, and what to do with it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trimtab.report.explain import without_proven
from trimtab.report.printing import PLAIN_WIDTH, plain_console, plain_lines, printing
from trimtab.report.words import UNKNOWN, clean, counted, first_line, percent_text

if TYPE_CHECKING:
    from trimtab.history import StudyRecord
    from trimtab.importance import Consensus, KnobRank

__all__ = ["print_rank", "rank_text", "rank_to_json"]

_BAR = 12
"""Characters of the longest bar."""

_COLUMNS = (
    ("rank", True), ("(90 %)", False), ("knob", False), ("share", True), ("(90 %)", False), ("", False), ("what it does", False),
)  # fmt: skip
"""Title, and whether it holds numbers."""
_ESSENTIAL = 5
"""The first so many of them, without bars and descriptions, have room in any terminal."""
_ROOMY = 100
"""Columns from which on all have."""


def print_rank(
    study: StudyRecord,
    consensus: Consensus,
    *,
    sources: Sequence[str] = (),
    top: int | None = None,
    next_command: str = "",
    console: Console | None = None,
) -> None:
    """Prints the table of ranks and what follows from it (to stdout unless `console` says otherwise).

    Args:
        study: whose knobs they are.
        consensus: the ranks.
        sources: names of the studies behind them; the study's own when empty.
        top: knobs to show; None for all.
        next_command: what to run when there is not enough data; "" for nothing.
    """
    consensus = without_proven(study, consensus)
    with printing(console) as out:
        n_columns = len(_COLUMNS) if out.width >= _ROOMY else _ESSENTIAL
        out.print(Group(*_sections(study, consensus, tuple(sources) or (study.name,), top, next_command, n_columns)))


def rank_text(study: StudyRecord, consensus: Consensus, **options: Any) -> str:
    """What `print_rank` prints, as plain text without colours."""
    out = io.StringIO()
    print_rank(study, consensus, console=plain_console(out, PLAIN_WIDTH), **options)
    return plain_lines(out.getvalue())


def _sections(
    study: StudyRecord, consensus: Consensus, sources: Sequence[str], top: int | None, next_command: str, n_columns: int
) -> Iterator[RenderableType]:
    rankers = ", ".join(ranking.ranker for ranking in consensus.rankings)
    yield Text(
        f"Which knobs of {clean(study.name)} matter: {counted(consensus.n_trials, 'measured trial')} of "
        f"{', '.join(clean(name) for name in sources)}" + (f"; by {rankers}" if rankers else ""),
        style="dim",
    )
    yield Text(_headline(consensus), style="bold yellow" if consensus.verdict else "bold green")
    if consensus.knobs:
        yield Padding(_table(study, consensus, top, n_columns), (1, 0, 0, 0))
    hidden = len(consensus.knobs) - top if top is not None else 0
    if hidden > 0:
        yield Text(f"and {counted(hidden, 'knob')} more", style="dim")
    shown = [entry.knob for entry in consensus.knobs[:top]]
    notes = [f"{knob} matters, but {consensus.not_worth[knob]}" for knob in shown if knob in consensus.not_worth]
    notes += consensus.notes
    if notes:
        yield Padding(Text("\n".join(f"- {first_line(note)}" for note in notes)), (1, 0, 0, 0))
    if next_command:
        yield Padding(Text("to learn more: ").append(next_command, style="bold"), (1, 0, 0, 0))


def _headline(consensus: Consensus) -> str:
    if consensus.verdict:
        return f"{first_line(consensus.verdict)}"
    if not consensus.knee:
        return "No knob showed an effect."
    if len(consensus.knobs) == 1:
        return "The only knob has an effect."
    share = sum(entry.score for entry in consensus.knobs[: consensus.knee])
    first = "the first knob" if consensus.knee == 1 else f"the first {consensus.knee} knobs"
    whose = "its own" if consensus.knee == 1 else "theirs"
    return f"Tune {first} of {len(consensus.knobs)}: {percent_text(share)} of the effect seen is {whose}."


def _table(study: StudyRecord, consensus: Consensus, top: int | None, n_columns: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False, padding=(0, 2, 0, 0))
    broken = ("what it does",) if n_columns > _ESSENTIAL else ("knob",)
    for title, is_number in _COLUMNS[:n_columns]:
        table.add_column(title, justify="right" if is_number else "left", no_wrap=title not in broken, overflow="fold")
    docs = {entry["name"]: entry.get("doc", "") for entry in study.space.get("knobs", ())}
    longest = max((entry.score for entry in consensus.knobs), default=0.0)
    for place, entry in enumerate(consensus.knobs[:top], 1):
        table.add_row(*_cells(entry, docs.get(entry.knob, ""), consensus, longest, place)[:n_columns])
        if place == consensus.knee and not consensus.verdict and place < len(consensus.knobs[:top]):
            table.add_row("", "", Text(f"--- tune the first {place} ---", style="green"))
    return table


def _cells(entry: KnobRank, doc: str, consensus: Consensus, longest: float, place: int) -> tuple[Text, ...]:
    is_worth = place <= consensus.knee and not consensus.verdict
    bar = "#" * round(_BAR * entry.score / longest) if longest > 0 else ""
    share, span = percent_text(entry.score), f"{100 * entry.score_low:.0f} to {100 * entry.score_high:.0f}"
    if len(consensus.knobs) == 1:  # all of the effect is its own, even of one that is nothing but noise
        share, span, bar = UNKNOWN, "", ""
    return (
        Text(f"{entry.rank:g}"),
        Text(f"{entry.rank_low:.0f} to {entry.rank_high:.0f}", style="dim"),
        Text(clean(entry.knob), style="bold" if is_worth else ""),
        Text(share),
        Text(span, style="dim"),
        Text(bar, style="green" if is_worth else "dim"),
        Text(first_line(doc)),
    )


def rank_to_json(
    study: StudyRecord,
    consensus: Consensus,
    *,
    sources: Sequence[str] = (),
    top: int | None = None,
    next_command: str = "",
) -> dict[str, Any]:
    """The ranking as JSON values; `docs/reference/rank.md` lists the keys."""
    docs = {entry["name"]: entry.get("doc", "") for entry in study.space.get("knobs", ())}
    consensus = without_proven(study, consensus)
    return {
        "study": study.name,
        "sources": list(sources) or [study.name],
        "n_trials": consensus.n_trials,
        "verdict": consensus.verdict,
        "knee": consensus.knee,
        "r2": consensus.r2,
        "knobs": [
            {**_entry(entry), "doc": docs.get(entry.knob, ""), "not_worth": consensus.not_worth.get(entry.knob, "")}
            for entry in consensus.knobs[:top]
        ],
        "notes": list(consensus.notes),
        "rankers": {
            ranking.ranker: {
                "verdict": ranking.verdict,
                "notes": list(ranking.notes),
                "knobs": [_entry(entry) for entry in ranking.knobs[:top]],
                "effects": dict(ranking.effects),
            }
            for ranking in consensus.rankings
        },
        "next": next_command,
    }


def _entry(entry: KnobRank) -> dict[str, Any]:
    return {
        "knob": entry.knob,
        "rank": entry.rank,
        "rank_low": entry.rank_low,
        "rank_high": entry.rank_high,
        "share": entry.score,
        "share_low": entry.score_low,
        "share_high": entry.score_high,
    }
