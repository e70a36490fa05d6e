"""What the plays brought: the changes that an expert would try, one row each, the harmful ones as well."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.records import WITHIN_LIMITS, TriedPlay, Verdict
from trimtab.report.facts import Gain
from trimtab.report.words import clean, first_line

__all__ = ["PlayRow", "left_out_plays", "play_rows", "plays_note"]

_ALONE = "Each was measured once with those kept before it, and compared with them: an indication, not a proof."
_SEVERAL = (
    "so several were tried in each run, and a linear model of these runs separates them, starting from what each play promises:"
    " an indication, not a proof."
)
_TOGETHER = f"The noise of one run hides what one of them brings, {_SEVERAL}"
_MIXED = (
    "Those that promise much were tried first, one on top of the other. The noise of one run hides what one of the others brings,"
    f" {_SEVERAL}"
)
_WORDS = {"helps": "helps", "harms": "harms", "not_told_apart": "not told apart", "failed": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayRow:
    """One play that was measured.

    Attributes:
        name: of the play, in words.
        settings: "knob = value", one a setting.
        reason: why an expert would try it.
        beside: plays that were in place when it was tried; its worth is beside them.
        worth: how many times as fast the config was with it as without it; None when it failed.
        verdict: "helps", "harms", "not_told_apart" or "failed".
        kept: in words, whether it stayed in place for the plays after it, or is thought to help by those tried together; "" for
            no. Whether it is among the winner's settings is another question.
        note: why it failed, ended early or was not tried whole; of plays tried together, in how many runs it was.
    """

    name: str
    settings: tuple[str, ...]
    reason: str
    beside: tuple[str, ...]
    worth: Gain | None
    verdict: str
    kept: str
    note: str

    @property
    def words(self) -> str:
        """The verdict for people."""
        return _WORDS.get(self.verdict, self.verdict)

    @property
    def remark(self) -> str:
        """What the figures do not say themselves."""
        return "; ".join(part for part in (self.note, self.kept) if part)


def play_rows(verdict: Verdict) -> tuple[PlayRow, ...]:
    """The plays that were measured, in the order in which they were tried."""
    if verdict.plays is None:
        return ()
    alone = _alone(verdict)
    return tuple(_row(entry, "kept for the next ones" if entry in alone else "kept") for entry in verdict.plays.tried)


def plays_note(verdict: Verdict) -> str:
    """How they were measured, and what that is worth."""
    if verdict.plays is None or not verdict.plays.are_together:
        return _ALONE
    is_mixed = any(entry.play != WITHIN_LIMITS for entry in _alone(verdict))
    return _MIXED if is_mixed else _TOGETHER


def _alone(verdict: Verdict) -> list[TriedPlay]:
    """Those that were tried by themselves."""
    plays = verdict.plays
    return [] if plays is None else [e for e in plays.tried if not plays.are_together or e.play not in plays.together]


def _row(entry: TriedPlay, kept: str) -> PlayRow:
    return PlayRow(
        name=_named(entry.play),
        settings=tuple(f"{clean(name)} = {clean(text)}" for name, text in entry.settings.items()),
        reason=first_line(entry.reason),
        beside=tuple(_named(name) for name in entry.beside),
        worth=Gain.of(entry.worth),
        verdict=first_line(entry.verdict),
        kept=kept if entry.kept else "",
        note=first_line(entry.note),
    )


def left_out_plays(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    """(plays, why they were not tried), those of one reason together; what follows its colon goes with the play."""
    groups: dict[str, list[str]] = {}
    for name, text in () if verdict.plays is None else verdict.plays.left_out.items():
        reason, _, detail = first_line(text).partition(": ")
        groups.setdefault(reason, []).append(f"{_named(name)} ({detail})" if detail else _named(name))
    return tuple((", ".join(names), reason) for reason, names in groups.items())


def _named(name: str) -> str:
    return clean(name).replace("_", " ")
