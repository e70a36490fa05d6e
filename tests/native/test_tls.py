"""Encrypted connections to real servers with certificates made here: whom the load trusts, what it shows, whom it refuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers.certificates import Authority
from tests.servers.mariadb import MariaDb, private_mariadb
from tests.servers.mysql import private_mysql
from tests.servers.postgresql import DEBIAN, started
from tests.servers.run import made
from trimtab._native import Load, Mysql, Postgres, Script, Scripts
from trimtab.errors import TargetError
from trimtab.records import Endpoint
from trimtab.systems.mysql.session import connect
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.session import LoginRefusedError
from trimtab.workload.engine_run import driver_of

pytestmark = [pytest.mark.service, pytest.mark.slow]


@dataclass(frozen=True)
class Secured:
    """A MariaDB with a certificate, and the authority that has signed it."""

    server: MariaDb
    authority: Authority
    folder: Path

    def driver(self, **options: Any) -> Mysql:
        """Over TCP as the user who must have TLS, unless `options` say otherwise."""
        own: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.server.port,
            "user": "safe",
            "password": "p w",
            "database": "test",
        }
        return Mysql(**{**own, **options})


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with made("tls") as folder:
        authority = Authority.made(folder)
        certificate, key = authority.sign("server", "/CN=db", names="IP:127.0.0.1")
        with private_mariadb(f"--ssl-ca={authority.root}", f"--ssl-cert={certificate}", f"--ssl-key={key}") as server:
            server.run(
                "CREATE USER safe@'127.0.0.1' IDENTIFIED BY 'p w' REQUIRE SSL; GRANT SELECT ON test.* TO safe@'127.0.0.1';"
                "CREATE USER shown@'127.0.0.1' REQUIRE SUBJECT '/CN=shown'; GRANT SELECT ON test.* TO shown@'127.0.0.1'"
            )
            yield Secured(server, authority, folder)


def runs(driver: Mysql | Postgres, dialect: str = "mysql") -> None:
    """Answers longer than a TLS record come, and prepared statements work."""
    sleep = {"mysql": "sleep(0.02)", "postgresql": "pg_sleep(0.02)"}[dialect]  # not the speed counts here
    text = f"SELECT repeat('x', 100000), {sleep}; SELECT :n + 1;"
    number = {"name": "n", "type": "serial", "start": 1, "step": 1, "each": False, "null_share": 0.0}
    scripts = Scripts([Script.own("q", 1.0, "q.sql", text, parameters=[number])], dialect=dialect, users=2)
    load = Load(driver=driver, source=scripts, users=2, duration_s=60.0, operation_timeout_s=30.0)
    frame = load.frame(30.0)
    log = load.stop()
    assert frame is not None
    assert frame.n_ok > 0
    assert (log.errors, log.error_classes) == ([], {})


@pytest.mark.parametrize("tls", ["prefer", "require", "verify-ca", "verify-full"])
def test_mariadb_over_tls(secured: Secured, tls: str) -> None:
    runs(secured.driver(tls=tls, root_certificates=secured.authority.root))


def test_operations_are_cut_off_over_tls(secured: Secured) -> None:
    hang = "SELECT SLEEP(60), 'x' FROM (SELECT 1 UNION SELECT 2) t;"
    scripts = Scripts([Script.own("hang", 1.0, "hang.sql", hang, parameters=[])], dialect="mysql", users=1)
    load = Load(driver=secured.driver(tls="require"), source=scripts, users=1, duration_s=60.0, operation_timeout_s=0.3)
    n_cut_off = 0
    while n_cut_off < 2:
        frame = load.frame(30.0)
        assert frame is not None
        n_cut_off += frame.n_timed_out
    assert load.stop().error_classes == {}


def test_who_is_not_trusted_is_refused(secured: Secured) -> None:
    with pytest.raises(ConnectionError, match="Access denied"):
        runs(secured.driver(tls="disable"))
    other = Authority.made(secured.folder / "other", "other")
    for tls in ("verify-ca", "verify-full"):
        with pytest.raises(ConnectionError, match="invalid peer certificate: "):
            runs(secured.driver(tls=tls, root_certificates=other.root))
        with pytest.raises(ValueError, match="tls: /nonexistent: "):
            secured.driver(tls=tls, root_certificates="/nonexistent")


def test_the_name_of_the_host_counts_where_it_is_to_be_verified(secured: Secured) -> None:
    # The certificate is for the address.
    runs(secured.driver(host="localhost", tls="verify-ca", root_certificates=secured.authority.root))
    with pytest.raises(ConnectionError, match="invalid peer certificate: certificate not valid for name"):
        runs(secured.driver(host="localhost", tls="verify-full", root_certificates=secured.authority.root))


def test_a_client_shows_its_certificate(secured: Secured) -> None:
    certificate, key = secured.authority.sign("shown", "/CN=shown")
    runs(secured.driver(user="shown", password=None, tls="require", certificate=certificate, key=key))
    another, its_key = secured.authority.sign("another", "/CN=another")
    for options in ({}, {"certificate": another, "key": its_key}):
        with pytest.raises(ConnectionError, match="Access denied"):
            runs(secured.driver(user="shown", password=None, tls="require", **options))
    with pytest.raises(ValueError, match=f"tls: {certificate}: a certificate needs its key"):
        secured.driver(tls="require", certificate=certificate)
    with pytest.raises(ValueError, match="tls: .*keys? may not be consistent|tls: .*mismatch"):
        secured.driver(tls="require", certificate=certificate, key=its_key)


def test_a_client_may_show_a_certificate_of_the_first_version(secured: Secured) -> None:
    certificate, key = secured.authority.sign_plainly("first", "/CN=shown")
    runs(secured.driver(user="shown", password=None, tls="require", certificate=certificate, key=key))


def test_a_certificate_that_has_expired_is_refused(secured: Secured) -> None:
    certificate, key = secured.authority.sign("old", "/CN=db", names="IP:127.0.0.1", expired=True)
    with private_mariadb(
        f"--ssl-ca={secured.authority.root}", f"--ssl-cert={certificate}", f"--ssl-key={key}"
    ) as server:
        server.run("GRANT SELECT ON test.* TO tester@'%'")
        old = Secured(server, secured.authority, secured.folder)
        options: dict[str, Any] = {"user": server.user, "password": server.password}
        runs(old.driver(tls="require", **options))
        for tls in ("verify-ca", "verify-full"):
            with pytest.raises(ConnectionError, match="invalid peer certificate: certificate expired"):
                runs(old.driver(tls=tls, root_certificates=secured.authority.root, **options))


def test_mysql_80_takes_a_password_over_tls_or_under_its_public_key() -> None:
    """The server makes its own certificate and key; caching_sha2_password wants the password until its hash is in the cache."""
    with private_mysql() as server:

        def driver(tls: str, **options: Any) -> Mysql:
            own = {"user": server.user, "password": server.password, "database": "mysql"}
            return Mysql(host="127.0.0.1", port=server.port, tls=tls, **{**own, **options})

        with pytest.raises(ConnectionError, match="Access denied"):
            runs(driver("disable", password="wrong"))
        runs(driver("disable"))
        runs(driver("prefer"))
        runs(driver("disable"))
        for tls in ("disable", "require"):
            runs(driver(tls, user="older", database=""))
            with pytest.raises(ConnectionError, match="Access denied"):
                runs(driver(tls, user="older", password="battery staple", database=""))


def test_mariadb_shows_its_certificate_to_the_tuner_as_to_the_load(secured: Secured) -> None:
    other, roots = Authority.made(secured.folder / "other"), str(secured.authority.root)
    for mode in ("prefer", "require", "verify-ca", "verify-full"):
        assert _cipher(secured.server, sslmode=mode, sslrootcert=roots)
    assert _cipher(secured.server, host="localhost", sslmode="verify-ca", sslrootcert=roots)
    for host, options, words in (
        (
            "localhost",
            {"sslmode": "verify-full", "sslrootcert": roots},
            "its certificate is not one that sslmode accepts",
        ),
        (
            "127.0.0.1",
            {"sslmode": "verify-ca", "sslrootcert": str(other.root)},
            "its certificate is not one that sslmode",
        ),
        ("127.0.0.1", {"sslmode": "verify-full"}, "its certificate is not one that sslmode accepts"),
        (
            "127.0.0.1",
            {"sslmode": "verify-full", "sslrootcert": "/no/file"},
            "cannot read file='/no/file': No such file",
        ),
        ("127.0.0.1", {"sslmode": "disable"}, "the server refused user or password"),
    ):
        with pytest.raises(TargetError, match=words):
            _cipher(secured.server, host=host, **options)


def test_a_mariadb_that_does_not_encrypt_is_no_server_where_encryption_is_required() -> None:
    with private_mariadb("--skip-ssl") as server:
        assert _cipher(server, user=server.user, password=server.password, sslmode="prefer") == ""
        for options in ({"sslmode": "require"}, {"sslmode": "verify-full"}):
            with pytest.raises(LoginRefusedError, match="the server does not encrypt, and sslmode asks for it"):
                _cipher(server, user=server.user, password=server.password, **options)


def _cipher(
    server: MariaDb, *, host: str = "127.0.0.1", user: str = "safe", password: str = "p w", **options: str
) -> str:
    """That of a connection of the tuner's own; "" for none."""
    there = Endpoint(
        protocol="mysql", host=host, port=server.port, user=user, password=password, database="test", options=options
    )
    with connect(there) as session:
        return str(session.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1])


