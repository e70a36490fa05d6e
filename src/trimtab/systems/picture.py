"""Picture: a system as we left it; what somebody else has done since, and the evidence of our own failures.

Which one it is, in which role, which run of it, digests of its configuration files, and its settings: a kind of system says how
it is looked at, and the rest is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.records import Fault
from trimtab.systems.base import Own
from trimtab.systems.capabilities import Disturbance, Evidence
from trimtab.systems.evidence import Forensics

__all__ = ["STOPPED", "Picture", "Sentry", "differences"]

STOPPED = "tuning was stopped, so as not to fight over the configuration; find out who changed it, then start again"

_SHOWN = 5
_UPTIME_SLACK_S = 3.0
"""An uptime counts whole seconds."""
_OF_BEFORE = ("identifier", "is_standby", "role")
"""What no change of ours can change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A system as it was left; "" and {} where this user may not see.

    Attributes:
        who: which one it is, for the journal: its identifier, and its role in the kind's own form.
        role: the same for people: "a primary"; "" for a system that has none.
        noun: what messages call it: "server", "program".
        calls: what it calls its identifier: "system_identifier".
        instance: its run; "" when none can be seen.
        began: when that began, for people; "" when it does not say.
        began_s: the same on this process's monotonic clock, to a second; None when it does not say.
        files: path -> digest.
        ours: paths, or names in any folder, of the files that we write; the others must be as they were before a change of
            our own.
        settings: knob -> (value as text, where it comes from).
    """

    who: Mapping[str, Any] = field(default_factory=dict)
    role: str = ""
    noun: str = "server"
    calls: str = "identifier"
    instance: str = ""
    began: str = ""
    began_s: float | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    ours: frozenset[str] = frozenset()
    settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def after_own_change(self, before: Picture | None) -> Picture:
        """This picture, taken after a change of our own: what we do not change must be as it was `before` it."""
        if before is None:
            return self
        files = {path: digest for path, digest in before.files.items() if not self._is_ours(path)}
        files |= {path: digest for path, digest in self.files.items() if self._is_ours(path)}
        same = {key: before.who[key] for key in _OF_BEFORE if key in before.who}
        return replace(self, files=files, who={**self.who, **same}, role=before.role)

    def _is_ours(self, path: str) -> bool:
        return path in self.ours or Path(path).name in self.ours

    def kept(self) -> Mapping[str, Any]:
        """What the journal keeps of it, as JSON: which system it is, and the digests of its files."""
        return {**self.who, "files": dict(self.files)}


_SET_GLOBAL = "SET GLOBAL"
"""Where a value comes from that MySQL and MariaDB keep until they end."""


def differences(left: Picture, now: Picture) -> Iterator[Disturbance]:
    """What somebody else has done between the two; the most serious first."""
    before, after = (picture.who.get("identifier", "") for picture in (left, now))
    if before and after and before != after:
        text = f"another {now.noun} answers here: {now.calls}={after}, it was {before}"
        yield _stop(text, f"the wrong {now.noun} is never tuned: check what the url leads to, then start again")
        return
    role = _role_change(left, now)
    if role:
        yield _stop(role, "the wrong node is never tuned: point the url at the server to tune, then start again")
        return
    was_restarted = _was_restarted(left, now)
    yield from _configuration(left, now, was_restarted=was_restarted)
    if was_restarted:
        when = f": it started at {now.began}, not at {left.began}" if now.began else ", or crashed"
        text = f"the {now.noun} was restarted by somebody else{when}"
        yield Disturbance(fault=Fault.ENVIRONMENT, text=text, stops=False)


def _stop(text: str, hint: str) -> Disturbance:
    return Disturbance(fault=Fault.ENVIRONMENT, text=text, stops=True, hint=hint)


def _role_change(left: Picture, now: Picture) -> str:
    if left.role != now.role:
        return f"the server's role has changed (failover): it is {now.role} now, it was {left.role}"
    before, after = (picture.who.get("timeline", 0) for picture in (left, now))
    if before and after and before != after:
        return f"the server's timeline has changed (failover): timeline={after}, it was {before}"
    return ""


def _configuration(left: Picture, now: Picture, *, was_restarted: bool) -> Iterator[Disturbance]:
    """What somebody else has changed in files, else in settings; a restart loses what was set by SET GLOBAL."""
    changed = list(_file_changes(left.files, now.files))
    if changed:
        yield _stop("; ".join(changed), STOPPED)
        return
    set_anew = [
        f"{name}={value} ({where}), it was {left.settings[name][0]}"
        for name, (value, where) in now.settings.items()
        if name in left.settings
        and left.settings[name][0] != value
        and not (was_restarted and left.settings[name][1] == _SET_GLOBAL)
    ]
    if set_anew:
        more = f" and {len(set_anew) - _SHOWN} more" if len(set_anew) > _SHOWN else ""
        yield _stop(f"somebody else changed settings: {', '.join(set_anew[:_SHOWN])}{more}", STOPPED)


def _file_changes(left: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for path in sorted({*left, *now}):
        before, after = left.get(path, "missing"), now.get(path, "missing")
        if before == after:
            continue
        what = "removed" if after == "missing" else "added" if before == "missing" else "changed"
        yield f"file={path!r} was {what} by somebody else"


def _was_restarted(left: Picture, now: Picture) -> bool:
    """One whose run cannot be told from another's by anything was not, as far as we know."""
    if left.instance and (now.instance or left.began_s is None):
        return left.instance != now.instance
    return left.began_s is not None and now.began_s is not None and now.began_s > left.began_s + _UPTIME_SLACK_S


