"""N1, N3 to N6: connections, networks and credentials that fail while a config is applied or measured."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import Place
from tests.faults.rooms import Bench, open_bench
from tests.faults.server import set_password
from trimtab.errors import ApplyError, TrimtabError
from trimtab.records import Context, Fault, Status
from trimtab.space import Config
from trimtab.systems.postgresql import autoconf, change
from trimtab.systems.postgresql.session import Connection

pytestmark = pytest.mark.service


def cut_after(place: Place, monkeypatch: pytest.MonkeyPatch, n_statements: int, *, times: int = 1) -> list[int]:
    """The server ends the session that changes entries before its statement number `n_statements`; the victims' pids."""
    original = autoconf.change_entries
    victims: list[int] = []

    def cutting(connection: Connection, now: Any, wanted: Any) -> None:
        differing = [name for name in wanted if now.get(name) != wanted[name]]
        if len(victims) < times and len(differing) > n_statements:
            first = {**now, **{name: wanted[name] for name in differing[:n_statements]}}
            original(connection, now, first)
            victims.append(connection.info.backend_pid)
            place.server.query("SELECT pg_terminate_backend(%s, 5000)", connection.info.backend_pid)
            now = first
        original(connection, now, wanted)

    monkeypatch.setattr(change, "change_entries", cutting)
    return victims


