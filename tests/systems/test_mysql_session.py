"""What is said when a MySQL or MariaDB server does not let us in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, cast

import pymysql
import pytest
from pymysql.constants import ER

from trimtab.errors import TargetError
from trimtab.records import Endpoint
from trimtab.systems.mysql import session
from trimtab.systems.session import LoginRefusedError, StatementError


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


@pytest.mark.parametrize(
    ("code", "words", "told"),
    [
        (1820, "You must SET PASSWORD before executing this statement", "the password of this user has expired"),
        (1862, "Your password has expired.", "the password of this user has expired"),
        (3118, "Access denied for user 'jo'@'db'. Account is locked.", "this user is locked"),
        (4151, "Access denied, this account is locked", "this user is locked"),
        (3955, "Account is blocked for 2 day(s)", "the server has blocked this user after wrong passwords"),
        (4150, "User is blocked because of too many credential errors", "the server has blocked this user after wrong passwords"),
        (3032, "The server is currently in offline mode", "the server is in offline mode"),
        (1203, "User jo already has more than 'max_user_connections' active connections",
         "this user has as many connections as max_user_connections allows"),
        (1226, "User 'jo' has exceeded the 'max_user_connections' resource (current value: 2)",
         "this user has as many connections as max_user_connections allows"),
        (1226, "User 'jo' has exceeded the 'max_connections_per_hour' resource (current value: 40)",
         "this user has used up what the server allows it in an hour"),
        (1524, "Plugin 'mysql_native_password' is not loaded", "the server has not loaded the plugin by which this user logs in"),
        (2059, "Authentication plugin 'auth_gssapi_client' not configured", "this user logs in by a plugin that Trimtab lacks"),
    ],
)  # fmt: skip
def test_a_server_that_refuses_this_user_is_not_down(
    monkeypatch: pytest.MonkeyPatch, code: int, words: str, told: str
) -> None:
    """Who takes it for one that does not answer restarts it."""

    def refused(*_: object, **__: object) -> None:
        raise pymysql.OperationalError(code, words)

    monkeypatch.setattr(session, "login", refused)
    there = Endpoint(protocol="mysql", host="db", port=3306, user="jo", password="x", database="")
    with pytest.raises(LoginRefusedError, match=f"as user='jo': {told}"):
        session.connect(there)


def test_a_login_that_needs_a_library_is_not_told_as_a_server_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a MariaDB user IDENTIFIED VIA ed25519."""

    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("'pynacl' package is required for ed25519_password auth method")

    monkeypatch.setattr(session, "login", refused)
    there = Endpoint(protocol="mysql", host="db", port=3306, user="jo", password="x", database="")
    with pytest.raises(
        LoginRefusedError, match="as user='jo': this user logs in by a plugin that Trimtab lacks"
    ) as caught:
        session.connect(there)
    assert "log in as a user with a password" in str(caught.value.hint)


def test_who_may_log_in_over_the_socket_only_is_told_to_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As root of a MariaDB or a MySQL of Debian or Ubuntu: the same error comes to every user of the system over TCP."""

    def refused(*_: object, **__: object) -> None:
        raise pymysql.OperationalError(1698, "Access denied for user 'root'@'localhost'")

    monkeypatch.setattr(session, "login", refused)
    there = Endpoint(protocol="mysql", host="localhost", port=3306, user="root", password="", database="")
    with pytest.raises(LoginRefusedError) as caught:
        session.connect(there)
    assert "?socket=/run/mysqld/mysqld.sock in url" in str(caught.value.hint)


class Connection:
    """One that keeps what it is asked, and refuses it with `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked, self.error, self.open = list[str](), error, True

    def query(self, statement: str) -> None:
        self.asked.append(statement)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.open = False


def test_what_limits_the_statements_of_people_does_not_cut_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under SET GLOBAL sql_select_limit = 100 most variables would be missing, and max_statement_time would end a resize.

    MySQL's max_join_size refuses what reads them, a join, and its max_execution_time ends that where the server is busy.
    """
    made = Connection()
    monkeypatch.setattr(session, "login", lambda *_, **__: made)
    there = Endpoint(protocol="mysql", host="db", port=3306, user="jo", password="x", database="")
    session.connect(there)
    (asked,) = made.asked
    assert asked.startswith("SET SESSION sql_select_limit = 18446744073709551615, SESSION sql_big_selects = 1 ")
    assert "/*!50708 , SESSION max_execution_time = 0 */ /*M!100101 , SESSION max_statement_time = 0 */" in asked
    gone = Connection(pymysql.OperationalError(1862, "Your password has expired."))
    monkeypatch.setattr(session, "login", lambda *_, **__: gone)
    with pytest.raises(LoginRefusedError):
        session.connect(there)
    assert not gone.open


class Killed:
    """A connection whose next statement ends with that error."""

    open = True

    def __init__(self, code: int) -> None:
        self.code = code

    def cursor(self) -> AbstractContextManager[Any]:
        raise pymysql.OperationalError(self.code, "the server's words")


@pytest.mark.parametrize(
    ("code", "is_lost"), [(1053, True), (1927, True), (3169, True), (4031, True), (2013, True), (1231, False)]
)
def test_a_connection_that_somebody_ends_is_lost_and_no_value_refused(code: int, is_lost: bool) -> None:
    """By KILL, a shutdown or wait_timeout: else it would be held against the config that is being set."""
    with pytest.raises(StatementError) as caught:
        session.Session(cast(Any, Killed(code))).rows("SET GLOBAL sort_buffer_size = 1048576")
    assert caught.value.is_lost is is_lost
