"""In CI, a few tests that failed are run again, each alone and several times, to tell a broken promise from an unsteady test.

A whole suite over real servers on a shared machine meets times that no test foresaw. What fails once beside everything else and
then passes every time alone is printed as UNSTEADY, to be mended; what fails again, or fails in numbers, fails the run.
On a developer's machine nothing is run again: `make test` is red at the first failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["LONGEST_S", "MOST", "RUNS", "failed_nodes", "main", "why_not"]

MOST = 3
"""More failures than this are no accident."""
RUNS = 3
"""Times that each of them has to pass alone."""
LONGEST_S = 600.0
"""Of one such time; a test may take less (pyproject.toml). The interpreter waits for ever for a thread that a test has left."""
_TESTS_FAILED = 1
_CACHE = ".pytest_cache"
_FAILED = "v/cache/lastfailed"


def failed_nodes(cache: Path) -> list[str]:
    """What the cache of pytest in that folder lists as failed last."""
    try:
        return sorted(json.loads((cache / _FAILED).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []


def why_not(exit_code: int, nodes: Sequence[str], is_ci: bool) -> str:
    """Why this failure stands without another run; "" when the tests are to be run again."""
    if not is_ci:
        return "tests are run again in CI only"
    if exit_code != _TESTS_FAILED:
        return f"pytest ended with exit code {exit_code}: not by failed tests alone"
    if not nodes or any("::" not in node for node in nodes):
        return "the failure is not one of single tests"
    if len(nodes) > MOST:
        return f"{len(nodes)} tests failed, more than {MOST}"
    return ""


def main(arguments: Sequence[str]) -> int:
    """`python -m tests.again EXIT_CODE [CACHE]`, after a run of pytest with that `cache_dir`; the exit code that counts."""
    code, cache = int(arguments[0]), Path(*arguments[1:2] or [_CACHE])
    nodes = failed_nodes(cache)
    reason = why_not(code, nodes, os.environ.get("CI") == "true")
    if reason:
        print(f"not run again: {reason}", flush=True)
        return code
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    for node in nodes:
        for _ in range(RUNS):
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", node]
            try:
                is_bad = subprocess.run(command, env=environment, check=False, timeout=LONGEST_S).returncode != 0
            except subprocess.TimeoutExpired:
                print(f"it did not end within {LONGEST_S:g} s", flush=True)
                is_bad = True
            if is_bad:
                print(f"FAILED AGAIN, alone: {node}", flush=True)
                return code
    for node in nodes:
        print(f"UNSTEADY: {node} failed beside the others and passed {RUNS} times alone: to be mended", flush=True)
    (cache / _FAILED).unlink()  # the next stage has failures of its own
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
