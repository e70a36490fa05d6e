"""Settings that PostgreSQL accepts from ALTER SYSTEM and that then keep it from starting, or everybody from working.

`try_all` sets one after the other on a place's server, by the product's own way with its gate lifted, and measures how long
it takes until the server serves again with the configuration as found. With TRIMTAB_WRITE_DOCS=1 the long form of the tests
writes the table of docs/explanation/recovery.md (START to END) anew, one column a server.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tests.faults.invariants import Picture, check_unmixed, take_picture
from tests.faults.place import Place
from tests.faults.rooms import Bench, open_bench
from trimtab.errors import ApplyError, TargetError, UsageError
from trimtab.space import Config, Value
from trimtab.systems.server_catalog import ServerCatalog

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "recovery.md"
START, END = "<!-- bad settings -->\n", "<!-- end of bad settings -->\n"
GOAL_S = 120.0

BLOCKS_START: tuple[Mapping[str, str], ...] = (
    {"shared_buffers": "1TB"},
    {"min_dynamic_shared_memory": "2000GB"},
    {"max_locks_per_transaction": "2000000000"},
    {"max_connections": "262000", "max_locks_per_transaction": "100000"},
    {"max_prepared_transactions": "262000", "max_locks_per_transaction": "100000"},
    {"huge_pages": "on"},
    {"wal_level": "minimal"},
    {"wal_level": "minimal", "max_wal_senders": "0", "archive_mode": "on"},
    {"superuser_reserved_connections": "100"},
    {"max_connections": "2"},
    {"shared_preload_libraries": "no_such_library"},
    {"ssl": "on", "max_worker_processes": "9"},
    {"unix_socket_directories": "/no/such/folder"},
    {"listen_addresses": "203.0.113.1", "unix_socket_directories": ""},
    {"hba_file": "/no/such/file"},
    {"ident_file": "/no/such/file", "hba_file": "/no/such/file"},
    {"logging_collector": "on", "log_directory": "/proc/no/such/folder"},
    {"max_worker_processes": "262143"},
    {"autovacuum_max_workers": "262143"},
    {"commit_timestamp_buffers": "1GB", "min_dynamic_shared_memory": "2000GB"},
)
LOCKS_OUT: tuple[Mapping[str, str], ...] = (
    {"session_preload_libraries": "no_such_library"},
    {"local_preload_libraries": "no_such_library"},
    {"port": "1"},
    {"max_connections": "4"},
    {"authentication_timeout": "1"},
)
STARTS: tuple[Mapping[str, str], ...] = (
    {"statement_timeout": "1"},
    {"lock_timeout": "1"},
    {"default_transaction_read_only": "on"},
    {"idle_session_timeout": "1"},
    {"idle_in_transaction_session_timeout": "1"},
    {"transaction_timeout": "1"},
    {"work_mem": "2000GB"},
    {"allow_alter_system": "off"},
    {"jit_provider": "no_such_library"},
    {"archive_command": "false", "archive_mode": "on"},
    {"max_stack_depth": "100kB"},
    {"fsync": "off", "full_page_writes": "off"},
    {"zero_damaged_pages": "on", "ignore_checksum_failure": "on"},
    {"autovacuum": "off"},
    {"max_slot_wal_keep_size": "-1", "wal_keep_size": "100GB", "max_wal_size": "1TB"},
    {"log_statement": "all", "log_min_duration_statement": "0"},
)
ALL = (*BLOCKS_START, *LOCKS_OUT, *STARTS)


@dataclass(frozen=True)
class Tried:
    """What one of them did: whether the server took it, and how long until it served again as found."""

    settings: str
    outcome: str
    effect: str
    seconds: float


@contextmanager
def gate_lifted() -> Iterator[None]:
    """Everything may be set, as if no check existed."""
    with (
        mock.patch("trimtab.systems.catalogued.check_config"),
        mock.patch("trimtab.systems.system.check_config"),
        mock.patch.object(ServerCatalog, "forbidden_reason", return_value=""),
    ):
        yield


def try_one(bench: Bench, settings: Mapping[str, str]) -> Tried:
    """Sets them, lets the product rescue the server, and takes back what was accepted."""
    target, snapshot = bench.target, bench.snapshot
    started = time.monotonic()
    try:
        target.apply(Config({name: _value(bench, name, text) for name, text in settings.items()}))
        outcome, effect = "accepted", "runs, and is taken back"
    except ApplyError as error:
        fatal = [line for line in error.log_excerpt.splitlines() if re.search("FATAL|PANIC|^postgres: ", line)]
        outcome = re.sub(r"^.*?(?=FATAL|PANIC|postgres: )", "", fatal[-1]) if fatal else error.message
        effect = _effect(error)
    except TargetError as error:
        outcome, effect = error.message, _effect(error)
    target.restore(snapshot)
    target.health()
    text = ", ".join(f"{name}={value}" for name, value in settings.items())
    return Tried(text, outcome, effect, time.monotonic() - started)


def _value(bench: Bench, name: str, text: str) -> Value:
    """In the knob's own unit, so that the read-back compares; else the text as it stands, for the server to judge."""
    try:
        return bench.target.states()[name].knob.parse(text)
    except UsageError:
        return text


def _effect(error: TargetError) -> str:
    if "refuses" in error.message:
        return "refused by this build"
    if "did not start" in error.message or "restart command" in error.message:
        return "no start"
    if "the server uses" in error.message:
        return "another value is in effect"
    return "no client can work"


def try_all(place: Place, before: Picture, settings: tuple[Mapping[str, str], ...] = ALL) -> Iterator[Tried]:
    """Each of them on its own; the picture must be as before after each."""
    with open_bench(place) as bench:
        known = bench.target.states()
        for one in settings:
            if set(one) <= set(known):
                with gate_lifted():
                    tried = try_one(bench, one)
                check_unmixed(take_picture(place.server), before)
                yield tried


def write_column(server: str, tried: Sequence[Tried], page: Path = PAGE) -> None:
    """Puts the seconds of one server into the page's table."""
    head, _, rest = page.read_text(encoding="utf-8").partition(START)
    table, _, tail = rest.partition(END)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    servers = [*dict.fromkeys([*(rows[0][1:] if rows else []), server])]
    seconds = {row[0].strip("`"): dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}
    for one in tried:
        seconds.setdefault(one.settings, {})[server] = f"{one.effect}, {one.seconds:.1f} s"
    lines = [f"| settings | {' | '.join(servers)} |", "| --- |" + " --- |" * len(servers)]
    lines += [f"| `{name}` | " + " | ".join(row.get(s, "") for s in servers) + " |" for name, row in seconds.items()]
    page.write_text(head + START + "\n".join(lines) + "\n" + END + tail, encoding="utf-8")
