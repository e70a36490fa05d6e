"""Withdraw: our own changes taken back out of a configuration that somebody else has changed meanwhile.

A restore gives back the very bytes that were found, and with them would overwrite what somebody else has written since.
Withdrawing touches only the entries of postgresql.auto.conf that are still ours, letter by letter, and restarts nothing
that would bring a change of somebody else's into force at start. What is left is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.errors import TargetError
from trimtab.target.base import Snapshot
from trimtab.target.files import file_from_json
from trimtab.target.forensic import Withdrawal
from trimtab.target.postgresql.autoconf import change_entries, file_faults, read_entries, reload_and_wait
from trimtab.target.postgresql.catalogue import read_rows
from trimtab.target.postgresql.pending import unsettled
from trimtab.target.postgresql.reach import AUTO_CONF, Reach
from trimtab.target.postgresql.values import is_same
from trimtab.units import format_value

__all__ = ["withdraw"]


def withdraw(reach: Reach, snapshot: Snapshot, ours: Mapping[str, str], *, is_auto_conf_ours: bool) -> Withdrawal:
    """Takes `ours` (knob -> text as we set it) back to `snapshot`; never raises.

    Args:
        reach: the server, of which is known that it is the right one.
        snapshot: as found.
        ours: entries that we have written and not taken back yet.
        is_auto_conf_ours: whether postgresql.auto.conf is, byte by byte, as we left it; it is then put back as found.
    """
    if not ours and not is_auto_conf_ours:
        return Withdrawal()
    try:
        with reach.connect() as connection:
            faults = file_faults(connection)
        if faults:
            return _left(ours, f"the configuration files cannot be parsed ({faults[0]})")
        if is_auto_conf_ours and snapshot.files:
            for table in snapshot.files.values():
                _put_file_back(reach, table)
            foreign: dict[str, str] = {}
        else:
            foreign = _take_out(reach, snapshot, ours)
        reload_and_wait(reach.connect)
        return _settle(reach, snapshot, ours, foreign)
    except TargetError as error:
        return _left(ours, error.message)


def _left(ours: Mapping[str, str], reason: str) -> Withdrawal:
    return Withdrawal(left=tuple(f"{name}={text}: {reason}" for name, text in sorted(ours.items())))


def _put_file_back(reach: Reach, table: Mapping[str, object]) -> None:
    if reach.data_dir is None:
        return
    saved = file_from_json(table)
    if saved is None:
        reach.host.remove_file(reach.data_dir / AUTO_CONF)
    else:
        reach.host.write_file(reach.data_dir / AUTO_CONF, saved)


def _take_out(reach: Reach, snapshot: Snapshot, ours: Mapping[str, str]) -> dict[str, str]:
    """Entries that still read as we wrote them go back to what they were; those that do not are another's: returned."""
    base: Mapping[str, str] = snapshot.reach["entries"]
    with reach.connect() as connection:
        now = read_entries(connection)
        still = {name for name, text in ours.items() if now.get(name) == text}
        wanted = {name: text for name, text in now.items() if name not in still}
        wanted |= {name: base[name] for name in still if name in base}
        change_entries(connection, now, wanted)
    return {name: now[name] for name in ours if name in now and name not in still and now[name] != base.get(name)}


def _settle(reach: Reach, snapshot: Snapshot, ours: Mapping[str, str], foreign: Mapping[str, str]) -> Withdrawal:
    """Restarts when only our own values wait for it; then says knob by knob what stands."""
    with reach.connect() as connection:
        rows = read_rows(connection)
        waiting = set(unsettled(connection, rows))
    if waiting and waiting <= set(ours) and not reach.no_restart:
        reach.restart()
        with reach.connect() as connection:
            rows = read_rows(connection)
    back, left = [], []
    for name, text in sorted(ours.items()):
        value = format_value(rows[name].value, rows[name].unit)
        if name in foreign:
            left.append(f"{name}={value}: somebody else has set it to {foreign[name]} meanwhile")
        elif name in snapshot.values and not is_same(rows[name].value, snapshot.values[name]):
            waits = "a restart, which was not made because it would bring changes of somebody else's into force"
            left.append(f"{name}={text}: waits for {waits}" if name in waiting else f"{name}={value}: set elsewhere")
        else:
            back.append(f"{name}={value}")
    return Withdrawal(put_back=tuple(back), left=tuple(left))
