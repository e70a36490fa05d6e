"""A connection to a web server goes to the address that was given."""

from __future__ import annotations

import pytest

from trimtab.host.http import http_connection


@pytest.mark.parametrize(
    ("host", "port", "is_encrypted", "wanted"),
    [
        ("::1", None, False, ("::1", 80)),
        ("fe80::1", None, True, ("fe80::1", 443)),
        ("::1", 8080, False, ("::1", 8080)),
        ("localhost", None, False, ("localhost", 80)),
    ],
)
def test_without_a_port_it_is_that_of_the_protocol(
    host: str, port: int | None, is_encrypted: bool, wanted: tuple[str, int]
) -> None:
    connection = http_connection(host, port, is_encrypted=is_encrypted, timeout_s=1.0)
    assert (connection.host, connection.port) == wanted
