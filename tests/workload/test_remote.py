"""Generators in processes of their own on a real server: the same load as in one process, and every way in which one fails."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.commands import PYTHON
from tests.servers import sshd
from tests.workload.runs import Leftovers, execute, quiet, row
from trimtab.errors import LoadError
from trimtab.measure import SecondLog
from trimtab.records import Endpoint
from trimtab.workload import LoadRun
from trimtab.workload.sql import SqlWorkload
from trimtab.workload.ycsb import YcsbWorkload

pytestmark = pytest.mark.service

TWO = ["local", "local"]
HERE = f"ssh://localhost?python={PYTHON}"


@pytest.fixture(scope="module")
def prepared(server: Endpoint) -> Iterator[Endpoint]:
    """The server with a few records."""
    left = Leftovers(server)
    ycsb().prepare(server, quiet)
    yield server
    left.drop()


def ycsb(**load: Any) -> YcsbWorkload:
    users: dict[str, Any] = {"users": 4} if "rate" in load else {"users": 4, "think": "2ms"}
    return YcsbWorkload.from_settings({"workload": "C", "records": 200, "load": users | load})


def hanging(directory: Path, *places: str) -> SqlWorkload:
    """Every user asks one thing that takes a minute."""
    (directory / "hang.sql").write_text("SELECT pg_sleep(60);")
    load = {"users": 2, "from": list(places)}
    return SqlWorkload.from_settings(
        {"database": "postgres", "files": ["hang.sql"], "read_only": True, "load": load}, directory=directory
    )


def logged(run: LoadRun) -> SecondLog:
    while run.frame(30.0) is not None:
        pass
    log = run.stop()
    assert isinstance(log, SecondLog)
    return log


def sessions(server: Endpoint) -> int:
    (found,) = row(
        server, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'trimtab load %'"
    )
    return int(str(found))


def await_sessions(server: Endpoint, n: int) -> None:
    until = time.monotonic() + 60
    while sessions(server) != n:
        assert time.monotonic() < until
        time.sleep(0.05)


def generators() -> list[psutil.Process]:
    """Of this process."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "trimtab.load" in _command(child)]


def _command(process: psutil.Process) -> list[str]:
    """[] for one that has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_two_processes_are_the_same_load_as_two_threads(prepared: Endpoint) -> None:
    open_loop = {"rate": 300, "arrivals": "poisson"}
    inside = logged(ycsb(threads=2, **open_loop).start(prepared, seed=7, duration_s=2.0))
    outside = logged(ycsb(threads=1, **open_loop, **{"from": TWO}).start(prepared, seed=7, duration_s=2.0))
    assert outside.offered[:2].tolist() == inside.offered[:2].tolist()
    assert (outside.users, outside.n_threads, outside.is_open) == (4, 2, True)
    assert outside.labels == inside.labels
    assert outside.wait_s is not None
    assert outside.wait_s.shape == (len(outside.credited), 2)
    assert outside.response.total == pytest.approx(outside.offered.sum(), abs=8)
    assert [text.partition(" threads")[0] for text in outside.generators] == ["local: 1 of 2"] * 2
    assert inside.generators == ()
    assert generators() == []
    await_sessions(prepared, 0)


@pytest.mark.parametrize("load", [{}, {"from": TWO}])
def test_a_generator_that_needs_more_threads_has_them(prepared: Endpoint, load: dict[str, Any]) -> None:
    workload = ycsb(rate=200, **load).with_threads(4)
    log = logged(workload.start(prepared, seed=7, duration_s=1.0))
    n_cores = len(os.sched_getaffinity(0))
    n_most = 2 * min(2, n_cores) if load else min(4, n_cores)
    assert (log.errors, log.n_threads, log.response.total > 0) == ((), n_most, True)
    assert log.wait_s is None or log.wait_s.shape[1] == n_most


def test_seconds_and_the_log_agree_while_the_load_runs(prepared: Endpoint) -> None:
    run = ycsb(**{"from": TWO}).start(prepared, seed=1, duration_s=30.0)
    frame = run.frame(30.0)
    assert frame is not None
    log = run.log()
    assert isinstance(log, SecondLog)
    assert frame.n_ok == log.response.within(0, 1).total
    values = np.repeat(np.floor(log.response.within(0, 1).value_us + 0.5), log.response.within(0, 1).count)
    expected = np.percentile(values, [50, 95, 99], method="inverted_cdf").tolist()
    assert [frame.response_p50_us, frame.response_p95_us, frame.response_p99_us] == expected
    assert not run.is_done
    assert run.stop() is run.stop()
    assert run.is_done


def test_a_generator_that_dies_makes_the_run_invalid_and_leaves_nothing(server: Endpoint, tmp_path: Path) -> None:
    run = hanging(tmp_path, *TWO).start(server, seed=1, duration_s=60.0)
    await_sessions(server, 2)
    generators()[0].send_signal(signal.SIGSEGV)
    message = r"the load generator from=local ended in the middle of the run: exit status -11"
    with pytest.raises(LoadError, match=message):
        all(run.frame(30.0) is not None for _ in range(60))
    assert generators() == []
    # Its query would have gone on for a minute.
    assert sessions(server) == 0
    with pytest.raises(LoadError, match=message):
        run.stop()


def test_generators_end_with_the_process_that_directs_them(server: Endpoint, tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from tests.workload.test_remote import hanging
        from trimtab.records import Endpoint
        run = hanging(Path({str(tmp_path)!r}), "local", "local").start({server!r}, seed=1, duration_s=60.0)
        time.sleep(60)
    """)
    root = Path(__file__).parents[2]
    tuner = subprocess.Popen([sys.executable, "-c", script], cwd=root)
    await_sessions(server, 2)
    children = psutil.Process(tuner.pid).children(recursive=True)
    tuner.kill()
    tuner.wait()
    psutil.wait_procs(children, timeout=60)
    assert not any(child.is_running() for child in children)
    await_sessions(server, 0)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `ssh` that runs the command on this machine, or what a test writes in its place."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    _write(program, 'while [ "$1" != "--" ]; do shift; done; shift 2; exec "$@"')
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def _write(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_a_generator_over_ssh(prepared: Endpoint, ssh: Path) -> None:
    log = logged(ycsb(**{"from": [HERE, "local"]}).start(prepared, seed=1, duration_s=1.0))
    assert log.response.total > 0
    assert log.errors == ()
    assert [text.partition(":")[0] for text in log.generators] == ["ssh", "local"]


@pytest.mark.needs("sshd")
def test_a_generator_over_a_real_ssh(prepared: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sshd.started(tmp_path) as port:
        options = ["-i", str(tmp_path / "own"), "-o", f"UserKnownHostsFile={tmp_path / 'known'}"]
        program = tmp_path / "bin" / "ssh"
        program.parent.mkdir()
        real = shutil.which("ssh")
        _write(program, f'exec {real} -F none -o StrictHostKeyChecking=accept-new {" ".join(options)} "$@"')
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        place = f"ssh://127.0.0.1:{port}?python={PYTHON}"
        log = logged(ycsb(**{"from": [place, place]}).start(prepared, seed=1, duration_s=1.0))
    assert (log.errors, log.response.total > 0, log.n_threads) == ((), True, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo 'ssh: connect to host localhost port 22: Connection refused' >&2; exit 255",
         r"did not start: ssh: connect to host localhost port 22: Connection refused\nhint: try it by hand: ssh -T .* --version"),
        ("exit 127", r"did not start: exit status 127"),
        ("echo Welcome to this machine; sleep 60", r"did not start: Welcome to th"),
        ("printf 'trimtab-load\\n'; exec {python} -c \"import sys; from trimtab.load import write_message as w; "
         "w(sys.stdout.buffer, dict({{'is': 'hello'}}, version='0.0.1', protocol=1, cores=1)); sys.stdin.read()\"",
         r"has trimtab=0\.0\.1, and this one is .*\nhint: install the same version there"),
        ("exec {python} -c \"import time; now = time.time; time.time = lambda: now() + 3.5; import sys; sys.argv[1:] = []; "
         "import trimtab.load.__main__ as m; sys.exit(m.main([]))\"",
         r"the clock of .* is 3\.5\d* s ahead of this machine's\nhint: synchronise both clocks"),
    ],
)  # fmt: skip
def test_a_generator_that_cannot_be_used_is_refused(prepared: Endpoint, ssh: Path, text: str, message: str) -> None:
    _write(ssh, text.format(python=PYTHON))
    with pytest.raises(LoadError, match=message):
        ycsb(**{"from": ["local", HERE]}).start(prepared, seed=1, duration_s=1.0)
    assert generators() == []
    assert sessions(prepared) == 0


