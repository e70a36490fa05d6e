"""Sentry: keeps what we left of a server, and tells what failed and what somebody else did; see `ForensicTarget`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.records import Fault
from trimtab.target.base import KnobState, Snapshot
from trimtab.target.forensic import Disturbance, Evidence, Withdrawal
from trimtab.target.postgresql.disk import low_disk
from trimtab.target.postgresql.foreign import Picture, differences, take_picture
from trimtab.target.postgresql.forensics import Forensics
from trimtab.target.postgresql.network import Link
from trimtab.target.postgresql.reach import AUTO_CONF, Reach
from trimtab.target.postgresql.values import setting_text
from trimtab.target.postgresql.withdraw import withdraw

__all__ = ["Sentry"]


class Sentry:
    """Watches one server between our own changes."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._forensics = Forensics(reach)
        self._link = Link(reach)
        self._left: Picture | None = None
        self._ours: dict[str, str] = {}
        self._failure: Evidence | None = None
        self._is_changing = False

    def begin(self) -> None:
        """The server is as found: everything counts from here.

        Raises:
            TargetError: it does not answer.
        """
        self._left, self._ours, self._failure = take_picture(self._reach), {}, None
        self._forensics.mark()
        self._link.learn()

    def changing(self, config: Mapping[str, object], states: Mapping[str, KnobState]) -> None:
        """Our own change begins: evidence counts from here, and these values will be ours even if it dies half way."""
        self._forensics.mark()
        self._failure = None
        self._is_changing = True
        for name, value in config.items():
            if name in states and isinstance(value, bool | int | float | str):
                self._ours[name] = setting_text(value, states[name].knob.unit)

    def changed(self, config: Mapping[str, object]) -> None:
        """Our own change is made, and `config` is all of it.

        Raises:
            TargetError: the server does not answer.
        """
        self._ours = {name: text for name, text in self._ours.items() if name in config}
        self._forensics.mark()
        self._left = take_picture(self._reach).after_own_change(self._left)
        self._is_changing = False

    def restored(self) -> None:
        """The server is as found again; a picture that cannot be taken now (no login) waits for the next change."""
        self._ours = {}
        self._is_changing = False
        self._forensics.mark()
        try:
            self._left = take_picture(self._reach).after_own_change(self._left)
        except TargetError:
            self._left = None

    def await_reason(self) -> None:
        """After a session was cut off: waits a moment for the server's log to say why."""
        self._forensics.await_reason()

    def failed(self) -> None:
        """Our own change failed: what can be seen now is kept, since the rescue will cover it."""
        self._failure = self._forensics.gather(was_restarting=True)

    def evidence(self) -> Evidence:
        """Of the last failure."""
        found, self._failure = self._failure, None
        return found if found is not None else self._forensics.gather()

    def disturbances(self) -> tuple[Disturbance, ...]:
        """What somebody else did since the last look, and what makes a measurement worthless now."""
        found = []
        now = take_picture(self._reach)
        if (
            self._left is not None and not self._is_changing
        ):  # interrupted half way, our own change looks like somebody's
            found = list(differences(self._left, now))
        if not any(disturbance.stops for disturbance in found):
            self._left = now
        for fault, text in ((Fault.RESOURCE, low_disk(self._reach)), (Fault.ENVIRONMENT, self._link.trouble())):
            if text:
                found.append(Disturbance(fault=fault, text=text, stops=False))
        return tuple(found)

    def withdraw(self, snapshot: Snapshot) -> Withdrawal:
        """Takes back what is ours, if this is still the server that we changed."""
        ours = dict(self._ours)
        try:
            now = take_picture(self._reach)
        except TargetError as error:
            return Withdrawal(left=tuple(f"{name}={text}: {error.message}" for name, text in ours.items()))
        left = self._left
        if left is None or (left.identifier, left.is_standby, left.timeline) != (
            now.identifier,
            now.is_standby,
            now.timeline,
        ):
            why = "not touched, because it is not known to be the server that was tuned"
            return Withdrawal(left=tuple(f"{name}={text}: {why}" for name, text in ours.items()))
        auto = [path for path in now.files if Path(path).name == AUTO_CONF]
        is_ours = all(left.files.get(path) == now.files[path] for path in auto)
        done = withdraw(self._reach, snapshot, ours, is_auto_conf_ours=is_ours)
        if not done.left:
            self._ours = {}
        return done
