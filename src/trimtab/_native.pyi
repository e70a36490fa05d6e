"""The load engine and the HDR histogram (Rust, crates/load and crates/py)."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, final

__all__ = [
    "Buckets",
    "Cql",
    "CqlConsole",
    "Frame",
    "Histogram",
    "Http",
    "Load",
    "Model",
    "Mongodb",
    "Mysql",
    "Operation",
    "Page",
    "Pages",
    "Postgres",
    "Rows",
    "RunLog",
    "Script",
    "Scripts",
    "Seconds",
    "Site",
    "Statement",
    "Stream",
    "Streams",
    "WiredTiger",
    "Ycsb",
    "YcsbRows",
    "__build__",
    "__version__",
    "read_statements",
]

@final
class Histogram:
    """HDR histogram of microseconds, 1 us to 1 hour, 3 significant digits; larger values are clamped and counted."""

    def __new__(cls) -> Histogram: ...
    def record(self, value_us: int, count: int = 1) -> None: ...
    def record_all(self, values_us: Sequence[int]) -> None: ...
    def merge(self, other: Histogram) -> None: ...
    def percentile(self, percentile: float) -> int: ...
    def mean(self) -> float: ...
    def max(self) -> int: ...
    def __len__(self) -> int: ...
    @property
    def clamped(self) -> int: ...
    def encode(self) -> bytes:
        """V2-deflate bytes."""
    @staticmethod
    def decode(data: bytes) -> Histogram:
        """Raises ValueError for bytes that are no histogram."""

@final
class Operation:
    """One operation: its label, its statements, and whether they run in one transaction."""

    def __new__(cls, label: str, statements: Sequence[str], *, transaction: bool = False) -> Operation: ...

@final
class Stream:
    """One client: its operations in order, run again from the start when `repeat`, with a think time between."""

    def __new__(cls, operations: Sequence[Operation], *, repeat: bool = True, think_s: float = 0.0) -> Stream: ...

@final
class Streams:
    """Text statements, one user per stream.

    Raises:
        ValueError: no streams, or one without operations.
    """

    def __new__(cls, streams: Sequence[Stream]) -> Streams: ...

@final
class Postgres:
    """A PostgreSQL server and how to enter it; `host` is the directory of its Unix socket when it starts with "/".

    `tls` is "disable", "prefer", "require", "verify-ca" or "verify-full" (TCP only); `root_certificates` is a PEM file, and so
    are `certificate` and its `key`, which are shown to a server that asks for them.

    Raises:
        ValueError: a setting or a TLS mode that cannot be, or a file without certificates.
    """

    def __new__(
        cls,
        *,
        host: str,
        port: int,
        user: str,
        database: str,
        password: str | None = None,
        application_name: str = "trimtab",
        settings: Sequence[tuple[str, str]] = ...,
        tls: str = "disable",
        root_certificates: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
    ) -> Postgres: ...

@final
class Mysql:
    """A MySQL or MariaDB server and how to enter it; `host` is the file of its Unix socket when it starts with "/"."""

    def __new__(
        cls,
        *,
        host: str,
        port: int,
        user: str,
        database: str,
        password: str | None = None,
        settings: Sequence[tuple[str, str]] = ...,
        tls: str = "disable",
        root_certificates: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
    ) -> Mysql:
        """Raises ValueError for a setting or a TLS mode that cannot be."""

@final
class Cql:
    """A Cassandra node and how to enter it. Settings are `consistency` ("QUORUM"), `protocol` ("5", the newest version to speak)
    and `token_aware` ("yes": a load asks a node that has the row); `tls` is "disable", "require", "verify-ca" or
    "verify-full"."""

    def __new__(
        cls,
        *,
        host: str,
        port: int,
        user: str = ...,
        database: str = ...,
        password: str | None = None,
        settings: Sequence[tuple[str, str]] = ...,
        tls: str = "disable",
        root_certificates: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
    ) -> Cql:
        """Raises ValueError for a setting or a TLS mode that cannot be."""
    def nodes(self, *, timeout_s: float = 10.0) -> list[tuple[str, str]]:
        """The nodes of its ring as a load would use them now: (address, what keeps it from the node, "" for most); the node
        itself first. Raises as `CqlConsole`."""

@final
class CqlConsole:
    """A connection to a Cassandra node for a few questions beside the load; waits for each answer, and hears signals meanwhile.

    Raises:
        ConnectionError: the node cannot be reached, or the connection is lost.
        PermissionError: this user may not.
        TimeoutError: no answer came in time, from here or there.
        ValueError: the node refuses it, in its own words.
    """

    def __new__(cls, driver: Cql, *, timeout_s: float = 10.0) -> CqlConsole: ...
    def rows(self, statement: str, *, timeout_s: float = 10.0) -> list[list[str | None]]:
        """All rows of a statement as texts; none where it gives none."""
    def copy(self, select: str, insert: str, *, timeout_s: float = 10.0) -> int:
        """Writes all rows that `select` gives with `insert`, whose parameters are the same columns; how many."""
    def close(self) -> None:
        """Ends the connection; idempotent."""

@final
class Mongodb:
    """A server that speaks OP_MSG and how to enter it; the load's records are in `collection` of `database`."""

    def __new__(
        cls,
        *,
        host: str,
        port: int,
        user: str,
        database: str,
        collection: str,
        password: str | None = None,
        settings: Sequence[tuple[str, str]] = ...,
        tls: str = "disable",
        root_certificates: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
    ) -> Mongodb:
        """`settings` may have authSource; raises ValueError for another one, and for a TLS mode that cannot be."""

