"""The type stub says what the built module has."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_stub_and_build_agree() -> None:
    # `Columns` has plain attributes in the stub, which the build offers as read-only ones.
    result = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "trimtab._native", "--ignore-disjoint-bases"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