def encrypting(certificate: Path, key: Path) -> str:
    """A PostgreSQL's settings to do so."""
    return f"ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n"


@pytest.mark.needs("root", "postgresql-debian")
def test_what_libpq_finds_by_itself_reaches_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """An authority and a certificate in ~/.postgresql, and the mode in the environment: `url` names none of them."""
    with made("tls") as folder, made("state") as state:
        authority = Authority.made(folder)
        certificate, key = authority.sign("server", "/CN=db", names="IP:127.0.0.1")
        mine, my_key = authority.sign("mine", "/CN=postgres")
        usual = folder / "home" / ".postgresql"
        usual.mkdir(parents=True)
        for source, name in ((authority.root, "root.crt"), (mine, "postgresql.crt"), (my_key, "postgresql.key")):
            (usual / name).write_bytes(source.read_bytes())
            (usual / name).chmod(0o600)
        key.chmod(0o600)
        settings = f"{encrypting(certificate, key)}ssl_ca_file = '{authority.root}'\n"
        monkeypatch.setenv("HOME", str(folder / "home"))
        monkeypatch.setenv("PGSSLMODE", "verify-full")
        hba = "local all all trust\nhostssl all all 127.0.0.1/32 cert\n"
        with started(DEBIAN, settings=settings, hba=hba) as server:
            table = {"kind": "postgresql", "url": server.url(), "memory": "1GiB"}
            with closing(PostgresTarget.from_settings("db", table, state_dir=state)) as target:
                target.open()
                there = target.endpoint()
            files = {"sslrootcert": "root.crt", "sslcert": "postgresql.crt", "sslkey": "postgresql.key"}
            assert there.options == {"sslmode": "verify-full", **{k: str(usual / name) for k, name in files.items()}}
            runs(driver_of(there), "postgresql")
            (usual / "root.crt").write_bytes(certificate.read_bytes())
            with pytest.raises(LoginRefusedError, match="the server's certificate is not of the authority"):
                PostgresTarget.from_settings("db", table, state_dir=state).open()
            (usual / "root.crt").unlink()
            with pytest.raises(
                LoginRefusedError, match="the certificate of the authority that sslmode asks for is not"
            ):
                PostgresTarget.from_settings("db", table, state_dir=state).open()


