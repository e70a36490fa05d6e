"""What can be reached, read, changed and restarted, and what stands in the way; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.systems.base import KnobState
from trimtab.systems.doctor import Line, disk_lines, knob_line, recover_line, restart_line
from trimtab.systems.postgresql.autoconf import file_faults
from trimtab.systems.postgresql.catalogue import read_rows
from trimtab.systems.postgresql.pending import unsettled
from trimtab.systems.postgresql.reach import Reach

__all__ = ["examine"]


def examine(reach: Reach, states: Mapping[str, KnobState], memory: Sequence[Line]) -> list[Line]:
    """(check, is_fine, explanation), in the order in which to read them."""
    with reach.connect() as connection:
        found = connection.execute(
            "SELECT current_setting('server_version'), pg_is_in_recovery(),"
            " (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), current_user"
        ).fetchone()
        version, is_standby, is_superuser, user = found if found is not None else ("?", False, False, "?")
        faults = file_faults(connection)
        waits = ", ".join(unsettled(connection, read_rows(connection)))
    managed = states["allow_alter_system"].running is False if "allow_alter_system" in states else False
    return [
        ("server", True, f"PostgreSQL {version} at {reach.endpoint()}"),
        ("role", not is_standby, "a standby: tune its primary" if is_standby else "a primary"),
        ("rights", True, f"user {user} is {'a superuser' if is_superuser else 'no superuser: see the locked knobs'}"),
        ("alter system", not managed, "allow_alter_system = off" if managed else "allowed"),
        ("files", not faults, "; ".join(faults) or _files_text(reach)),
        restart_line(reach.no_restart),
        recover_line(reach.no_later_login(), "~/.pgpass"),
        (
            "pending",
            not waits,
            f"in the files, not yet in use: {waits}" if waits else "the server uses what the files say",
        ),
        *memory,
        *disk_lines(reach.host, reach.data_dir),
        knob_line(states),
    ]


def _files_text(reach: Reach) -> str:
    where = f"data directory {reach.data_dir}" if reach.data_dir is not None else "not reachable, changed by SQL alone"
    return f"{where}; no faults in the configuration files"
