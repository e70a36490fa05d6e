"""A load of many short operations: starts the native engine on an endpoint and gives its log second by second."""

from __future__ import annotations

import re
import resource
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import LoadError, UsageError
from trimtab.load import LoadPlan, Part, build_driver, build_source, launch
from trimtab.measure.second_log import HISTOGRAMS, Buckets, SecondLog
from trimtab.records import Endpoint
from trimtab.redact import hide_literals, hide_values
from trimtab.workload.base import Frame
from trimtab.workload.mongodb_access import mongodb_access
from trimtab.workload.postgresql_options import settings_of
from trimtab.workload.scripts import ScriptText
from trimtab.workload.server import Session, SqlServer, store_of

if TYPE_CHECKING:
    from trimtab._native import Cql, Http, Load, Mongodb, Mysql, Postgres, RunLog, Scripts, Seconds, WiredTiger
    from trimtab._native import Frame as NativeFrame

__all__ = [
    "EngineRun",
    "ScriptPart",
    "access_of",
    "allow_files",
    "cannot_connect",
    "cannot_start",
    "check_scripts",
    "compile_scripts",
    "driver_of",
    "no_threads",
    "open_files",
    "script_source",
    "start_load",
    "to_frame",
    "to_second_log",
    "waits_of",
    "wished_connections",
]

_PROTOCOLS = ("postgresql", "mysql", "cql")

_OWN_FILES = 256
"""Open files besides the load's connections: the store, logs, the target's own connections, libraries."""

ScriptPart = tuple[str, ScriptText, Sequence[Mapping[str, Any]], str]
"""A transaction type: "own", "pgbench" or "builtin"; its text; its generators; what stands around its statements."""


_NOT_THE_ENGINES = ("is_open", "is_observed", "response_mean_us")
"""Fields of a frame that the engine does not fill."""


class EngineRun:
    """A running load (a `LoadRun`); `stop` is idempotent, and the log stays readable after it."""

    def __init__(self, load: Load, *, is_open: bool = False) -> None:
        self._load, self._is_open = load, is_open
        self._final: SecondLog | None = None

    def frame(self, timeout_s: float) -> Frame | None:
        """The next one-second frame; None when the run has ended or nothing came within `timeout_s`."""
        return to_frame(self._load.frame(timeout_s), is_open=self._is_open)

    @property
    def is_done(self) -> bool:
        """Whether every user has ended."""
        return self._load.is_done

    def log(self) -> SecondLog:
        """Everything that has ended so far, without stopping."""
        return self._final if self._final is not None else to_second_log(self._load.log())

    def stop(self) -> SecondLog:
        """Cancels what is in flight, waits for it, and returns the whole log."""
        if self._final is None:
            self._final = to_second_log(self._load.stop())
        return self._final


def to_frame(frame: NativeFrame | None, *, is_open: bool = False) -> Frame | None:
    """The engine's own frame with all that it shows; None for None."""
    if frame is None:
        return None
    shown = {field.name: getattr(frame, field.name) for field in fields(Frame) if field.name not in _NOT_THE_ENGINES}
    return Frame(**shown, is_open=is_open)


def to_second_log(log: RunLog) -> SecondLog:
    """The engine's own log as arrays.

    Raises:
        LoadError: columns differ in length (the native module does not belong to this version).
    """
    seconds = log.seconds()
    histograms: dict[str, Any] = {name: _buckets(log, name) for name in HISTOGRAMS}
    result = SecondLog(
        labels=tuple(log.labels),
        duration_s=log.duration_s,
        credited=np.frombuffer(seconds.credited, dtype="<f8"),
        **histograms,
        offered=np.frombuffer(seconds.offered, dtype="<i8"),
        shed=np.frombuffer(seconds.shed, dtype="<i8"),
        timed_out=np.frombuffer(seconds.timed_out, dtype="<i8"),
        client_cpu_s=np.frombuffer(seconds.client_cpu_s, dtype="<f8"),
        steal_s=np.frombuffer(seconds.steal_s, dtype="<f8"),
        wait_s=waits_of(seconds, log.n_threads),
        priority=log.priority,
        error_classes=log.error_classes,
        n_threads=log.n_threads,
        users=log.users,
        is_open=log.is_open,
        errors=tuple(map(hide_literals, log.errors)),
        memory_bytes=log.memory_bytes,
    )
    result.check()
    return result


def waits_of(seconds: Seconds, n_threads: int) -> NDArray[np.float64] | None:
    """(k, n_threads) seconds in which each thread waited for a core; None where the system does not say."""
    waits = np.frombuffer(seconds.wait_s, dtype="<f8")
    return waits.reshape(n_threads, -1).T if len(waits) else None


def _buckets(log: RunLog, name: str) -> Buckets:
    columns = log.buckets(name)
    return Buckets(
        np.frombuffer(columns.second, dtype="<i4").astype(np.int64),
        np.frombuffer(columns.label, dtype="<i4").astype(np.int64),
        np.frombuffer(columns.value_us, dtype="<f8"),
        np.frombuffer(columns.count, dtype="<i8"),
    )