@final
class WiredTiger:
    """An engine that is open in this process, and one of its tables."""

    def __new__(cls, *, cursors: Sequence[int], table: str) -> WiredTiger:
        """`cursors` are the addresses of open WT_CURSORs of the table, one for each user, which must stay open while a load runs;
        raises ValueError for what is no cursor of it."""

@final
class Http:
    """A web server and how to reach it; `headers` are those of every request, and a `Host` among them is its name.

    `tls` is "disable" (http), "require", "verify-ca" or "verify-full" (https); the files are PEM, as for databases.

    Raises:
        ValueError: a header or a TLS mode that cannot be, or a file without certificates.
    """

    def __new__(
        cls,
        *,
        host: str,
        port: int,
        headers: Sequence[tuple[str, str]] = ...,
        tls: str = "disable",
        root_certificates: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
    ) -> Http: ...

@final
class Page:
    """A page: its name in the results, and its path, in which `{1-1000}` stands for a random number.

    `resources` are paths that are read after it within the same operation. `status` is the only one that is a success; without
    it those from 200 to 399 are. `text` must stand in the page.

    Raises:
        ValueError: an unknown method, or a header that cannot be sent.
    """

    def __new__(
        cls,
        label: str,
        path: str,
        *,
        weight: float = 1.0,
        method: str = "GET",
        resources: Sequence[str] = ...,
        body: str = "",
        headers: Sequence[tuple[str, str]] = ...,
        status: int | None = None,
        text: str | None = None,
    ) -> Page: ...

@final
class Pages:
    """Pages with weights as the source of all users of a run.

    `follow`: users go where redirects on the same site lead. `cookies`: each keeps its own. `fresh`: every page has a connection
    of its own, and no cookies of earlier ones.

    Raises:
        ValueError: no pages, or one that cannot be asked for.
    """

    def __new__(
        cls, pages: Sequence[Page], *, follow: bool = True, cookies: bool = True, fresh: bool = False
    ) -> Pages: ...

