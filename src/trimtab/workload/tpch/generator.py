"""TPC-H rows as COPY text from the `tpchgen-cli` program.

Small data is made by one run of it into files, because each run first builds 300 MB of text to draw comments from;
large data is streamed table by table, so that the client needs no disk for it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from trimtab.errors import LoadError
from trimtab.host import process_state
from trimtab.workload.cache import cache_directory

__all__ = ["FILE_BYTES_PER_SCALE", "LARGEST_SCALE_IN_FILES", "Rows", "find_generator", "generated"]

Rows = Callable[[str], Iterator[bytes]]
"""Table name -> its rows in key order, in chunks of whole lines for `COPY ... WITH (DELIMITER '|')`."""

LARGEST_SCALE_IN_FILES = 0.5
FILE_BYTES_PER_SCALE = 1_150_000_000
_CHUNK_BYTES = 1 << 20
_PROGRAM = "tpchgen-cli"


def find_generator() -> Path:
    """The `tpchgen-cli` program: beside this interpreter first, so that a virtual environment need not be activated.

    Raises:
        LoadError: it is not installed.
    """
    beside = Path(sys.executable).parent / _PROGRAM
    if beside.is_file():
        return beside
    found = shutil.which(_PROGRAM)
    if found is None:
        raise LoadError(
            f"the TPC-H data generator was not found: program={_PROGRAM}", hint="pip install 'trimtab[tpch]'"
        )
    return Path(found)


@contextmanager
def generated(scale: float) -> Iterator[Rows]:
    """The rows of all tables at `scale`, safe to read from several threads; its files are deleted at the end.

    Raises:
        LoadError: the generator is missing or failed; the message has its own words.
    """
    if scale > LARGEST_SCALE_IN_FILES:
        program = find_generator()
        yield lambda table: _streamed(program, table, scale)
        return
    cache, host = cache_directory(), socket.gethostname()
    _sweep(cache, host)
    with tempfile.TemporaryDirectory(prefix=f"tpch-{host}-{os.getpid()}-", dir=cache) as home:
        _check([*_command(find_generator(), scale), "--output-dir", home], scale)
        yield lambda table: _from_file(Path(home) / f"{table}.tbl")


def _sweep(cache: Path, host: str) -> None:
    """Deletes the files of processes of this host that were killed before they could do it themselves."""
    for home in cache.glob(f"tpch-{host}-*-*"):
        pid = home.name.removeprefix(f"tpch-{host}-").split("-")[0]
        if pid.isdecimal() and not process_state(int(pid)):
            shutil.rmtree(home, ignore_errors=True)


def _command(program: Path, scale: float) -> list[str]:
    return [str(program), "tbl", "--quiet", "--scale-factor", repr(scale)]


def _failure(scale: float, words: bytes) -> LoadError:
    text = words.decode(errors="replace").strip()
    return LoadError(
        f"the TPC-H data generator failed: scale={scale:g}: {text}",
        hint="run it again; if it fails again, reinstall it",
    )


def _check(command: list[str], scale: float) -> None:
    # A session of its own: Ctrl-C in the terminal is for us, who then kill it.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, start_new_session=True)
    if done.returncode != 0:
        raise _failure(scale, done.stderr)


def _from_file(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        yield from _without_trailing_bar(file)


def _streamed(program: Path, table: str, scale: float) -> Iterator[bytes]:
    # One thread keeps the rows in key order.
    command = [*_command(program, scale), "--stdout", "--num-threads", "1", "--tables", table]
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words, start_new_session=True
        )
        try:
            if process.stdout is not None:
                yield from _without_trailing_bar(process.stdout)
            if process.wait() != 0:
                words.seek(0)
                raise _failure(scale, words.read())
        finally:
            # An abandoned iterator would leave the generator blocked on a full pipe.
            process.kill()
            process.communicate()


def _without_trailing_bar(source: IO[bytes]) -> Iterator[bytes]:
    """Whole lines without the bar that ends each of them, which COPY would take for one more column."""
    rest = b""
    while chunk := source.read(_CHUNK_BYTES):
        chunk = rest + chunk
        end = chunk.rfind(b"\n") + 1
        rest = chunk[end:]
        yield chunk[:end].replace(b"|\n", b"\n")
