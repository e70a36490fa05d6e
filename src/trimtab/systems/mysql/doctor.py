"""What can be reached, read, changed and restarted, and what stands in the way; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.systems.base import KnobState
from trimtab.systems.doctor import Line, disk_lines, knob_line, recover_line, restart_line
from trimtab.systems.mysql.catalogue import Facts
from trimtab.systems.mysql.reach import Reach

__all__ = ["examine"]


def examine(reach: Reach, states: Mapping[str, KnobState], facts: Facts, memory: Sequence[Line]) -> list[Line]:
    """(check, is_fine, explanation), in the order in which to read them."""
    with reach.connect() as session:
        user = session.value("SELECT CURRENT_USER()")
        is_read_only = bool(session.value("SELECT @@GLOBAL.read_only"))
    rights = "may use SET GLOBAL" if facts.may_set else "may not use SET GLOBAL: see the locked knobs"
    return [
        ("server", True, f"{facts.flavour} at {reach.endpoint()}"),
        (
            "role",
            not is_read_only,
            "read-only, perhaps a replica: tune its primary" if is_read_only else "takes writes",
        ),
        ("replication", True, "replicates from or to another server" if facts.has_replica else "none"),
        ("rights", facts.may_set, f"user {user} {rights}"),
        ("files", True, _files_text(reach)),
        restart_line(reach.no_restart),
        recover_line(reach.no_later_login(), "~/.my.cnf"),
        *memory,
        *disk_lines(reach.host, reach.data_dir),
        knob_line(states),
    ]


def _files_text(reach: Reach) -> str:
    if reach.include_file is None:
        return "no include_file: changes are lost at the server's next restart"
    return f"Trimtab's own option file {reach.include_file}"