def access_of(endpoint: Endpoint, *, settings: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """How the native driver enters `endpoint`; `settings` are set on every connection, after those of its url.

    Raises:
        LoadError: no driver speaks the endpoint's protocol, or sets what its url asks for.
    """
    if endpoint.protocol == "wiredtiger":
        return {"database": endpoint.database}
    if endpoint.protocol == "mongodb":
        return mongodb_access(endpoint)
    if endpoint.protocol not in _PROTOCOLS:
        raise LoadError(
            f"the load engine does not speak protocol={endpoint.protocol}",
            hint=f"use a target that speaks one of: {', '.join(_PROTOCOLS)}",
        )
    return {
        "host": endpoint.host,
        "port": endpoint.port,
        "user": endpoint.user,
        "database": endpoint.database,
        "password": store_of(endpoint).password,
        "settings": [*_own_settings(endpoint), *map(list, settings)],
        "tls": _tls_mode(endpoint),
        **{name: _tls_file(endpoint, option) for name, option in _TLS_FILES.items()},
    }


def _own_settings(endpoint: Endpoint) -> list[list[str]]:
    """What the url says of a session's settings, or of how Cassandra's nodes are asked; the driver has its own way where it says
    nothing."""
    if endpoint.protocol == "postgresql":
        return settings_of(endpoint.options.get("options", ""))
    if endpoint.protocol == "mysql":
        # A server may have it off for all: then nothing that is written outside a transaction would ever be committed.
        return [["autocommit", "1"]]
    if endpoint.protocol != "cql":
        return []
    return [[name, endpoint.options[name]] for name in ("consistency", "token_aware") if endpoint.options.get(name)]


_TLS_FILES = {"root_certificates": "sslrootcert", "certificate": "sslcert", "key": "sslkey"}


def _tls_file(endpoint: Endpoint, option: str) -> str | None:
    """The path that an option names; None for none, and for the system's own authorities as libpq names them."""
    path = endpoint.options.get(option)
    return None if path == "system" and endpoint.protocol == "postgresql" else path


def _tls_mode(endpoint: Endpoint) -> str:
    if endpoint.host.startswith("/"):
        return "disable"  # as libpq does for a unix socket: nobody can listen there
    # A node of Cassandra cannot be asked whether it encrypts.
    mode = endpoint.options.get("sslmode", "disable" if endpoint.protocol == "cql" else "prefer")
    if mode == "require" and endpoint.protocol == "postgresql" and "sslrootcert" in endpoint.options:
        return "verify-ca"  # as libpq does
    # Of a server that takes both kinds of connections libpq gets a plain one; it is reached in both ways.
    return "prefer" if mode == "allow" else mode


def driver_of(endpoint: Endpoint) -> Postgres | Mysql | Cql | Mongodb | Http | WiredTiger:
    """The native driver for `endpoint`.

    Raises:
        LoadError: no driver speaks the endpoint's protocol, or one of its options makes no sense.
    """
    try:
        return build_driver(endpoint.protocol, access_of(endpoint))
    except ValueError as error:
        raise LoadError(
            f"the load cannot connect: endpoint={endpoint}: {error}", hint="check the target's url"
        ) from error


def start_load(plan: LoadPlan, *, endpoint: Endpoint, threads: int = 1) -> EngineRun:
    """Starts the load in this process; returns when all users are connected and have prepared their statements.

    Raises:
        LoadError: a user could not connect, or the server refuses a statement; the message has its words.
    """
    allow_files(plan.users, wished=wished_connections(plan))
    n_threads = min(threads, plan.users)
    try:
        load = launch(plan, Part(n_threads, 0, n_threads))
    except ConnectionError as error:
        raise cannot_connect(endpoint, plan.users, str(error)) from error
    except OSError as error:
        raise no_threads(error.strerror or str(error)) from error
    except ValueError as error:
        raise cannot_start(endpoint, str(error)) from error
    return EngineRun(load, is_open=plan.model["kind"] == "open")


_CONNECT_HINTS = {
    "http": "check that the server runs and serves so many connections at once",
    "mongodb": "check its url, the user and the password in it, and that net.maxIncomingConnections leaves room for every user",
    "wiredtiger": "see the target's log",
}
_START_HINTS = {
    "http": "check the pages of the study file",
    "mongodb": "see the server's log",
    "wiredtiger": "see the target's log",
}


_FILES = "open files"
"""In the system's words for a process, or a machine, that has too few of them."""
_MORE_FILES = "raise the limit (ulimit -n, or LimitNOFILE of the service), or take fewer users"


def cannot_connect(endpoint: Endpoint, users: int, words: str) -> LoadError:
    """A user could not connect; `words` say why."""
    usual = _CONNECT_HINTS.get(
        endpoint.protocol, "check that the server runs and max_connections leaves room for every user"
    )
    return LoadError(
        f"the load cannot connect: endpoint={endpoint} users={users}: {words}",
        hint=_MORE_FILES if _FILES in words else usual,
    )


def no_threads(words: str) -> LoadError:
    """The system gives the load's threads too little; `words` say of what."""
    hint = _MORE_FILES if _FILES in words else "see the limits of this process (ulimit -a), or take fewer threads"
    return LoadError(f"the load cannot start: {words}", hint=hint)


def cannot_start(endpoint: Endpoint, words: str) -> LoadError:
    """The server refuses a statement, or the plan makes no sense; `words` say why."""
    return LoadError(
        f"the load cannot start: endpoint={endpoint}: {words}",
        hint=_START_HINTS.get(endpoint.protocol, "try the statements by hand on this database"),
    )


def open_files(n_connections: int) -> int:
    """How many files a process with so many connections opens."""
    return n_connections + _OWN_FILES


def wished_connections(plan: LoadPlan) -> int:
    """How many connections a load may have if it can: to a ring of Cassandra each user has one to each node."""
    return plan.users * (_RING_NODES if plan.protocol == "cql" else 1)


_RING_NODES = 16
"""As many nodes as most rings have at most."""


def allow_files(n_connections: int, *, wished: int = 0) -> None:
    """Raises this process's limit of open files where so many connections need it, and for `wished` ones as far as it goes.

    Raises:
        LoadError: the hard limit, which only an administrator raises, is too low.
    """
    needed, enough = open_files(n_connections), open_files(max(n_connections, wished))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= enough:
        return
    if hard != resource.RLIM_INFINITY:
        if hard < needed:
            raise LoadError(
                f"users={n_connections} need {needed} open files, and this process may have {hard}",
                hint="raise the limit (ulimit -Hn, or LimitNOFILE of the service), or take fewer users",
            )
        enough = min(enough, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


def compile_scripts(
    parts: Sequence[ScriptPart],
    *,
    dialect: str,
    users: int,
    mode: str = "prepared",
    variables: Sequence[tuple[str, str]] = (),
) -> Scripts:
    """The engine's own form of `script_source`.

    Raises:
        UsageError: a script that cannot be read; the message shows the line, and what is wrong with it.
    """
    try:
        source = build_source(script_source(parts, dialect=dialect, users=users, mode=mode, variables=variables))
    except ValueError as error:
        raise UsageError(str(error), hint="fix the script, or the generator of the study file") from error
    return cast("Scripts", source)


def script_source(
    parts: Sequence[ScriptPart],
    *,
    dialect: str,
    users: int,
    mode: str = "prepared",
    variables: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The transaction types as a source of operations; the engine chooses among them by their weights."""
    scripts = [
        {
            "kind": kind,
            "label": text.label,
            "weight": text.weight,
            "file": text.source,
            "text": text.text,
            "parameters": [dict(parameter) for parameter in parameters],
            "wrap": wrap,
        }
        for kind, text, parameters, wrap in parts
    ]
    pairs = [list(variable) for variable in variables]
    return {"kind": "scripts", "scripts": scripts, "dialect": dialect, "mode": mode, "variables": pairs, "users": users}


def check_scripts(
    server: SqlServer,
    session: Session,
    parts: Sequence[ScriptPart],
    *,
    mode: str = "prepared",
    variables: Sequence[tuple[str, str]] = (),
) -> None:
    """Asks the server whether it understands the statements that the load would prepare; runs none.

    Raises:
        UsageError: a script that cannot be read.
        LoadError: a statement that the server does not understand; the message has script, statement and the server's words.
    """
    for kind, text, parameters, wrap in parts:
        # A script may use what another one sets: here, where one is looked at at a time, everything is set.
        known = dict.fromkeys(_VARIABLE.findall(text.text), "0") | dict(variables)
        alone: ScriptPart = (kind, replace(text, weight=1.0), parameters, wrap)
        compiled = compile_scripts(
            [alone], dialect=server.endpoint.protocol, users=1, mode=mode, variables=tuple(known.items())
        )
        for statement in compiled.statements:
            _check(server, session, statement, text.source or text.label)


_VARIABLE = re.compile(r":([A-Za-z_]\w*)")


def _check(server: SqlServer, session: Session, statement: str, script: str) -> None:
    refusal = server.refusal(session, statement)
    if not refusal:
        return
    words = hide_values(" ".join(statement.split()), server.endpoint.protocol)
    shown = words if len(words) <= _SHOWN else words[:_SHOWN] + "..."
    raise LoadError(
        f"the server does not understand a statement of script={script!r}: {hide_literals(refusal)}: {shown}",
        hint=f"try it by hand on database {server.endpoint.database}",
    )


_SHOWN = 100
"""Characters of a statement in a message."""
