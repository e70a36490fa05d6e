"""Wherever the tuner could log in, its dead-man can, and `recover` from another folder: each way to a running PostgreSQL.

Each test kills Trimtab (kill -9) while a trial's config is in effect: together with its dead-man, so that `recover` has to log in
without what the tuner's shell had; and alone, so that the dead-man has to. The quick form kills it alone only where the dead-man
must know more than the journal says; the long form does everywhere.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.commands import start_trimtab
from tests.faults.conftest import MakePlace
from tests.faults.invariants import check_no_secret, check_unmixed, take_picture
from tests.faults.place import KNOBS, Place, Ran
from tests.faults.server import Server, set_password
from tests.faults.test_tuner_killed import APPLY, run_killed, wait_for_deadman
from tests.needs import IS_FULL
from tests.servers import free_port
from tests.servers.certificates import NEW_KEY
from trimtab.host import LocalHost
from trimtab.systems.account import server_account

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETS = ("bench", "study.toml", "--runs", "1", "--set", "work_mem=8MB", "--set", "random_page_cost=1.5")


@dataclass
class Way:
    """How one user reaches the server.

    Attributes:
        target: lines of the study file's table.
        environment: of `bench` (the password is in none of it unless it says so).
        files: path under the place's folder -> content, private.
        recover: further environment that `recover` needs, where only the user can give it.
        needs_more: what `recover` and `doctor` say without that.
    """

    target: str
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    recover: dict[str, str] = field(default_factory=dict)
    needs_more: str = ""

    @property
    def kills_alone(self) -> bool:
        """Whether the tuner is killed without its dead-man, too."""
        return IS_FULL or bool(self.recover)


def _files(place: Place) -> str:
    return f'data_dir = "{place.server.data_dir}"\nrestart = "{place.server.restart_command}"'


def _line(place: Place) -> str:
    return f"127.0.0.1:{place.server.port}:*:postgres:{place.canary}\n"


def url_password(place: Place, files: str) -> Way:
    url = place.server.url().replace("postgres@", f"postgres:{place.canary}@")
    return Way(
        f'url = "{url}"\n{files}',
        recover={"PGPASSWORD": place.canary},
        needs_more="the password is only in url",
    )


def url_password_by_connection(place: Place) -> Way:
    return url_password(place, "")


def url_password_with_files(place: Place) -> Way:
    return url_password(place, _files(place))


def pgpass_in_a_relative_folder(place: Place) -> Way:
    return Way(
        f'url = "{place.server.url()}"\n{_files(place)}',
        {"PGPASSFILE": "secret/pgpass"},
        {"secret/pgpass": _line(place)},
    )


def passfile_in_the_url(place: Place) -> Way:
    url = f"host=127.0.0.1 port={place.server.port} user=postgres dbname=postgres passfile=secret/pgpass"
    return Way(f'url = "{url}"\n{_files(place)}', {}, {"secret/pgpass": _line(place)})


def home_pgpass(place: Place) -> Way:
    return Way(f'url = "{place.server.url()}"\n{_files(place)}', {}, {"home/.pgpass": _line(place)})


def service_file_elsewhere(place: Place) -> Way:
    text = f"[prod]\nhost=127.0.0.1\nport={place.server.port}\nuser=postgres\ndbname=postgres\npassfile={place.folder}/pw\n"
    return Way(
        f'url = "service=prod"\n{_files(place)}', {"PGSERVICEFILE": "my.conf"}, {"my.conf": text, "pw": _line(place)}
    )


def service_file_with_a_password(place: Place) -> Way:
    text = (
        f"[prod]\nhost=127.0.0.1\nport={place.server.port}\nuser=postgres\ndbname=postgres\npassword={place.canary}\n"
    )
    return Way(f'url = ""\n{_files(place)}', {"PGSERVICE": "prod"}, {"home/.pg_service.conf": text})


def relative_paths(place: Place) -> Way:
    files = f'data_dir = "server/data"\nlog_file = "server/server.log"\nrestart = "{place.server.restart_command}"'
    own = {"PGPASSFILE": "secret/pgpass"}
    return Way(f'url = "{place.server.url()}"\n{files}', own, {"secret/pgpass": _line(place)})


def paths_from_home(place: Place) -> Way:
    (place.folder / "home" / "pg").symlink_to("../server")
    files = f'data_dir = "~/pg/data"\nlog_file = "$HOME/pg/server.log"\nrestart = "{place.server.restart_command}"'
    return Way(f'url = "{place.server.url()}"\n{files}', {}, {"home/.pgpass": _line(place)})


def unix_socket(place: Place) -> Way:
    url = f"host={place.server.sockets} port={place.server.port} user=postgres dbname=postgres"
    return Way(f'url = "{url}"\n{_files(place)}')


def password_in_the_environment(place: Place) -> Way:
    only = {"PGPASSWORD": place.canary}
    return Way(f'url = "{place.server.url()}"\n{_files(place)}', only, recover=only)


WAYS: tuple[Callable[[Place], Way], ...] = (
    url_password_by_connection, url_password_with_files, pgpass_in_a_relative_folder, passfile_in_the_url, home_pgpass,
    service_file_elsewhere, service_file_with_a_password, relative_paths, paths_from_home, unix_socket,
    password_in_the_environment,
)  # fmt: skip
ONLY_LONG = (
    url_password_with_files, pgpass_in_a_relative_folder, home_pgpass, unix_socket, service_file_with_a_password,
    passfile_in_the_url, paths_from_home, password_in_the_environment,
)  # fmt: skip
"""What each of these has, a file of passwords by its place or a server with its files, is in another way too; the password of T3
in test_tuner_killed.py is in the environment, and how paths of a home are read is in tests/systems/test_paths.py."""


def prepare(place: Place, make: Callable[[Place], Way]) -> Way:
    (place.folder / "home").mkdir()
    del place.environment["PGPASSWORD"]
    place.environment["HOME"] = str(place.folder / "home")
    way = make(place)
    for name, content in way.files.items():
        path = place.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        path.chmod(0o600)
    has_files = "restart" in way.target
    place.write(reach=way.target, knobs=KNOBS if has_files else KNOBS[:2])
    return way


def elsewhere(place: Place, *words: str, environment: dict[str, str]) -> Ran:
    """A command in another folder, by a shell that lacks what the study's had."""
    pipe = subprocess.PIPE
    process = start_trimtab(words, cwd="/", env={**place.environment, **environment}, stdout=pipe, stderr=pipe)
    out, err = process.communicate(timeout=120)
    ran = Ran(process.returncode, out, err)
    place.ran.append(ran)
    return ran


