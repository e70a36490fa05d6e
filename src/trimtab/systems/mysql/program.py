"""ServerProgram: a mariadbd or mysqld that is installed here, and how it makes a data directory."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.systems.mysql.flavour import Product
from trimtab.systems.server_catalog import server_catalog

__all__ = ["ENVIRONMENT", "PROGRAM_FOLDERS", "ServerProgram", "data_label", "find_program", "find_server"]

PROGRAM_FOLDERS = ("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/libexec", "/usr/local/mysql/bin")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/nonexistent"}
"""Of the programs that are run here; nothing of the user's reaches them."""

_VERSION_S = 30


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A server program of this machine.

    Attributes:
        path: of the program, as found.
        product: whose it is, by its own word.
        is_default: whether it is the one that packages install, and not one named by its path.
    """

    path: Path
    product: Product
    is_default: bool

    def data_maker(self, folder: Path) -> Sequence[str]:
        """The command that makes a data directory in `folder`, with a root user without password.

        Raises:
            TargetError: the program that MariaDB has for that is missing.
        """
        if self.product == "mysql":
            return (str(self.path), "--no-defaults", "--initialize-insecure", f"--datadir={folder}")
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        if self.is_default:
            installer = find_program("mariadb-install-db")
        else:
            home = self.path.resolve().parent.parent
            options.append(f"--basedir={home}")
            installer = next(
                filter(Path.is_file, (home / part / "mariadb-install-db" for part in ("scripts", "bin"))), None
            )
        if installer is None:
            raise TargetError("mariadb-install-db is not installed", hint="it belongs to MariaDB's server packages")
        return (str(installer), "--no-defaults", f"--datadir={folder}", *options)


def find_program(*names: str) -> Path | None:
    """The first of `names` that is installed, on the PATH or where packages put servers; None when none is."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *PROGRAM_FOLDERS])
    for name in names:
        found = shutil.which(name, path=path)
        if found is not None:
            return Path(found)
    return None


def data_label(which: str) -> str:
    """Tells the data of one program from that of others: a data directory belongs to one version."""
    if not which.startswith("/"):
        return which
    return f"{Path(which).stem}-{hashlib.sha256(os.fsencode(which)).hexdigest()[:8]}"


def find_server(which: str) -> ServerProgram:
    """The program that `embedded` names: "mariadb", "mysql", or its path.

    Raises:
        TargetError: it is not installed, cannot be run, or is another product's.
    """
    if which.startswith("/"):
        path = Path(which)
        return ServerProgram(path, _product(path), is_default=False)
    product: Product = "mariadb" if which == "mariadb" else "mysql"
    known = server_catalog("mysql").product[product]
    name, hint, found = known.program, known.package, find_program(known.program)
    if found is None:
        raise TargetError(f'embedded = "{which}" needs the server\'s program, and {name} is not installed', hint=hint)
    if _product(found) != product:  # Debian's mysqld is MariaDB's
        raise TargetError(f'embedded = "{which}" needs another program: {found} is of the other product', hint=hint)
    return ServerProgram(found, product, is_default=True)


def _product(path: Path) -> Product:
    """By what the program says of its version."""
    try:
        done = subprocess.run(
            [str(path), "--no-defaults", "--version"], capture_output=True, text=True, timeout=_VERSION_S, env=ENVIRONMENT,
            check=False, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(
            f'embedded = "{path}" cannot be run: {error}', hint="give the path of a mariadbd or mysqld program"
        ) from None
    words = done.stdout.lower()
    if done.returncode != 0 or " ver " not in f" {words}":
        raise TargetError(
            f'embedded = "{path}" is not a server program: it says {(done.stdout or done.stderr).strip()[:100]!r}',
            hint="give the path of a mariadbd or mysqld program",
        )
    return "mariadb" if "mariadb" in words else "mysql"
