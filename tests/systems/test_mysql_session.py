"""What is said when a MySQL or MariaDB server does not let us in."""

from __future__ import annotations

import pymysql
import pytest
from pymysql.constants import ER

from trimtab.errors import TargetError
from trimtab.records import Endpoint
from trimtab.systems.mysql import session
from trimtab.systems.session import LoginRefusedError


@pytest.mark.parametrize(
    ("code", "words", "told"),
    [
        (2003, "Can't connect to MySQL server on 'db' ([SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed)",
         "its certificate is not one that sslmode accepts"),
        (2026, "SSL is required but the server doesn't support it", "the server does not encrypt, and sslmode asks for it"),
        (3159, "prohibited", "the server takes encrypted connections only"),
    ],
)  # fmt: skip
def test_trouble_with_encryption_is_named(monkeypatch: pytest.MonkeyPatch, code: int, words: str, told: str) -> None:
    def refused(*_: object, **__: object) -> None:
        raise pymysql.OperationalError(code, words)

    monkeypatch.setattr(session, "login", refused)
    there = Endpoint(protocol="mysql", host="db", port=3306, user="jo", password="x", database="")
    with pytest.raises(LoginRefusedError, match=told):
        session.connect(there)


def test_a_blocked_host_is_told_how_every_version_unblocks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """FLUSH HOSTS is no statement of MySQL 8.4 any more; the program does what its server knows."""

    def blocked(*_: object, **__: object) -> None:
        raise pymysql.OperationalError(ER.HOST_IS_BLOCKED, "Host 'a' is blocked because of many connection errors")

    monkeypatch.setattr(session, "login", blocked)
    there = Endpoint(protocol="mysql", host="db", port=3306, user="jo", password="x", database="")
    with pytest.raises(LoginRefusedError) as caught:
        session.connect(there)
    assert caught.value.message == (
        "cannot log in to server=db:3306 as user='jo': the server has blocked this host after many errors"
    )
    assert caught.value.hint == "run `mysqladmin flush-hosts`"
    assert isinstance(caught.value, TargetError)