def check_way(place: Place, way: Way) -> None:
    before = take_picture(place.server)
    base = dict(place.environment)
    sets = (*SETS, "--set", "shared_buffers=24MB") if "restart" in way.target else SETS
    place.environment = {**base, **way.environment}
    doctor = place.run("doctor", "study.toml")
    assert doctor.code == 0, doctor.out + doctor.err
    assert (f"note  recover: {way.needs_more}" in doctor.out) == bool(way.needs_more)
    if way.kills_alone:
        run_killed(place, f"{APPLY}:after:1", arguments=sets)
        wait_for_deadman(place)
        check_unmixed(take_picture(place.server), before)
        assert "the dead-man put target db back" in place.run("recover").err
    run_killed(place, f"{APPLY}:after:1", arguments=sets, with_deadman=True)
    assert place.server.query("SHOW work_mem") == [("8MB",)]
    place.environment = base
    if way.needs_more and "data_dir" not in way.target:  # with the files at hand it needs no login to put them back
        failed = elsewhere(place, "recover", environment={})
        assert failed.code == 3
        assert "the server asks for a password and none was given" in failed.err
    done = elsewhere(place, "recover", environment=way.recover)
    assert done.code == 0, done.err
    assert "study faults: target db restored as it was found" in done.out
    check_unmixed(take_picture(place.server), before)
    for name in way.files:  # the user's own; what is left is Trimtab's
        (place.folder / name).unlink()
    place.study.unlink()
    check_no_secret(place)


