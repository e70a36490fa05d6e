"""Foreign changes: whether the server, its option files and its settings are still as we left them.

A `Picture` is what we left: which server it is, its role, its process, a digest of every option file that is known to be
read, and the settings that matter. `differences` tells what somebody else has done since.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.host import process_mark
from trimtab.systems.foreign import another_role, another_server, other_configuration, restarted
from trimtab.systems.forensic import Disturbance
from trimtab.systems.mysql.options import option_files
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.replication import is_replica
from trimtab.systems.mysql.session import Session, StatementError
from trimtab.systems.mysql.variables import Variable

__all__ = ["Picture", "differences", "files_as_left", "take_picture", "who_answers"]

_UPTIME_SLACK_S = 3.0
"""Uptime counts whole seconds."""

_WATCHED = ("autocommit", "general_log", "slow_query_log", "sql_mode", "transaction_isolation", "tx_isolation")
"""Beside the knobs of the catalogue: what changes a measurement without being a knob of ours."""

Read = Callable[[Session], Mapping[str, Variable]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A server as it was left; "" and {} where this user may not see.

    Attributes:
        identifier: its own, made with its data directory.
        role: "" for a server that takes writes, else why it does not.
        process: mark of its process; "" when that is on another machine.
        started_s: when it began, on this process's monotonic clock; from its uptime, so to a second.
        files: path -> digest.
        ours: the option file of our own.
        settings: variable -> (value as text, where it comes from).
    """

    identifier: str
    role: str
    process: str
    started_s: float
    files: Mapping[str, str]
    ours: str
    settings: Mapping[str, tuple[str, str]]

    def after_own_change(self, before: Picture | None) -> Picture:
        """This picture, taken after a change of our own: what we do not change must be as it was `before` it."""
        if before is None:
            return self
        files = {path: digest for path, digest in before.files.items() if path != self.ours}
        files |= {path: digest for path, digest in self.files.items() if path == self.ours}
        return replace(self, files=files, identifier=before.identifier, role=before.role)

    def kept(self) -> Mapping[str, Any]:
        """What the journal keeps of it, as JSON: which server it is, and the digests of its files."""
        return {"identifier": self.identifier, "role": self.role, "files": dict(self.files)}


def take_picture(reach: Reach, read: Read, curated: frozenset[str]) -> Picture:
    """The server as it is now; `read` reads its variables, of which `curated` are watched.

    Raises:
        TargetError: it does not answer.
    """
    with reach.connect() as session:
        variables = read(session)
        watched = {name: variables[name] for name in sorted({*curated, *_WATCHED}) if name in variables}
        uptime = session.execute("SHOW GLOBAL STATUS LIKE 'Uptime'")
        identifier = _identifier(session)
        role = _role(session, variables)
    pid = reach.pid
    return Picture(
        identifier=identifier,
        role=role,
        process=f"{pid} {process_mark(pid)}" if pid is not None else "",
        started_s=time.monotonic() - float(uptime[0][1]) if uptime else 0.0,
        files={str(path): _digest(path, reach) for path in option_files(reach)},
        ours=str(reach.include_file or ""),
        settings={name: (variable.text, _where(variable)) for name, variable in watched.items()},
    )


def who_answers(session: Session, variables: Mapping[str, Variable]) -> dict[str, str]:
    """Identifier and role of the server behind `session`."""
    return {"identifier": _identifier(session), "role": _role(session, variables)}


def files_as_left(reach: Reach, left: Mapping[str, str]) -> bool:
    """Whether the option files but our own are, byte by byte, as they were `left`; none was added, as far as can be seen.

    Which files a server reads is known by its command line, and so only while it runs.
    """
    ours = str(reach.include_file or "")
    known = {path: digest for path, digest in left.items() if path != ours}
    if any(_digest(Path(path), reach) != digest for path, digest in known.items()):
        return False
    added = {str(path) for path in option_files(reach)} - {ours} - set(known) if any(reach.argv) else set()
    return not any(_digest(Path(path), reach) != "missing" for path in added)


def _identifier(session: Session) -> str:
    return "".join(_asked(session, f"@@GLOBAL.{name}") for name in ("server_uid", "server_uuid"))


def _asked(session: Session, what: str) -> str:
    try:
        return str(session.value(f"SELECT {what}") or "")
    except StatementError:  # MariaDB has one, MySQL the other
        return ""


def _role(session: Session, variables: Mapping[str, Variable]) -> str:
    if any(name in variables and variables[name].value is True for name in ("read_only", "super_read_only")):
        return "read-only"
    return "a replica" if is_replica(session) else ""


def _where(variable: Variable) -> str:
    return f"{variable.source} {variable.path}".rstrip()


def _digest(path: Path, reach: Reach) -> str:
    try:
        copy = reach.host.read_file(path)
    except TargetError:
        return "unreadable"
    return hashlib.sha256(copy.content).hexdigest() if copy is not None else "missing"


def differences(left: Picture, now: Picture) -> Iterator[Disturbance]:
    """What somebody else has done between the two; the most serious first."""
    if left.identifier and now.identifier and left.identifier != now.identifier:
        yield another_server(f"another server answers here: server_uid={now.identifier}, it was {left.identifier}")
        return
    if left.role != now.role:
        words = [role or "a server that takes writes" for role in (now.role, left.role)]
        yield another_role(f"the server's role has changed (failover): it is {words[0]} now, it was {words[1]}")
        return
    yield from other_configuration((left.files, now.files), (left.settings, now.settings))
    if _was_restarted(left, now):
        yield restarted("the server was restarted by somebody else, or crashed")


def _was_restarted(left: Picture, now: Picture) -> bool:
    if left.process and now.process:
        return left.process != now.process
    return now.started_s > left.started_s + _UPTIME_SLACK_S
