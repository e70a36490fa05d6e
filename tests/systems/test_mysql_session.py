"""What is said when a MySQL or MariaDB server does not let us in."""

from __future__ import annotations

import pymysql
import pytest
from pymysql.constants import ER

from trimtab.errors import TargetError
from trimtab.records import Endpoint
from trimtab.systems.mysql import session
from trimtab.systems.session import LoginRefusedError


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
