"""Builds a PostgreSQL with its assertions switched on, from Debian's sources: the long form runs the extension in it.

python -m tests.build_postgresql     # once; minutes of CPU

A package of it does not exist. A server with assertions also fills memory that was freed, so that a use of it is found. Only what
a cluster and the extension need is built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.fetch_servers import HOME, apt, debian_version

__all__ = ["ASSERTING", "main"]

ASSERTING = HOME / "postgresql-asserting"
"""Where it is installed."""
SUBDIRECTORIES = (
    "common", "port", "timezone", "backend", "backend/snowball", "include", "interfaces/libpq", "bin/initdb", "bin/pg_ctl",
    "bin/pg_config", "pl/plpgsql",
)  # fmt: skip
_LISTS = "/etc/apt"


def source_lists() -> dict[str, str]:
    """This machine's own lists of packages, as lists of their sources: content by file name."""
    found = {}
    for path in (Path(_LISTS, "sources.list"), *Path(_LISTS, "sources.list.d").glob("*")):
        if path.suffix in (".list", ".sources") and path.is_file():
            text = path.read_text(encoding="utf-8")
            found[path.name] = re.sub(r"^(Types:.*?|)\bdeb\b(?!-)", r"\1deb-src", text, flags=re.MULTILINE)
    return found


def _fetched(version: str, folder: Path) -> Path:
    """The source tree of that version, unpacked in `folder`; apt's state there too, for the machine's knows no sources."""
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "parts").mkdir()
    for name, text in source_lists().items():
        (folder / "parts" / name).write_text(text, encoding="utf-8")
    options = {"sourcelist": "/dev/null", "sourceparts": str(folder / "parts")}
    argv = ["apt-get", "-qq", "-o", f"Dir::State::lists={folder}/lists"]
    for name, value in options.items():
        argv += ["-o", f"Dir::Etc::{name}={value}"]
    subprocess.run([*argv, "update"], check=False, timeout=300)  # a list without sources is no reason to stop
    apt([*argv, "source", "--download-only"], f"postgresql-{version}", version, folder)
    (archive,) = folder.glob("*.orig.tar.*")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "tree", filter="data")
    (tree,) = (folder / "tree").iterdir()
    return tree


def _build(tree: Path, goal: Path) -> None:
    """Into `goal`, which is to be moved to ASSERTING: its programs look for their libraries there."""
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}

    def run(*argv: str) -> None:
        subprocess.run(argv, check=True, cwd=tree, env=environment, stdout=subprocess.DEVNULL, timeout=3600)

    run(
        "./configure",
        "--quiet",
        f"--prefix={ASSERTING}",
        "--enable-cassert",
        "--without-readline",
        "--without-zlib",
        "CFLAGS=-O0",
    )
    jobs = str(len(os.sched_getaffinity(0)))
    run("make", "-s", "-j", jobs, "-C", "src/backend", "generated-headers")
    for subdirectory in SUBDIRECTORIES:
        run("make", "-s", "-j", jobs, "-C", f"src/{subdirectory}", "install", f"DESTDIR={goal}")


def main() -> int:
    """Builds it where it is not there yet; 1 when that failed."""
    if (ASSERTING / "bin" / "postgres").exists():
        return 0
    os.umask(0o022)
    version = debian_version()
    if version is None:
        print("no PostgreSQL of Debian's: its sources are not fetched", file=sys.stderr)
        return 1
    scratch = HOME / "asserting.new"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        _build(_fetched(version, scratch), scratch / "installed")
    except (OSError, ValueError, subprocess.SubprocessError, tarfile.TarError) as error:
        print(f"PostgreSQL with assertions could not be built: {error}", file=sys.stderr)
        return 1
    Path(f"{scratch}/installed{ASSERTING}").rename(ASSERTING)
    shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
