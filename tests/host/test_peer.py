"""Which addresses mean this machine."""

from __future__ import annotations

import pytest

from trimtab.host import is_this_machine


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("", True),
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("/run/postgresql", True),
        ("192.0.2.1", False),  # of no machine at all (RFC 5737)
        ("2001:db8::1", False),
        ("x" * 64, True),  # no name of a host, and hence of no other machine
    ],
)
def test_an_address_is_this_machines_where_one_of_its_interfaces_has_it(host: str, is_here: bool) -> None:
    assert is_this_machine(host) is is_here
