"""Oracle of the fuzzing: whatever comes in, it ends in time with success or an error of ours, and nothing is run or changed.

Nothing run: Python's audit events (a process, a shell, a connection, code of a string, a pickle) are watched while an input
is taken in. Nothing changed: the folder of the input holds the same files with the same bytes before and after.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.needs import IS_FULL
from trimtab.errors import InternalError, TrimtabError

CORPUS = Path(__file__).with_name("corpus")
FUZZ = settings(
    max_examples=6000 if IS_FULL else 60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=not IS_FULL,
)
SLOWEST_S = 20.0

_FORBIDDEN = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "socket.connect",
    "pickle.find_class",
    "shutil.rmtree",
    "ctypes.dlopen",
    "os.chmod",
    "os.kill",
)
_watched = threading.local()


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    seen = getattr(_watched, "seen", None)
    if seen is not None and event in _FORBIDDEN:
        seen.append((event, repr(arguments)[:200]))


sys.addaudithook(_hook)


@contextmanager
def nothing_runs() -> Iterator[None]:
    """Fails when anything was run inside."""
    _watched.seen = []
    try:
        yield
    finally:
        seen, _watched.seen = _watched.seen, None
    assert not seen, f"something was run: {seen}"


def taken_in(call: Callable[[], Any], *, folder: Path | None = None) -> bool:
    """Whether `call` succeeded; an error of ours means it did not, and any other error is a fault of ours."""
    before = _files(folder)
    started = time.monotonic()
    try:
        with nothing_runs():
            call()
        is_taken, message = True, "done"
    except InternalError as error:
        raise AssertionError(f"blamed on Trimtab itself: {error}") from error
    except TrimtabError as error:
        is_taken, message = False, error.message
    elapsed = time.monotonic() - started
    assert 0 < len(message) < 10_000, "a message that nobody reads"
    assert elapsed < SLOWEST_S, f"took {elapsed:.1f} s"
    assert _files(folder) == before, "files were changed"
    return is_taken


def _files(folder: Path | None) -> dict[str, bytes]:
    if folder is None:
        return {}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def seeds(kind: str) -> list[Path]:
    """The kept inputs of that kind."""
    return sorted((CORPUS / kind).iterdir())


EVIL = (
    "",
    " ",
    "\x00",
    "\n",
    "'; DROP TABLE witness; --",
    "$(touch hacked)",
    "`touch hacked`",
    "../../../etc/passwd",
    "{{7*7}}",
    "__import__('os').system('touch hacked')",
    "!!python/object/apply:os.system ['touch hacked']",
    "%n%s%x",
    "\u202e",
    "\ufeff",
    "1e999",
    "-1e999",
    "nan",
    "inf",
    "9" * 400,
    "1" + "0" * 4000,
    "((((((" * 200,
    "a" * 5000,
    "٣",
    "½",
    "0x10",
    "1_000",
    "1e5MB",
    "-0",
    "1.5.5",
    "5 m m",
    "1h1h",
    "1MB1MB",
    "<!ENTITY x SYSTEM 'file:///etc/passwd'>",
)


def texts(*likely: str) -> st.SearchStrategy[str]:
    """Texts that are likely, hostile, or any."""
    return st.one_of(*([st.sampled_from(likely)] if likely else []), st.sampled_from(EVIL), st.text(max_size=40))


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-10, 10),
    st.integers(),
    st.floats(),
    texts("1", "4MB", "5m", "on"),
    st.integers(2**62, 2**70),
)


def mutated(source: bytes, choose: Callable[[int], int]) -> bytes:
    """A few random changes: flipped, inserted, removed, doubled, swapped, cut off. `choose(n)` draws below n."""
    data = bytearray(source)
    for _ in range(1 + choose(6)):
        if not data:
            break
        at, kind = choose(len(data)), choose(6)
        if kind == 0:
            data[at] ^= 1 << choose(8)
        elif kind == 1:
            data[at:at] = EVIL[choose(len(EVIL))].encode()[:200]
        elif kind == 2:
            del data[at : at + 1 + choose(40)]
        elif kind == 3:
            data[at:at] = data[at : at + 1 + choose(60)]
        elif kind == 4:
            data[at] = choose(256)
        else:
            del data[at:]
    return bytes(data)


@st.composite
def mutations(draw: st.DrawFn, sources: list[Path]) -> tuple[Path, bytes]:
    """One of the kept inputs, changed in a few places."""
    source = draw(st.sampled_from(sources))
    return source, mutated(source.read_bytes(), lambda n: draw(st.integers(0, n - 1)))


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    os.utime(path, (1, 1))
    return path
