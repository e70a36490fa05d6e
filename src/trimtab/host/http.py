"""A connection to a web server that is asked whether it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the way back of a program that is asked by HTTP need not ask it
    from http.client import HTTPConnection

__all__ = ["http_connection"]


def http_connection(host: str, port: int | None, *, is_encrypted: bool, timeout_s: float) -> HTTPConnection:
    """Not yet connected; `port` None: that of the protocol.

    The certificate is not checked, for nothing secret is sent: the load checks it.
    """
    from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPSConnection

    if port is None:  # the library would look for one in the host, and take the end of an IPv6 address for it
        port = HTTPS_PORT if is_encrypted else HTTP_PORT
    if not is_encrypted:
        return HTTPConnection(host, port, timeout=timeout_s)
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return HTTPSConnection(host, port, timeout=timeout_s, context=context)