def test_what_a_generator_is_refused_is_said_as_by_this_process(prepared: Endpoint) -> None:
    workload = ycsb(**{"from": ["local"]})
    there = Endpoint(protocol="postgresql", host="127.0.0.1", port=1, user="u", database="d", password="p")
    with pytest.raises(
        LoadError, match=r"the load cannot connect: endpoint=.* users=4: from=local: user 0 could not connect: "
    ):
        workload.start(there, seed=1, duration_s=1.0)
    execute(prepared, workload.database.data, "ALTER TABLE usertable RENAME TO elsewhere")
    try:
        with pytest.raises(
            LoadError, match=r"the load cannot start: .*: from=local: .*usertable.*\nhint: try the statements"
        ):
            workload.start(prepared, seed=1, duration_s=1.0)
    finally:
        execute(prepared, workload.database.data, "ALTER TABLE elsewhere RENAME TO usertable")
    assert generators() == []


@pytest.mark.parametrize("load", [{}, {"from": ["local"]}])
def test_a_load_that_cannot_connect_says_which_user_was_refused_and_why(
    prepared: Endpoint, load: dict[str, Any]
) -> None:
    workload = ycsb(**load)
    table = workload.database.data
    execute(prepared, table, "CREATE ROLE few LOGIN CONNECTION LIMIT 2", "GRANT SELECT ON usertable TO few")
    try:
        with pytest.raises(LoadError, match='users=4: .*too many connections for role "few"'):
            workload.start(replace(prepared, user="few"), seed=1, duration_s=1.0)
    finally:
        execute(prepared, table, "DROP OWNED BY few", "DROP ROLE few")
    known = replace(prepared, password="p")
    for away in (replace(known, port=1), replace(known, user="few")):
        with pytest.raises(LoadError, match="the load cannot connect: .* users=4: .*user 0 could not connect"):
            workload.start(away, seed=1, duration_s=1.0)
    assert generators() == []


def test_the_command_says_what_it_is_for() -> None:
    command = [sys.executable, "-m", "trimtab.load"]
    refused = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.startswith("usage: python -m trimtab.load [--listen HOST:PORT]\n")
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.count(".") == 2
