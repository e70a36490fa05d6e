"""The [target.NAME] table: keys, combinations, and no password anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import UsageError
from trimtab.space import amount
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.settings import read_settings

URL = "postgresql://ann:s3cret@db.example:5433/shop?sslmode=require"


def test_defaults() -> None:
    settings = read_settings("db", {"kind": "postgresql", "embedded": "18"})
    assert (settings.knobs, settings.unlock, settings.allow_restart, settings.memory) == ("performance", (), True, None)


def test_a_warm_up_is_a_duration() -> None:
    settings = read_settings("db", {"embedded": "16", "warmup_floor": "1m"})
    assert settings.warmup_floor == 60
    assert read_settings("db", settings.public()) == settings, "as the journal keeps it"


def test_memory_is_a_size() -> None:
    assert read_settings("db", {"embedded": "16", "memory": "1.5GiB"}).memory == 3 << 29


def test_what_a_journal_keeps_is_read_whatever_its_sizes() -> None:
    """The way back of a study that an earlier version has begun."""
    kept = {"embedded": "18", "memory": 4, "memory_limit": 2}
    found = read_settings("db", kept, is_kept=True)
    assert (found.memory, found.memory_limit) == (4, 2)


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ({"embeded": "18"}, r"unknown key 'embeded' in \[target.db\]", "did you mean 'embedded'"),
        ({"zzz": 1}, r"unknown key 'zzz' in \[target.db\]", "the keys are: kind, embedded"),
        ({}, "needs exactly one of embedded", ""),
        ({"embedded": "18", "url": URL}, "needs exactly one of embedded", ""),
        ({"embedded": "17"}, r"\[target.db\] embedded: Input should be '16' or '18'", ""),
        ({"embedded": "18", "memory": "much"}, "memory: size='much' is not a number with a unit", "such as '512MB'"),
        ({"embedded": "18", "memory": 4}, "memory: 4 bytes are too few for a server; write a size with its unit", ""),
        ({"embedded": "18", "memory": -1}, "memory: -1 bytes are too few", ""),
        ({"embedded": "18", "memory": "4kB"}, "memory: 4000 bytes are too few|memory: 4096 bytes are too few", ""),
        ({"embedded": "18", "memory_limit": 2}, "memory_limit: 2 bytes are too few", ""),
        (
            {"embedded": "18", "warmup_floor": "soon"},
            "warmup_floor: duration='soon' is not a number with a unit",
            "such as '90s'",
        ),
        (
            {"embedded": "18", "warmup_floor": -1},
            "warmup_floor: Input should be greater than or equal to 0",
            "shortest warm-up after a restart",
        ),
        ({"embedded": "18", "unlock": ["fsync"]}, "unknown safety class 'fsync'; use some of: durability", ""),
        ({"embedded": "18", "unlock": ["forbidden"]}, "unknown safety class 'forbidden'", ""),
        ({"embedded": "18", "data_dir": "/x"}, "data_dir goes with url", ""),
        ({"url": URL, "restart": "systemctl restart x"}, "restart needs data_dir too", ""),
        ({"url": URL, "data_dir": "/x", "restart": " "}, "restart: is empty", ""),
        ({"url": URL, "memory_limit": True}, "memory_limit needs embedded", ""),
        ({"url": "postgresql://[s3cret"}, "url is not a PostgreSQL connection string", "write it as in"),
        ({"url": "nonsense s3cret"}, "url is not a PostgreSQL connection string", "write it as in"),
    ],
)
def test_wrong_tables(table: dict[str, Any], message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        PostgresTarget.from_settings("db", {"kind": "postgresql", **table}, state_dir=tmp_path)
    assert hint in str(caught.value.hint)
    assert "s3cret" not in str(caught.value)


def test_the_password_is_used_and_never_shown() -> None:
    settings = read_settings("db", {"kind": "postgresql", "url": URL})
    assert settings.password == "s3cret"
    assert settings.safe_url is not None
    for text in (settings.safe_url, repr(settings), str(settings), str(settings.public())):
        assert "s3cret" not in text
    again = read_settings("db", settings.public())
    assert again.url_parts() == {k: v for k, v in settings.url_parts().items() if k != "password"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("memory / 4", 256.0),
        ("min(cores * 2, 6)", 6.0),
        ("8MB", 8 << 20),
        ("-1", -1.0),
        ("1h - 30s", 3570.0),
        ("1.5kB", 1536.0),
    ],
)
def test_range_arithmetic(text: str, value: float) -> None:
    assert amount(text, {"memory": 1024.0, "cores": 4.0}) == value


@pytest.mark.parametrize(
    "text", ["", "memory +", "other", "memory / 0", "open('x')", "memory.real", "[1]", "'x'", "1e999", "min()"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot evaluate expression="):
        amount(text, {"memory": 1024.0})
