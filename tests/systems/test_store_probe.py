"""Stores of records that a catalogue describes: their addresses, whether they listen, what they count."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.commands import PYTHON
from tests.systems.program.conftest import cache, folder, made
from trimtab.errors import TargetError
from trimtab.systems.store_probe import printed_counters, require_service, store_at
from trimtab.workload.mongodb_access import mongodb_access
from trimtab.workload.server.mongodb import mongodb_url

__all__ = ["cache", "folder"]


def test_counters_are_numbers_with_a_name() -> None:
    assert printed_counters("12 cache: pages read\n3.5 b\nnonsense here\n\n") == {"cache: pages read": 12.0, "b": 3.5}


def test_the_address_of_a_store() -> None:
    there = store_at(urlsplit("mongodb://me:h%40rse@db.example/x?authSource=admin&tls=true"), {"folder": "/f"})
    assert (there.protocol, there.host, there.port, there.user, there.database) == (
        "mongodb", "db.example", 27017, "me", "x",
    )  # fmt: skip
    assert there.password == "h@rse"
    assert dict(there.options) == {"folder": "/f", "authSource": "admin", "tls": "true"}
    here = store_at(urlsplit("wiredtiger:/run/kv/engine.sock"), {})
    assert (here.protocol, here.host, here.port, here.database) == ("wiredtiger", "/run/kv/engine.sock", 0, "")


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("mongodb://me:pw@h/shop", "shop"),
        ("mongodb://me:pw@h/shop%2D2?authMechanism=SCRAM-SHA-256", "shop-2"),
        ("mongodb://me:pw@h/shop?authSource=admin", "admin"),
        ("mongodb://me:pw@h/", None),
        ("mongodb://h/shop", None),
        ("mongodb://me@h/shop?authMechanism=MONGODB-X509", None),
    ],
)
def test_the_user_of_a_store_is_one_of_the_database_in_its_address(address: str, source: str | None) -> None:
    there = store_at(urlsplit(address), {}).with_database("trimtab_ycsb_1000")
    assert there.options.get("authSource") == source
    if source is not None:
        assert mongodb_access(there)["settings"] == [["authSource", source]]
        assert f"authSource={source}" in mongodb_url(there)


def test_a_socket_without_a_server_is_not_healthy(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pytest.raises(TargetError, match=f"no server listens at {path}: No such file or directory"):
        assert require_service(f"unix:{path}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        assert require_service(f"unix:{path}")


def test_a_program_counts_by_its_command(folder: Path) -> None:
    counting = f"{PYTHON} -c \"print('7 rows read')\""
    target = made(folder, counters=counting, run=f"{PYTHON} program.py .")
    assert target.counters() == {}
    target.open()
    try:
        assert target.counters() == {"rows read": 7.0}
    finally:
        target.close()
