"""What `trimtab doctor` says of a restart command without running it, and of users and folders of this machine."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from trimtab.errors import TargetError
from trimtab.host import CommandResult, LocalHost
from trimtab.systems import account, discovery, doctor
from trimtab.systems.postgresql.session import _told
from trimtab.systems.server_catalog import server_catalog
from trimtab.systems.session import LoginRefusedError

_NOT_IN = "the server's pg_hba.conf does not let this user in"
MANY = {"systemctl": "/usr/bin/systemctl", "sudo": "/usr/bin/sudo", "/srv/again": "/srv/again"}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A user who is not root, on a machine with few programs; what is asked of sudo, which allows restarts of `db` only."""
    asked: list[list[str]] = []

    def run(self: LocalHost, argv: list[str], *, timeout_s: float) -> CommandResult:
        asked.append(argv)
        return CommandResult(argv=tuple(argv), exit_code=int(argv[-1] != "db"), stdout="", stderr="", duration_s=0.1)

    monkeypatch.setattr("trimtab.systems.doctor.shutil.which", MANY.get)
    monkeypatch.setattr("trimtab.systems.doctor.os.geteuid", lambda: 12345)
    monkeypatch.setattr("trimtab.systems.doctor.user_name", lambda: "postgres")
    monkeypatch.setattr(LocalHost, "run", run)
    return asked


@pytest.mark.parametrize(
    ("no_restart", "command", "is_fine", "words"),
    [
        ("needs a restart, and the study file gives no restart command", None, True, "such knobs are locked"),
        ("", None, True, "possible"),
        ("", "/no/such/command now", False, "there is no program '/no/such/command'"),
        ("", "sytemctl restart db", False, "there is no program 'sytemctl'"),
        ("", "./again.sh", True, "by the command './again.sh' of the study file, which is not tried here"),
        ("", "{httpd} -k restart", True, "which is not tried here"),
        ("", "/srv/again", True, "by the command '/srv/again' of the study file, which is not tried here"),
        ("", "systemctl restart db", True, "may need root: `sudo -n systemctl restart db` with a line in sudoers"),
        ("", "sudo -n systemctl restart db", True, "which is not tried here"),
        ("", "sytemctl restart db --password=hunter2", False, "restart='sytemctl restart db --password=***': there is no"),
        ("", "systemctl restart db --token-secret hunter2", True, "`sudo -n systemctl restart db --token-secret ***`"),
        ("", "sudo -n /srv/again --password hunter2", False, "NOPASSWD: /srv/again --password ***"),
        ("", "sudo -n systemctl restart other", False,
         "for sudoers: postgres ALL=(root) NOPASSWD: /usr/bin/systemctl restart other"),
    ],
)  # fmt: skip
def test_a_restart_is_looked_at_without_being_run(
    machine: list[list[str]], no_restart: str, command: str | None, is_fine: bool, words: str
) -> None:
    check, fine, text = doctor.restart_line(no_restart, command)
    assert (check, fine) == ("restart", is_fine)
    assert words in text
    assert all(argv[:3] == ["sudo", "-n", "-l"] for argv in machine), "asked, and not run"


def test_a_user_without_a_name_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(account.os, "geteuid", lambda: 12345)
    monkeypatch.setattr(account.pwd, "getpwuid", nobody)
    with pytest.raises(TargetError, match=r"this user has no name \(uid=12345 is not in /etc/passwd\)"):
        account.server_account()
    assert account.user_name() == "12345"


def test_a_folder_that_may_not_be_listed_hides_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(self: Path) -> Iterator[Path]:
        if self.name == "private":
            raise PermissionError(13, "Permission denied")
        return iterate(self)

    iterate = Path.iterdir
    for name in ("private", "open"):
        (tmp_path / name).mkdir()
    (tmp_path / "open" / "a").touch()
    monkeypatch.setattr(Path, "iterdir", refuse)
    assert discovery._entries(tmp_path / "private") == discovery._entries(tmp_path / "missing") == []
    assert discovery._entries(tmp_path / "open") == [tmp_path / "open" / "a"]


@pytest.mark.parametrize(
    ("needed_is_there", "restart"),
    [(True, "sudo -n systemctl restart postgresql@15-main"), (False, "pg_ctlcluster 15 main restart")],
)
def test_a_packaged_server_is_restarted_as_its_machine_does(
    monkeypatch: pytest.MonkeyPatch, needed_is_there: bool, restart: str
) -> None:
    monkeypatch.setattr("trimtab.systems.discovery.os.path.exists", lambda path: needed_is_there)
    texts = server_catalog("postgresql").discover
    assert texts is not None
    found = discovery.target_lines("postgresql", texts, "u", "PostgreSQL 15.1", "/var/lib/postgresql/15/main")
    assert any(line.startswith(f'restart = "{restart}"') for line in found.lines)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "FATAL:  unsupported startup parameter in options: statement_timeout",
            "a connection pooler such as pgbouncer",
        ),
        (
            "FATAL:  Feature not supported: RDS Proxy currently doesn’t support command-line options.",
            "a connection pooler answers there",
        ),
        ('root certificate file "root.crt" does not exist', "the certificate of the authority"),
        ("SSL error: certificate verify failed", "the server's certificate is not of the authority"),
        (
            'server certificate for "a" does not match host name "b"',
            "the server's certificate is for another host name",
        ),
        ("FATAL:  connection requires a valid client certificate", "the server asks for a certificate of this user"),
        (
            'private key file "k" has group or world access; file must have permissions u=rw (0600) or less',
            "the private key of this user's certificate cannot be used",
        ),
        ("server does not support SSL, but SSL was required", "the server does not encrypt, and sslmode asks for it"),
        (
            'no pg_hba.conf entry for host "::1", user "x", database "d", no encryption',
            f"{_NOT_IN} without encryption: ",
        ),
        (
            'no pg_hba.conf entry for host "::1", user "x", database "d", SSL encryption'
            ' no pg_hba.conf entry for host "::1", user "x", database "d", no encryption',
            f"{_NOT_IN}: ",
        ),
        ('no pg_hba.conf entry for host "[local]", user "x", database "d", no encryption', f"{_NOT_IN}: "),
        ('pg_hba.conf rejects connection for host "::1", user "x"', "a line of the server's pg_hba.conf rejects"),
        ('FATAL:  role "x" is not permitted to log in', "the role may not log in"),
        ('FATAL:  role "x" does not exist', "the user or the database does not exist"),
        ('FATAL:  LDAP authentication failed for user "x"', "the server does not let this user in"),
        (
            'FATAL:  permission denied for database "x" DETAIL:  User does not have CONNECT privilege.',
            "this user may not",
        ),
        ('FATAL:  database "x" is not currently accepting connections', "the database takes no logins"),
        ('FATAL:  too many connections for role "x"', "this user has as many connections as its CONNECTION LIMIT"),
        (
            'FATAL:  too many connections for database "x"',
            "the database has as many connections as its CONNECTION LIMIT",
        ),
        ('FATAL:  permission denied to set parameter "x"', "`options` in url sets what this user may not set"),
        (
            'FATAL:  unrecognized configuration parameter "x"',
            "`options` in url names a setting that the server does not",
        ),
        ('FATAL:  invalid value for parameter "x": "1"', "`options` in url gives a setting a value"),
    ],
)
def test_the_words_of_a_login_that_fails_name_the_cause(said: str, told: str) -> None:
    """Each is a refusal: no restart would change it, and none is made."""
    error = _told(psycopg.OperationalError(said), {"host": "h"})
    assert error.message.startswith(told)
    assert isinstance(error, LoginRefusedError)