def test_N1_a_connection_lost_in_an_apply_is_made_again_and_what_is_missing_set(
    own_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = take_picture(own_place.server)
    with open_bench(own_place) as bench:
        victims = cut_after(own_place, monkeypatch, 1)
        trial = bench.run()
    assert len(victims) == 1
    assert trial.status is Status.OK, trial.reason
    assert trial.effective == {"work_mem": 8192, "shared_buffers": 3072}
    check_invariants(own_place, before, recovers=False)


def test_N1_a_connection_that_is_lost_every_time_ends_in_the_baseline(
    own_place_18: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = take_picture(own_place_18.server)
    with open_bench(own_place_18) as bench:
        cut_after(own_place_18, monkeypatch, 0, times=100)
        trial = bench.run()
    assert (trial.status, trial.fault) == (Status.INFRASTRUCTURE, Fault.ENVIRONMENT)
    assert "the connection was lost while changing" in trial.reason
    check_invariants(own_place_18, before, recovers=False)


@pytest.fixture
def tuner(own_place_18: Place) -> Place:
    """The study runs as a role that may change two knobs and nothing else."""
    place = own_place_18
    with place.server.admin() as admin:
        admin.execute("CREATE ROLE tuner LOGIN")
        admin.execute("GRANT pg_monitor TO tuner")
        admin.execute("GRANT ALTER SYSTEM ON PARAMETER work_mem TO tuner")
        admin.execute("GRANT EXECUTE ON FUNCTION pg_reload_conf() TO tuner")
        admin.execute("GRANT SELECT ON witness TO tuner")
    set_password(place.server, "tuner", place.canary)
    place.write(knobs=("work_mem",), reach=f'url = "{place.server.url(user="tuner")}"')
    return place


def test_N4_credentials_revoked_in_a_trial_are_no_hindrance_to_the_restore(tuner: Place) -> None:
    before = take_picture(tuner.server)
    with pytest.raises(TrimtabError) as caught:
        _run_and_revoke(tuner)
    assert "refused the password" in caught.value.message or "may not log in" in caught.value.message
    check_invariants(tuner, before, recovers=False)


def _run_and_revoke(place: Place) -> None:
    with open_bench(place) as bench:
        bench.run(hand_over=True, work_mem=8192)
        set_password(place.server, "tuner", secrets.token_hex(8))
        bench.run(number=1, work_mem=16384)


def test_N4_credentials_revoked_with_files_at_hand(own_place_18: Place) -> None:
    place = own_place_18
    before = take_picture(place.server)
    with pytest.raises(TrimtabError), open_bench(place) as bench:
        _revoke(bench)
    check_invariants(place, before, recovers=False)


def _revoke(bench: Bench) -> None:
    bench.run(hand_over=True)
    set_password(bench.place.server, "postgres", secrets.token_hex(8))
    bench.run(number=1, work_mem=16384)


def test_N5_a_knob_without_permission_is_locked_with_the_reason_before_anything_changes(tuner: Place) -> None:
    before = take_picture(tuner.server)
    tuner.write(knobs="performance", reach=f'url = "{tuner.server.url(user="tuner")}"')
    with open_bench(tuner) as bench:
        assert set(bench.stage.space.knobs) == {"work_mem"}
        reason = bench.target.states()["random_page_cost"].lock_reason
        assert reason == "this user may not change it (no ALTER SYSTEM privilege)"
        assert bench.target.selection(Context(workload="test", clients=1)) == ("work_mem",)
        assert any("no ALTER SYSTEM privilege" in line for _, _, line in bench.target.doctor())
        with pytest.raises(
            ApplyError, match=r"knob='random_page_cost' may not be changed: this user may not change it"
        ):
            bench.target.preflight(Config({"random_page_cost": 2.0}))
    check_invariants(tuner, before, recovers=False)


def occupy(place: Place, *, user: str) -> list[psycopg.Connection[Any]]:
    """Takes every connection that `user` can get."""
    held = []
    while True:
        try:
            held.append(place.server.admin(user=user))
        except psycopg.OperationalError:
            return held


@pytest.mark.parametrize("is_superuser", [True, False], ids=["superuser", "role"])
def test_N6_all_connections_are_in_use(tuner: Place, is_superuser: bool) -> None:
    """A superuser comes in by the reserved ones; everybody else restores by the connection made before."""
    place = tuner
    before = take_picture(place.server)
    if is_superuser:
        place.write()
    held: list[psycopg.Connection[Any]] = []
    try:
        with open_bench(place) as bench:
            bench.run(hand_over=True, work_mem=8192)
            held += occupy(place, user="tuner")
            if is_superuser:
                bench.room.restore()
                assert bench.target.states()["work_mem"].running == 4096
            else:
                bench.room.restore()
                assert place.server.query("SELECT setting FROM pg_settings WHERE name = 'work_mem'") == [("4096",)]
    finally:
        for connection in held:
            connection.close()
    check_invariants(place, before, recovers=False)


class Proxy:
    """A cable to the server: passes bytes on, each way, after `delay_s`. (This kernel has no netem to lose packets with.)"""

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self.port = 0
        self._goal = port
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._ready.wait(10)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, suppress(asyncio.CancelledError):
            runner.run(self._listen())

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = int(server.sockets[0].getsockname()[1])
        self._done = asyncio.Event()
        self._ready.set()
        await self._done.wait()
        server.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._goal)
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, source: asyncio.StreamReader, goal: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await asyncio.sleep(self.delay_s)
                goal.write(data)
                await goal.drain()
        goal.close()
        with suppress(OSError):
            await goal.wait_closed()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)


@pytest.fixture
def far_away(own_place_18: Place) -> Iterator[tuple[Place, Proxy]]:
    """The server is reached through a cable that can be made long."""
    proxy = Proxy(own_place_18.server.port)
    url = own_place_18.server.url().replace(f":{own_place_18.server.port}/", f":{proxy.port}/")
    own_place_18.write(knobs=("work_mem",), reach=f'url = "{url}"')
    yield own_place_18, proxy
    proxy.close()


def test_N3_a_slow_network_spoils_the_trial_and_not_the_config(far_away: tuple[Place, Proxy]) -> None:
    place, proxy = far_away
    before = take_picture(place.server)
    with open_bench(place) as bench:
        assert bench.run(work_mem=8192).status is Status.OK

        def lengthen() -> None:
            proxy.delay_s = 0.04  # a round trip of 80 ms

        bench.on_second = lengthen
        trial = bench.run(number=1, work_mem=16384)
        proxy.delay_s = 0.0
        assert bench.run(number=2, work_mem=16384).status is Status.OK
    assert (trial.status, trial.fault) == (Status.INFRASTRUCTURE, Fault.ENVIRONMENT)
    assert "the network to the server is slow: round_trip=" in trial.reason
    assert not trial.status.is_config_fault
    check_invariants(place, before, recovers=False)