@final
class Site:
    """Emulated browsers on a site, as the source of all users of a run; names are numbers already (`workload/site/plan.py`).

    In `transitions` the number behind the last state's is Back, and the one behind that the end of the session. `think`: mean
    and cap in seconds; None: as long as the next state says.

    Raises:
        ValueError: something does not fit together.
    """

    def __new__(
        cls,
        *,
        states: Sequence[Mapping[str, Any]],
        transitions: Sequence[Sequence[tuple[int, float]]],
        literal: bool,
        session: Mapping[str, Any],
        values: Sequence[Mapping[str, Any]],
        think: tuple[float, float] | None,
        think_scale: float,
        always: Sequence[tuple[Sequence[int | str], Sequence[int | str]]],
        errors: Sequence[str],
        counts_sessions: bool,
    ) -> Site: ...
    def walk(self, n_steps: int, seed: int) -> tuple[list[int], int]:
        """How often one browser comes to each state in `n_steps` interactions, and in how many sessions, if all is right."""

@final
class Ycsb:
    """The operations of a YCSB workload on an SQL server, for one run: it numbers the records that the run inserts."""

    def __new__(
        cls,
        *,
        dialect: str,
        table: str,
        records: int,
        start: int = 0,
        expected_inserts: int = 0,
        read: float = 0.0,
        update: float = 0.0,
        insert: float = 0.0,
        scan: float = 0.0,
        read_modify_write: float = 0.0,
        distribution: str = "zipfian",
        hot_data: float = 0.2,
        hot_operations: float = 0.8,
        fields: int = 10,
        field_length: int = 100,
        field_lengths: str = "constant",
        hashed: bool = True,
        zero_padding: int = 1,
        reads_all_fields: bool = True,
        writes_all_fields: bool = False,
        scan_length_max: int = 100,
        scan_lengths: str = "uniform",
        validated: bool = True,
    ) -> Ycsb:
        """Raises ValueError for what cannot be, with its value."""
    @property
    def inserted(self) -> tuple[int, int]:
        """(first, end) of the numbers of the records that the run has inserted or tried to."""

@final
class YcsbRows:
    """YCSB's load phase: a range of records, inserted by several users in batches."""

    def __new__(
        cls,
        *,
        dialect: str,
        table: str,
        records: int,
        users: int,
        batch: int,
        start: int = 0,
        seed: int = 0,
        fields: int = 10,
        field_length: int = 100,
        field_lengths: str = "constant",
        hashed: bool = True,
        zero_padding: int = 1,
    ) -> YcsbRows:
        """Raises ValueError for what cannot be, with its value."""

@final
class Script:
    """One transaction type."""

    @staticmethod
    def pgbench(label: str, weight: float, file: str, text: str) -> Script:
        """A pgbench script as it is; `file` is named in messages."""
    @staticmethod
    def builtin(name: str, weight: float) -> Script:
        """One of pgbench's built-in scripts; raises ValueError for an unknown name."""
    @staticmethod
    def own(
        label: str, weight: float, file: str, text: str, *, parameters: Sequence[Mapping[str, Any]], wrap: str = "none"
    ) -> Script:
        """SQL statements with `:name` placeholders; `wrap` is "none", "commit" or "rollback"."""

@final
class Scripts:
    """Weighted transaction types as the source of all users of a run."""

    def __new__(
        cls,
        scripts: Sequence[Script],
        *,
        dialect: str,
        mode: str = "prepared",
        variables: Sequence[tuple[str, str]] = ...,
        users: int = 1,
    ) -> Scripts:
        """Raises ValueError for a script that cannot be run: file, line, column, the line itself and what is wrong."""
    @property
    def statements(self) -> list[str]:
        """The texts that are prepared on every connection."""
    @property
    def labels(self) -> list[str]: ...

@final
class Statement:
    """A statement of a script, and what it does beyond its answer."""

    @property
    def text(self) -> str: ...
    @property
    def line(self) -> int:
        """Where it begins, from 1."""
    @property
    def writes(self) -> bool:
        """Whether it may change data. What a function does cannot be told, but for those of sequences."""
    @property
    def controls(self) -> bool:
        """Whether it begins or ends transactions, or decides who does; savepoints do not."""
    @property
    def commits(self) -> bool:
        """Whether the server may commit because of it what came before it."""