class Sentry:
    """Watches one system between our own changes; see `ForensicTarget`.

    Args:
        forensics: gathers its evidence.
        look: takes a picture of it; raises `TargetError` when it does not answer.
        troubles: what makes a measurement on it worthless now.

    Attributes:
        own: what is ours on the system.
    """

    def __init__(
        self,
        forensics: Forensics[Any],
        look: Callable[[], Picture],
        troubles: Callable[[], Iterable[tuple[Fault, str]]] = lambda: (),
    ) -> None:
        self._forensics = forensics
        self._look = look
        self._troubles = troubles
        self._left: Picture | None = None
        self.own = Own()
        self._failure: Evidence | None = None
        self._is_changing = False

    @property
    def left_files(self) -> Mapping[str, str]:
        """Path -> digest, as we left them; {} before the first look."""
        return self._left.files if self._left is not None else {}

    def begin(self) -> Mapping[str, Any]:
        """The system is as found: everything counts from here; what is kept of the picture of it.

        Raises:
            TargetError: it does not answer.
        """
        self._left, self.own, self._failure = self._look(), Own(), None
        self._is_changing = False
        self._forensics.mark()
        return self._left.kept()

    def changing(self, own: Own) -> None:
        """Our own change begins: evidence counts from here, and this will be ours even if the change dies half way."""
        self._forensics.mark()
        self._failure = None
        self._is_changing = True
        self.own = own.over(self.own)

    def changed(self, own: Own, require_ours: Callable[[], None] = lambda: None) -> Own:
        """Our own change is made, and `own` is all of it; the same with the picture of just after. What somebody else has written
        by then would be in that picture, and count as ours: `require_ours` raises when there is such a thing.

        Raises:
            TargetError: the system does not answer.
            ForeignChangeError: somebody else has changed it too.
        """
        self._forensics.mark()
        now = self._look()
        require_ours()
        self._left = now.after_own_change(self._left)
        self.own = replace(own, picture=self._left.kept(), is_whole=True)
        self._is_changing = False
        return self.own

    def restoring(self) -> None:
        """The way back begins: one that is cut off, by a second Ctrl-C say, leaves the system half way."""
        self._is_changing = True

    def restored(self) -> None:
        """Nothing is ours any more; a picture that cannot be taken now (no login) waits for the next change."""
        self.own = Own()
        self._forensics.mark()
        try:
            self._left = self._look().after_own_change(self._left)
        except TargetError:
            self._left = None
        self._is_changing = False

    def await_reason(self) -> None:
        """See `Forensics.await_reason`."""
        self._forensics.await_reason()

    def failed(self) -> None:
        """Our own change failed: what can be seen now is kept, since the rescue will cover it."""
        self._failure = self._forensics.gather(was_restarting=True)

    def last_words(self) -> str:
        """Why it is down, by its log, of the environment rather than of a config; "" when it runs, or no line is known."""
        found = self._forensics.gather()
        return found.symptoms[-1].text if found.symptoms and not found.is_up else ""

    def evidence(self) -> Evidence:
        """Of the last failure."""
        found, self._failure = self._failure, None
        return found if found is not None else self._forensics.gather()

    def disturbances(self) -> tuple[Disturbance, ...]:
        """What somebody else did since the last look, and what makes a measurement worthless now.

        Raises:
            TargetError: the system does not answer.
        """
        now = self._look()
        is_told = self._left is not None and not self._is_changing  # half way, our own change looks like somebody's
        found = tuple(differences(self._left, now)) if self._left is not None and is_told else ()
        if not any(disturbance.stops for disturbance in found):
            self._left = now
        spoilt = (Disturbance(fault=fault, text=text, stops=False) for fault, text in self._troubles())
        return (*found, *spoilt)