@pytest.mark.parametrize(
    "make", [pytest.param(way, id=way.__name__, marks=pytest.mark.full if way in ONLY_LONG else ()) for way in WAYS]
)
def test_a_kill_is_undone_by_the_deadman_and_by_recover(own_place_18: Place, make: Callable[[Place], Way]) -> None:
    check_way(own_place_18, prepare(own_place_18, make))


def test_tune_says_before_the_first_change_that_recover_could_not_log_in(own_place_18: Place) -> None:
    prepare(own_place_18, url_password_by_connection)
    own_place_18.write(reach=f'url = "{_with_password(own_place_18)}"', knobs=("work_mem",), budget="1 trials")
    ran = own_place_18.run("tune", "study.toml")
    said = ran.err + ran.out
    note = "the password is only in url: after a power cut `trimtab recover` and `rollback` could not log in"
    assert note in " ".join(said.split())
    assert own_place_18.canary not in said


def _with_password(place: Place) -> str:
    return place.server.url().replace("postgres@", f"postgres:{place.canary}@")


@pytest.mark.needs("postgresql-debian", "openssl")
def test_certificates_at_relative_paths(make_place: MakePlace) -> None:
    """A server that lets in whoever shows a certificate; the wheel's server speaks no TLS, Debian's does."""
    place = make_place("18", False)
    place.server.control("stop")
    place.server = tls_server(place.folder)
    try:
        certificates(place.folder / "certs", place.server)
        place.server.control("start")
        set_password(place.server, "postgres", place.canary)
        with place.server.admin() as admin:
            admin.execute("CREATE TABLE witness (id bigserial PRIMARY KEY, body text NOT NULL)")
        url = (
            f"host=127.0.0.1 port={place.server.port} user=postgres dbname=postgres sslmode=verify-ca"
            " sslrootcert=certs/ca.crt sslcert=certs/client.crt sslkey=certs/client.key"
        )
        check_way(place, prepare(place, lambda place: Way(f'url = "{url}"\n{_files(place)}')))
    finally:
        place.server.destroy()


def tls_server(folder: Path) -> Server:
    account = server_account()
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    for path in (folder / "tls", folder / "tls" / "run"):
        path.mkdir(mode=0o700)
        os.chown(path, account.uid, account.gid)
    server = Server(programs.parent.name, folder / "tls", programs, account, free_port(), False, secrets.token_hex(8))
    made = LocalHost().run(
        [str(programs / "initdb"), "-D", str(server.data_dir), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8",
         "--no-locale"],
        timeout_s=120, user=account.uid, group=account.gid,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    with (server.data_dir / "postgresql.conf").open("a") as file:
        file.write(
            f"listen_addresses = '127.0.0.1'\nport = {server.port}\nunix_socket_directories = '{server.sockets}'\n"
            "shared_buffers = '16MB'\nssl = on\nssl_ca_file = 'ca.crt'\nssl_cert_file = 'server.crt'\n"
            "ssl_key_file = 'server.key'\n"
        )
    (server.data_dir / "pg_hba.conf").write_text("local all all trust\nhostssl all all 127.0.0.1/32 cert\n")
    return server


def certificates(folder: Path, server: Server) -> None:
    folder.mkdir()

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)

    openssl("req", "-x509", *NEW_KEY.split(), "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key",
            "-out", "ca.crt")  # fmt: skip
    for name, subject in (("server", "/CN=127.0.0.1"), ("client", "/CN=postgres")):
        openssl("req", *NEW_KEY.split(), "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-out", f"{name}.crt")  # fmt: skip
        (folder / f"{name}.key").chmod(0o600)
    for name in ("ca.crt", "server.crt", "server.key"):
        goal = server.data_dir / name
        goal.write_bytes((folder / name).read_bytes())
        goal.chmod(0o600)
        os.chown(goal, server.account.uid, server.account.gid)
