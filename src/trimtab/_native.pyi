"""The load engine and the HDR histogram (Rust, crates/load and crates/py)."""

from collections.abc import Sequence
from typing import final

__all__ = ["Columns", "Frame", "Histogram", "Operation", "SqlLoad", "Stream", "__version__"]

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
class Frame:
    @property
    def second(self) -> int: ...
    @property
    def n_ok(self) -> int: ...
    @property
    def n_error(self) -> int: ...
    @property
    def credited(self) -> float: ...

@final
class Columns:
    """The log as little-endian columns (int32, int32, float64, float64, int64, uint8) for numpy.frombuffer."""

    @property
    def labels(self) -> list[str]: ...
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
    @property
    def errors(self) -> list[str]: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def client_cpu_s(self) -> float: ...
    @property
    def is_done(self) -> bool: ...

@final
class SqlLoad:
    """A closed-loop SQL load over the PostgreSQL protocol, running on threads of its own."""

    def __new__(
        cls,
        *,
        host: str,
        port: int,
        user: str,
        database: str,
        password: str | None,
        streams: Sequence[Stream],
        duration_s: float,
        operation_timeout_s: float,
        connect_timeout_s: float = 10.0,
        threads: int = 1,
        application_name: str = "trimtab",
        settings: Sequence[tuple[str, str]] = ...,
    ) -> SqlLoad:
        """Connects every stream before it returns; the run's clock starts when all are connected.

        Raises:
            ConnectionError: a stream could not connect (the message has the server's words, never the password).
            ValueError: no streams, an empty stream, or a duration that is not positive.
        """
    def frame(self, timeout_s: float) -> Frame | None: ...
    @property
    def is_done(self) -> bool: ...
    def columns(self) -> Columns: ...
    def stop(self) -> Columns: ...

__version__: str
