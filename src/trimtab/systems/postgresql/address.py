"""Address: where a server listens, by its own pid file, and whether anything listens where a login goes."""

from __future__ import annotations

import socket
from pathlib import Path

from trimtab.systems.postgresql.recovery import PID_FILE
from trimtab.systems.process import pid_file_lines

__all__ = ["has_no_listener", "listens_at"]

_READY = "ready"
_PROBE_S = 2.0


def listens_at(data_dir: Path) -> str:
    """Where a server that is ready for logins takes them, as its pid file says, for people; "" for any other server."""
    lines = [line.strip() for line in pid_file_lines(data_dir / PID_FILE)]
    if lines[7:8] != [_READY]:
        return ""
    port, folder, address = lines[3:6]
    named = {"port": port, "listen_addresses": address, "unix_socket_directories": folder}
    return " ".join(f"{name}={text}" for name, text in named.items() if text)


def has_no_listener(host: str, port: str) -> bool:
    """Whether a login there is refused by the machine because no program listens; False where that cannot be known.

    A server that hangs listens: its logins wait.

    Args:
        host: a name, an address, or the folder of a socket.
        port: its number, also of a socket.
    """
    if not port.isdigit():
        return False
    try:
        if host.startswith("/"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_PROBE_S)
                probe.connect(f"{host}/.s.PGSQL.{port}")
        else:
            socket.create_connection((host, int(port)), _PROBE_S).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except (OSError, ValueError):
        return False
    return False