@pytest.mark.needs("root", "postgresql-debian")
def test_whom_postgresql_lets_in_without_encryption_alone_loads_it_without() -> None:
    """libpq tries both; the load does what libpq has found to work."""
    with made("tls") as folder, made("state") as state:
        certificate, key = Authority.made(folder).sign("server", "/CN=db", names="IP:127.0.0.1")
        key.chmod(0o600)
        settings = encrypting(certificate, key)
        hba = "local all all trust\nhostnossl all all 127.0.0.1/32 trust\n"
        with started(DEBIAN, settings=settings, hba=hba) as server:
            table = {"kind": "postgresql", "url": server.url(), "memory": "1GiB"}
            with closing(PostgresTarget.from_settings("db", table, state_dir=state)) as target:
                target.open()
                there = target.endpoint()
            assert there.options == {"sslmode": "disable"}
            runs(driver_of(there), "postgresql")


@pytest.mark.needs("root", "postgresql-debian")
def test_postgresql_is_entered_with_a_certificate_as_its_url_says() -> None:
    with made("tls") as folder:
        authority = Authority.made(folder)
        certificate, key = authority.sign("server", "/CN=db", names="DNS:db.example")
        mine, my_key = authority.sign("mine", "/CN=postgres")
        for path in (key, my_key):
            path.chmod(0o600)
        settings = f"{encrypting(certificate, key)}ssl_ca_file = '{authority.root}'\n"
        hba = "local all all trust\nhostssl all all 127.0.0.1/32 cert\n"
        with started(DEBIAN, settings=settings, hba=hba) as server:
            options = {"sslmode": "verify-ca", "sslrootcert": str(authority.root)}
            options |= {"sslcert": str(mine), "sslkey": str(my_key)}
            who: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "user": "postgres", "database": "postgres"}
            # libpq takes a key of root's only, or of whoever runs it.
            os.chown(my_key, os.getuid(), os.getgid())
            runs(driver_of(Endpoint(protocol="postgresql", options=options, **who)), "postgresql")
            with pytest.raises(ConnectionError, match="connection requires a valid client certificate"):
                runs(Postgres(tls="require", **who), "postgresql")
