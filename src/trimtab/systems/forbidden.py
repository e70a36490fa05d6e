"""Forbidden: the knobs of a kind of server that Trimtab never sets, each with the reason why."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Forbidden"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """Names of knobs by what is wrong with setting them.

    Attributes:
        runs_code: the server runs what they say.
        writes_files: they name files that the server reads or writes.
        locks_out: they can lock users or the tuner out.
        damages: they can hide or cause damage to data.
        fixed: they are fixed when `made`, such as "the cluster is made".
        made: see `fixed`.
    """

    runs_code: frozenset[str]
    writes_files: frozenset[str]
    locks_out: frozenset[str]
    damages: frozenset[str]
    fixed: frozenset[str]
    made: str

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return self.runs_code | self.writes_files | self.locks_out | self.damages | self.fixed

    def reason(self, name: str) -> str:
        """Why Trimtab never sets `name`; "" when it may."""
        reasons = (
            (self.runs_code, "runs code"),
            (self.writes_files, "names files that the server reads or writes"),
            (self.locks_out, "can lock users or the tuner out"),
            (self.damages, "can hide or cause damage to data"),
            (self.fixed, f"is fixed when {self.made}"),
        )
        return next((f"forbidden: {reason}" for names, reason in reasons if name in names), "")