def read_statements(text: str, dialect: str) -> list[Statement]:
    """The statements of a script in order; raises ValueError for a text that cannot be read by the rules of that dialect."""

@final
class Model:
    """When operations are due."""

    @staticmethod
    def closed(think_s: float = 0.0, exponential: bool = False, start_s: float = 0.0) -> Model:
        """Every user waits for each answer, thinks (always `think_s`, or exponentially with that mean), and goes on.

        Users come at random within the first `start_s` seconds.
        """
    @staticmethod
    def open(
        rate: float,
        *,
        arrivals: str = "poisson",
        profile: tuple[str, list[tuple[float, float]]] | tuple[str, float, float] | None = None,
        backlog_max: int = 10_000,
        backlog_age_max_s: float = 10.0,
    ) -> Model:
        """`rate` operations per second, "poisson" or "uniform", whatever the server does.

        `profile`: ("step", [(from_s, rate), ...]), ("ramp", to_rate, over_s) or ("sine", amplitude, period_s). What waits
        for a free user beyond the bounds of the backlog is shed and counted.

        Raises:
            ValueError: a rate, profile or bound that makes no sense.
        """

@final
class Load:
    """A load that runs on threads of its own; dropping it stops it."""

    def __new__(
        cls,
        *,
        driver: Postgres | Mysql | Cql | Mongodb | Http | WiredTiger,
        source: Streams | Ycsb | YcsbRows | Scripts | Pages | Site,
        users: int | None = None,
        model: Model | None = None,
        duration_s: float,
        operation_timeout_s: float,
        connect_timeout_s: float = 10.0,
        threads: int = 1,
        first_thread: int = 0,
        all_threads: int | None = None,
        is_held: bool = False,
        seed: int = 0,
        keep_rows: bool = False,
        max_tries: int = 1,
    ) -> Load:
        """Connects every user before it returns; the run's clock starts when all are connected and have prepared.

        `users` need not be given when the source knows it; without a `model` it is a closed loop. Conflicts
        (serialization failures, deadlocks) are tried again up to `max_tries` times, inside the response time.

        With `all_threads` the load is a part of a larger one: `threads` threads from number `first_thread` on are here, with
        their share of the users and requests, and the others are in other processes. All parts together do what one would.
        A load that is held does not start its clock before `start`.

        Raises:
            ConnectionError: a user could not connect (the message has the server's words, never the password).
            ValueError: an argument that makes no sense, or a statement that the server cannot prepare.
        """
    def start(self) -> None:
        """Starts the clock of a load that is held; once."""
    def frame(self, timeout_s: float) -> Frame | None:
        """The next one-second frame; None when the run has ended or none came within `timeout_s`."""
    @property
    def is_done(self) -> bool: ...
    def log(self) -> RunLog:
        """Everything that ended so far, without stopping."""
    def stop(self) -> RunLog:
        """Cancels what is in flight, waits for it, and returns the whole log; idempotent."""

@final
class Frame:
    """One whole second of a run; percentiles are 0 without operations.

    `credited` counts successes by the share of their run inside the second; those still running are estimated.
    `backlog` is at the second's end.
    """

    @property
    def second(self) -> int: ...
    @property
    def n_ok(self) -> int: ...
    @property
    def n_error(self) -> int: ...
    @property
    def n_timed_out(self) -> int: ...
    @property
    def n_shed(self) -> int: ...
    @property
    def credited(self) -> float: ...
    @property
    def response_p50_us(self) -> int: ...
    @property
    def response_p95_us(self) -> int: ...
    @property
    def response_p99_us(self) -> int: ...
    @property
    def lateness_p99_us(self) -> int: ...
    @property
    def wakeup_p99_us(self) -> int: ...
    @property
    def wait_s(self) -> float | None:
        """Seconds that the thread which waited longest was ready to run and had no core; None where the system does not say."""
    @property
    def backlog(self) -> int: ...
    @property
    def client_cpu_s(self) -> float: ...
    @property
    def steal_s(self) -> float:
        """CPU seconds that the hypervisor took from the machine, all cores together."""
    @property
    def response(self) -> list[tuple[int, int]]:
        """(microseconds, count) of the successes' response times, so that those of several processes can be added."""
    @property
    def lateness(self) -> list[tuple[int, int]]: ...
    @property
    def wakeup(self) -> list[tuple[int, int]]: ...

