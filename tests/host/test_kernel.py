"""The kernel's log of kills, from a file that looks like /dev/kmsg would when read in one piece."""

from __future__ import annotations

from pathlib import Path

from trimtab.host import OomKill, kernel_oom_kills

KILL = "Memory cgroup out of memory: Killed process 12 (postgres) total-vm:1kB, anon-rss:2kB"


def test_kills_are_read_with_their_kind(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(f"3,1,9000000,-;{KILL}")
    assert kernel_oom_kills(5.0, path) == [OomKill(12, "postgres", True)]
    path.write_text("3,1,9000000,-;Out of memory: Killed process 7 (java) total-vm:1kB")
    assert kernel_oom_kills(5.0, path) == [OomKill(7, "java", False)]


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
