"""Finds MySQL and MariaDB servers that run on this machine, for `trimtab init`; reads only."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.records import Endpoint
from trimtab.systems.capabilities import FoundServer
from trimtab.systems.mysql.flavour import read_flavour
from trimtab.systems.mysql.program import find_server
from trimtab.systems.mysql.session import connect

__all__ = ["INCLUDE_FOLDERS", "SOCKETS", "discover", "embedded"]

SOCKETS = tuple(
    Path(path)
    for path in (
        "/run/mysqld/mysqld.sock",
        "/var/lib/mysql/mysql.sock",
        "/tmp/mysql.sock",
    )
)
INCLUDE_FOLDERS = ("/etc/mysql/mariadb.conf.d", "/etc/mysql/mysql.conf.d", "/etc/mysql/conf.d", "/etc/my.cnf.d")
"""Where packages let their servers read further option files, the one read last first."""

_KIND = "mysql"
_MEMORY = '# memory = "4GiB"              # the budget that all memory knobs share; default: RAM or the cgroup limit'


def embedded() -> FoundServer | None:
    """A private MariaDB, or else a private MySQL; None when neither's server is installed."""
    for which, program, name in (("mariadb", "mariadbd", "MariaDB"), ("mysql", "mysqld", "MySQL")):
        try:
            find_server(which)
        except TargetError:
            continue
        choice = f'embedded = "{which}"'
        lines = (
            f"{choice:<32}# a private server of the {program} that is installed here",
            'memory = "1GiB"                 # the budget that all memory knobs share',
        )
        return FoundServer(kind=_KIND, what=f"an embedded {name}", lines=lines)
    return None


def discover(sockets: Sequence[Path] = SOCKETS, user: str | None = None) -> list[FoundServer]:
    """Every server behind one of `sockets`, asked as `user` (default: the operating system's)."""
    return [_probe(path, user or getpass.getuser()) for path in sockets if path.is_socket()]


def _probe(socket: Path, user: str) -> FoundServer:
    url = f"mysql://{user}@localhost/mysql?socket={socket}"
    endpoint = Endpoint(protocol="mysql", host=str(socket), port=3306, user=user, database="mysql")
    try:
        with connect(endpoint) as session:
            flavour = read_flavour(str(session.value("SELECT VERSION()")))
    except TargetError as error:
        return FoundServer(kind=_KIND, what="MySQL or MariaDB", url=url, problem=error.message)
    unit = "mariadb" if flavour.product == "mariadb" else "mysql"
    lines = [f'url = "{url}"   # {flavour}; no password here: use ~/.my.cnf']
    folder = next((path for path in INCLUDE_FOLDERS if os.path.isdir(path)), None)
    if folder is not None:
        lines += [
            f'# include_file = "{folder}/zz-trimtab.cnf"   # an option file of Trimtab\'s own, which the server reads last',
            f'# restart = "systemctl restart {unit}"   # with both, knobs that need a restart are tuned too',
        ]
    return FoundServer(kind=_KIND, what=str(flavour), url=url, lines=(*lines, _MEMORY))