@final
class RunLog:
    """Everything that a run recorded so far."""

    @property
    def labels(self) -> list[str]: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def errors(self) -> list[str]:
        """Texts of the first errors, at most 100."""
    @property
    def error_classes(self) -> dict[str, int]:
        """How often operations and attempts to reconnect failed, by class; the engine's own time-outs are not in it.

        Classes: connect timeout serialization constraint read_only resource statement permission protocol http_4xx http_5xx
        validation other error_page.
        """
    @property
    def n_threads(self) -> int: ...
    @property
    def users(self) -> int: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def client_cpu_s(self) -> float:
        """CPU seconds of all worker threads since the run's start."""
    @property
    def priority(self) -> str:
        """What every worker thread had at least: "normal", "short slices" (an open loop without rights) or "real-time"."""
    @property
    def memory_bytes(self) -> int:
        """What the engine's buffers and histograms hold."""
    def rows(self) -> Rows:
        """Every operation in order of its end; empty unless the load keeps rows."""
    @property
    def histograms(self) -> list[str]:
        """What `buckets` knows."""
    def buckets(self, what: str) -> Buckets:
        """Histograms per second (of the operations' ends) and label, in microseconds, ordered by second, label, value.

        "response" (from when it was due) and "service" (from its sending) of the successes; "error" (response of failed and
        timed-out ones); "queue" (from when it was due to its sending); "lateness" (the generator's own, label 0); "attempts"
        (tries per success); "wakeup" (how late the generator's timer fired, label 0); "unfinished" (how long what still ran at
        the stop had run).

        Raises:
            ValueError: another name.
        """
    def seconds(self) -> Seconds:
        """Totals of every second that has begun; the last one may be shorter."""

@final
class Rows:
    """Operations as little-endian columns for numpy.frombuffer: int32, int32, float64, float64, int64, uint8."""

    @property
    def stream(self) -> bytes: ...
    @property
    def label(self) -> bytes: ...
    @property
    def start_s(self) -> bytes: ...
    @property
    def end_s(self) -> bytes: ...
    @property
    def rows(self) -> bytes: ...
    @property
    def outcome(self) -> bytes: ...

@final
class Buckets:
    """Histograms as little-endian columns: int32, int32, float64, int64; `value_us` stands for the values of a bucket: the middle
    one below half a millisecond, else the highest."""

    @property
    def second(self) -> bytes: ...
    @property
    def label(self) -> bytes: ...
    @property
    def value_us(self) -> bytes: ...
    @property
    def count(self) -> bytes: ...

@final
class Seconds:
    """Totals per second as little-endian columns: int64, the last four float64.

    `offered`: operations that fell due (open loop) or were sent (closed loop); `credited`: successes, each by the share of its
    run inside the second; `steal_s`: CPU seconds that the hypervisor gave to others; `wait_s`: a row for each thread, one after
    the other, of seconds in which it was ready to run and had no core, empty where the system does not say.
    """

    @property
    def offered(self) -> bytes: ...
    @property
    def shed(self) -> bytes: ...
    @property
    def ok(self) -> bytes: ...
    @property
    def error(self) -> bytes: ...
    @property
    def timed_out(self) -> bytes: ...
    @property
    def credited(self) -> bytes: ...
    @property
    def client_cpu_s(self) -> bytes: ...
    @property
    def steal_s(self) -> bytes: ...
    @property
    def wait_s(self) -> bytes: ...

__build__: str
"""How it was compiled: "wheel", as it is released, or "source", which is quicker to compile and slower."""

__version__: str
