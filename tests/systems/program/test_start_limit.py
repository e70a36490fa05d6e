"""systemd starts a service five times in ten seconds at most: a restart that it refuses, having stopped it, is made again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.servers import free_port
from tests.systems.program.conftest import CONF, conf, made
from trimtab.errors import ApplyError, NoRestartError, TargetError
from trimtab.host import CommandResult
from trimtab.space import Config
from trimtab.systems import rescue, start_limit
from trimtab.systems.base import Own, Snapshot
from trimtab.systems.postgresql.change import AlterSystem
from trimtab.systems.postgresql.remote import LocalReach
from trimtab.systems.postgresql.settings import read_settings
from trimtab.systems.program import ProgramTarget
from trimtab.systems.start_limit import WAIT_S, later_s, once_it_may, started

TOO_OFTEN = "Job for zip.service failed because start of the service was attempted too often."
EXITED = "Job for zip.service failed because the control process exited with error code."
SYSTEMCTL = """#!/bin/sh
cd {folder}
if test -s pid; then kill $(cat pid) 2>/dev/null; while test -e seen; do sleep 0.02; done; rm pid; fi
if test $(cat left) -eq 0; then cat why; exit 1; fi
echo $(($(cat left) - 1)) > left
{python} program.py {folder} > /dev/null 2>&1 &
while ! test -e seen; do
    if ! kill -0 $! 2>/dev/null; then echo 0 > left; echo '{exited}' | tee why; exit 1; fi   # Restart=always uses up the rest
    sleep 0.02
done
"""


@pytest.fixture
def naps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses that were made; in each the service gets its starts again."""
    found: list[float] = []

    def sleep(seconds: float) -> None:
        found.append(seconds)
        (folder / "left").write_text("5")

    for module in (start_limit, rescue):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=sleep))
    return found


@pytest.fixture
def service(folder: Path, naps: list[float]) -> Iterator[ProgramTarget]:
    """A program that systemd runs, with one start left."""
    script = folder / "systemctl"
    script.write_text(SYSTEMCTL.format(folder=folder, python=sys.executable, exited=EXITED))
    script.chmod(0o755)
    (folder / "left").write_text("2")
    (folder / "why").write_text(TOO_OFTEN)
    subprocess.run([str(script)], check=True, timeout=60)
    target = made(
        folder, pid_file="pid", restart=f"{script} restart zip", health=f"test -f {folder}/seen", restart_timeout_s=10
    )
    target.open()
    yield target
    target.close()
    if (folder / "pid").exists():
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


def test_a_restart_that_is_refused_is_made_once_it_may_be(
    folder: Path, service: ProgramTarget, naps: list[float]
) -> None:
    service._reach.restart()
    assert naps == []
    service._reach.restart()
    assert naps == [WAIT_S]
    assert (folder / "seen").exists()


def test_a_service_that_has_used_up_its_starts_with_a_config_is_brought_back(
    folder: Path, service: ProgramTarget, naps: list[float]
) -> None:
    """systemctl does not say then that it was started too often."""
    with pytest.raises(ApplyError, match="the control process exited with error code"):
        service.apply(Config({"level": 13}))
    assert naps == [WAIT_S]
    assert conf(folder) == CONF
    service.health()


class Reach:
    """A database server that starts at the second attempt."""

    no_restart, pid, later_s = "", None, (WAIT_S,)

    def __init__(self) -> None:
        self.n_starts = 0

    def is_up(self) -> bool:
        return False

    def ensure_up(self) -> None:
        self.n_starts += 1
        if self.n_starts < 2:
            raise TargetError(EXITED)


def test_so_is_a_database_server(naps: list[float]) -> None:
    reach: Any = Reach()
    empty = Snapshot(target="db", kind="postgresql", reach={}, files={}, values={})
    assert AlterSystem(reach)._up(empty, Own(), lambda: None)
    assert (reach.n_starts, naps) == (2, [0.0, WAIT_S])


def test_its_restart_command_is_run_again(folder: Path, naps: list[float]) -> None:
    script = folder / "systemctl"
    script.write_text(f"#!/bin/sh\ntest $(cat {folder}/left) -gt 0 || {{ echo '{TOO_OFTEN}' >&2; exit 1; }}\n")
    script.chmod(0o755)
    (folder / "left").write_text("0")
    url = f"postgresql://postgres@127.0.0.1:{free_port()}/postgres"
    table = {"kind": "postgresql", "url": url, "data_dir": str(folder), "restart": f"{script} restart postgresql"}
    reach = LocalReach(read_settings("own", table))
    assert reach._run_command().exit_code == 0
    assert naps == [WAIT_S]
    assert reach.later_s == (WAIT_S,)


@pytest.mark.parametrize(("code", "text"), [(1, EXITED), (0, TOO_OFTEN)])
def test_another_failure_is_told_at_once(code: int, text: str, naps: list[float]) -> None:
    result = CommandResult(argv=("systemctl",), exit_code=code, stdout=text, stderr="", duration_s=0.0)
    assert once_it_may(lambda: result) is result
    assert naps == []


@pytest.mark.parametrize(
    ("command", "is_asked"),
    [
        ("sudo -n systemctl restart postgresql@15-main", True),
        ("/usr/sbin/service redis restart", True),
        ("/usr/local/bin/again", False),
        ("", False),
    ],
)
def test_only_what_asks_systemd_is_waited_for(command: str, is_asked: bool) -> None:
    assert bool(later_s(command)) is is_asked


def test_a_command_that_may_not_restart_it_is_not_run_again(naps: list[float]) -> None:
    def refused() -> None:
        raise NoRestartError("no right", hint="ask for it")

    with pytest.raises(NoRestartError):
        started(refused, (WAIT_S,))
    assert naps == []
