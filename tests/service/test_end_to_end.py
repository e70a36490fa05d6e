"""The commands as a user runs them, on real servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.service.conftest import TPCH, Debian, Place, servers_under

pytestmark = [pytest.mark.service, pytest.mark.slow]

EMBEDDED = 'embedded = "18"\nknobs = ["shared_buffers", "work_mem", "max_parallel_workers_per_gather"]'


def _wait_for(process: subprocess.Popen[str], text: str, timeout_s: float = 120) -> None:
    """Reads stderr until `text` appears."""
    assert process.stderr is not None
    until = time.monotonic() + timeout_s
    seen = []
    while time.monotonic() < until:
        line = process.stderr.readline()
        seen.append(line)
        if text in line:
            return
        if not line and process.poll() is not None:
            break
    raise AssertionError(f"{text!r} did not appear in: {''.join(seen)}")


def test_tune_on_an_embedded_server_that_is_made_for_it(new_place: Place) -> None:
    """TPC-H on such a server is in the tutorial, which tests/docs runs."""
    place = new_place
    place.write(EMBEDDED)
    assert place.run("doctor", "study.toml").code == 0
    found = place.auto_conf()
    data = place.json("tune", "study.toml", "--html", "report.html")
    assert data["study"]["status"] in ("proven", "no_improvement")
    assert place.auto_conf() == found
    assert servers_under(place.folder) == []
    roles = [trial["role"] for trial in data["trials"]]
    assert roles[:3] == ["baseline"] * 3
    assert all(trial["reason"] for trial in data["trials"] if trial["status"] not in ("ok", "stopped_early"))
    assert "<svg" in (place.folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.full  # in the quick form T3 of tests/faults, and a study of YCSB whose copy lies around
def test_killed_tuner_is_recovered_and_the_study_resumes(place: Place) -> None:
    place.write(EMBEDDED)
    assert place.run("doctor", "study.toml").code == 0
    found = place.auto_conf()
    process = place.start("tune", "study.toml")
    _wait_for(process, "trial 3")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    recovered = place.run("recover")
    assert recovered.code == 0
    # the dead-man or `recover`, whoever came first; the other has waited
    assert "restored as it was found" in recovered.out + recovered.err
    stored = len(place.json("report", "e2e")["trials"])
    assert stored >= 4
    assert place.auto_conf() == found
    assert servers_under(place.folder) == []
    assert place.run("recover").out == "nothing to recover\n"
    data = place.json("tune", "study.toml")
    assert data["study"]["status"] in ("proven", "no_improvement")
    assert [trial["number"] for trial in data["trials"]] == list(range(len(data["trials"])))
    assert place.auto_conf() == found


def test_ctrl_c_ends_cleanly_with_what_is_known(place: Place) -> None:
    place.write(EMBEDDED)
    process = place.start("tune", "study.toml")
    _wait_for(process, "trial 3")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in out.lower() or "stopped" in out.lower()
    assert servers_under(place.folder) == []
    assert place.run("recover").out == "nothing to recover\n"


@pytest.mark.full  # T7 of tests/faults/test_connection_lock.py, on an embedded server too
def test_second_tuner_on_the_same_server_is_refused_and_the_holder_named(place: Place) -> None:
    place.write(EMBEDDED)
    first = place.start("tune", "study.toml")
    _wait_for(first, "measuring the baseline")
    place.write(EMBEDDED, name="second")
    second = place.run("tune", "study.toml")
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    assert second.code == 3
    assert "another tuner holds this server" in second.err
    assert f"pid={first.pid}" in second.err


@pytest.mark.full  # test_ablation.py and test_load_studies.py tune that server
def test_tune_on_debians_postgresql_leaves_it_as_found(place: Place, debian: Debian) -> None:
    place.write(debian.target)
    found, pid_found = debian.auto_conf(), (debian.data_dir / "postgresql.conf").read_bytes()
    data = place.json("tune", "study.toml")
    assert data["study"]["status"] in ("proven", "no_improvement")
    assert any(trial["config"]["shared_buffers"] != 16384 for trial in data["trials"])
    assert debian.auto_conf() == found
    assert (debian.data_dir / "postgresql.conf").read_bytes() == pid_found
    assert _running(debian, "work_mem") == "3MB"
    assert _running(debian, "random_page_cost") == "3.5"


def _running(debian: Debian, name: str) -> str:
    with psycopg.connect(f"{debian.dsn} dbname=postgres") as connection:
        row = connection.execute(f"SHOW {name}").fetchone()
    assert row is not None
    # The cluster has no encoding (SQL_ASCII), as --no-locale makes it: texts come as bytes.
    return row[0].decode() if isinstance(row[0], bytes) else str(row[0])


def test_apply_and_rollback_on_debians_postgresql(place: Place, debian: Debian) -> None:
    # Nothing about the gain is asserted: the winner is put into the history by hand, the server is the real one.
    place.write(debian.target)
    found = debian.auto_conf()
    place.win("e2e", work_mem=16384, shared_buffers=8192)
    applied = place.run("apply", "e2e", "--yes")
    assert applied.code == 0, applied.err
    assert (_running(debian, "work_mem"), _running(debian, "shared_buffers")) == ("16MB", "64MB")
    rolled_back = place.run("rollback", "e2e")
    assert rolled_back.code == 0, rolled_back.err
    assert debian.auto_conf() == found
    assert (_running(debian, "work_mem"), _running(debian, "shared_buffers")) == ("3MB", "128MB")


def test_unreachable_server_is_one_clear_line(place: Place) -> None:
    place.write('url = "host=127.0.0.1 port=1 user=postgres dbname=postgres connect_timeout=2"')
    ran = place.run("tune", "study.toml")
    assert ran.code == 3
    assert ran.err.startswith("error: ")
    assert "Traceback" not in ran.err
    assert "hint: " in ran.err


def test_disk_too_small_for_the_scale_is_said_before_anything_is_written(place: Place) -> None:
    place.write(EMBEDDED, workload=TPCH)
    text = (place.folder / "study.toml").read_text().replace("scale = 0.01", "scale = 90000")
    (place.folder / "study.toml").write_text(text)
    ran = place.run("tune", "study.toml")
    assert ran.code == 4
    assert "disk" in ran.err
    assert "scale=90000" in ran.err


@pytest.mark.needs("root")
def test_works_without_root(new_place: Place) -> None:
    import pwd

    place = new_place

    nobody = pwd.getpwnam("nobody")
    place.write(EMBEDDED, workload=TPCH)
    for path in (place.folder, place.cache, place.folder / "study.toml"):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    if not _can_enter(Path(os.__file__), nobody.pw_uid):
        pytest.skip("this Python lies in a folder that only root can enter")
    argv = [sys.executable, "-m", "trimtab", "bench", "study.toml", "--runs", "1"]
    done = subprocess.run(argv, cwd=place.folder, env={**place.environment, "HOME": str(place.folder)}, text=True,
                          capture_output=True, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("throughput: ")


def _can_enter(path: Path, uid: int) -> bool:
    return subprocess.run(["/usr/bin/test", "-r", str(path)], user=uid, extra_groups=[], check=False).returncode == 0
