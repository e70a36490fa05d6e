"""The kernel's log of kills, from a file that looks like /dev/kmsg would when read in one piece."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.host import OomKill, kernel_oom_kills

KILL = "Memory cgroup out of memory: Killed process 12 (postgres) total-vm:1kB, anon-rss:2kB"


def test_kills_are_read_with_their_kind(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(f"3,1,9000000,-;{KILL}")
    assert kernel_oom_kills(5.0, path) == [OomKill(12, "postgres", True)]
    path.write_text("3,1,9000000,-;Out of memory: Killed process 7 (java) total-vm:1kB")
    assert kernel_oom_kills(5.0, path) == [OomKill(7, "java", False)]


@pytest.mark.parametrize(
    ("text", "kill"),
    [
        (
            "Memory cgroup out of memory: Kill process 12 (mysqld) score 987 or sacrifice child",
            OomKill(12, "mysqld", True),
        ),
        ("Out of memory: Kill process 7 (java) score 900 or sacrifice child", OomKill(7, "java", False)),
        ("Out of memory (oom_kill_allocating_task): Killed process 7 (java) total-vm:1kB", OomKill(7, "java", False)),
        ("Out of memory: Killed process 7 (java), UID 1000, total-vm:1kB", OomKill(7, "java", False)),
    ],
)
def test_kernels_of_all_ages_are_understood(text: str, kill: OomKill, tmp_path: Path) -> None:
    """Before 5.1 the victim was told in another line, and with other words."""
    path = tmp_path / "kmsg"
    path.write_text(f"3,1,9000000,-;{text}")
    assert kernel_oom_kills(5.0, path) == [kill]


def test_earlier_kills_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(f"3,1,9000000,-;{KILL}")
    assert kernel_oom_kills(10.0, path) == []


def test_after_months_of_uptime_the_kernels_clock_is_behind(tmp_path: Path) -> None:
    """The monotonic clock was steered ahead of it by 400 ppm for a hundred days: 58 minutes."""
    up_s = 100 * 86400.0
    path = tmp_path / "kmsg"
    path.write_text(f"3,1,{up_s * (1 - 4e-4) * 1e6:.0f},-;{KILL}")
    assert kernel_oom_kills(up_s - 5, path) == [OomKill(12, "postgres", True)]
    assert kernel_oom_kills(up_s + 3600, path) == []


def test_without_a_right_to_read_there_are_none(tmp_path: Path) -> None:
    assert kernel_oom_kills(0.0, tmp_path / "missing") == []
