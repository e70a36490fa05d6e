"""Rules between knobs that PostgreSQL enforces only at its start, where a broken one keeps it from starting.

Each is checked when a config sets one of its knobs; the others stand at their running values. Those that the memory model
and the server's own start-up check (`preflight`) see too are said here first, in words that name the knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trimtab.errors import ApplyError
from trimtab.space import Config, Value
from trimtab.systems.base import KnobState

__all__ = ["STANDBY_KNOBS", "check_rules"]

MAX_BACKENDS = 0x3FFFF
"""Server processes that PostgreSQL can number (2^18 - 1)."""

STANDBY_KNOBS = frozenset(
    {
        "max_connections",
        "max_locks_per_transaction",
        "max_prepared_transactions",
        "max_wal_senders",
        "max_worker_processes",
    }
)
"""Of which a standby must not have fewer than its primary: it would pause and then stop."""

Values = Callable[[str], Value]


@dataclass(frozen=True, slots=True)
class _Rule:
    """`holds` over the values of `knobs`; a server that lacks one of them has no such rule."""

    knobs: tuple[str, ...]
    holds: Callable[[Values], bool]
    text: str


def _sum(value: Values, *names: str) -> float:
    return sum(float(value(name)) for name in names)


def _segments(value: Values, name: str) -> float:
    """A WAL size, which is counted in MB, in segments, which are counted in bytes."""
    return float(value(name)) * (1 << 20) / float(value("wal_segment_size"))


_MIN_SEGMENTS = 2
_PROCESSES = ("max_connections", "max_worker_processes", "max_wal_senders")

_RULES: tuple[_Rule, ...] = (
    _Rule(
        ("superuser_reserved_connections", "max_connections"),
        lambda value: value("superuser_reserved_connections") < value("max_connections"),  # type: ignore[operator]
        "superuser_reserved_connections must be less than max_connections",
    ),
    _Rule(
        ("superuser_reserved_connections", "reserved_connections", "max_connections"),
        lambda value: (
            _sum(value, "superuser_reserved_connections", "reserved_connections") < float(value("max_connections"))
        ),
        "superuser_reserved_connections + reserved_connections must be less than max_connections",
    ),
    _Rule(
        ("wal_level", "max_wal_senders"),
        lambda value: value("wal_level") != "minimal" or value("max_wal_senders") == 0,
        "wal_level = minimal needs max_wal_senders = 0",
    ),
    _Rule(
        ("wal_level", "archive_mode"),
        lambda value: value("wal_level") != "minimal" or value("archive_mode") == "off",
        "wal_level = minimal needs archive_mode = off",
    ),
    _Rule(
        ("wal_level", "summarize_wal"),
        lambda value: value("wal_level") != "minimal" or value("summarize_wal") is False,
        "wal_level = minimal needs summarize_wal = off",
    ),
    _Rule(
        _PROCESSES,
        lambda value: _sum(value, *_PROCESSES) < MAX_BACKENDS,
        f"max_connections + max_worker_processes + max_wal_senders must be less than {MAX_BACKENDS}",
    ),
    _Rule(
        ("track_counts", "autovacuum"),
        lambda value: value("track_counts") is True or value("autovacuum") is False,
        "autovacuum does not work without track_counts: dead rows would pile up and transaction ids run out",
    ),
    _Rule(
        ("min_wal_size", "wal_segment_size"),
        lambda value: _segments(value, "min_wal_size") >= _MIN_SEGMENTS,
        "min_wal_size must be at least twice wal_segment_size",
    ),
    _Rule(
        ("max_wal_size", "wal_segment_size"),
        lambda value: _segments(value, "max_wal_size") >= _MIN_SEGMENTS,
        "max_wal_size must be at least twice wal_segment_size",
    ),
)


def check_rules(config: Config, states: Mapping[str, KnobState]) -> None:
    """That no rule between knobs is broken.

    Raises:
        ApplyError: one is; the message names the knobs with their values.
    """

    def value(name: str) -> Value:
        return config.get(name, states[name].running)

    for rule in _RULES:
        if not set(rule.knobs) & set(config) or not all(name in states for name in rule.knobs) or rule.holds(value):
            continue
        shown = ", ".join(f"{name}={states[name].knob.format(value(name))}" for name in rule.knobs)
        raise ApplyError(f"{rule.text}: {shown}", hint="change them together, or see `trimtab knobs`")
