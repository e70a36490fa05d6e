"""One GET request, to see whether a web server answers."""

from __future__ import annotations

from urllib.parse import urlsplit

from trimtab.errors import TargetError
from trimtab.host.http import http_connection

__all__ = ["http_get", "is_http"]

_MOST_BYTES = 1 << 20


def is_http(command: str) -> bool:
    """Whether a health command is an address to ask and no program to run."""
    return command.startswith(("http://", "https://"))


def http_get(url: str, *, timeout_s: float) -> tuple[int, str]:
    """Status and body (its first MiB) of one request; no redirect is followed.

    Raises:
        TargetError: nobody answers in time, or not in HTTP.
    """
    from http.client import HTTPException

    parts = urlsplit(url)
    path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    try:
        is_encrypted, host = parts.scheme == "https", parts.hostname or "localhost"
        connection = http_connection(host, parts.port, is_encrypted=is_encrypted, timeout_s=timeout_s)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST_BYTES).decode("latin-1")
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as error:
        raise TargetError(
            f"the program does not answer: health={url!r}: {error or type(error).__name__}", hint="see its log"
        ) from error
