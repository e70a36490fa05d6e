"""What a stalled server shows: users of an open loop wait, and say so; most operations were served as fast as ever."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from tests.workload.conftest import Running, running
from tests.workload.runs import quiet, to_the_end
from trimtab.measure import SecondLog, summarise
from trimtab.measure.second_log import Buckets
from trimtab.workload.ycsb import YcsbWorkload

pytestmark = pytest.mark.service

STALL_S = 1.0
RATE = 400
RUN_S = 6.0


@pytest.fixture(scope="module")
def mine() -> Iterator[Running]:
    with running() as server:
        yield server


def _stalled_run(mine: Running, load: dict[str, object]) -> SecondLog:
    workload = YcsbWorkload.from_settings({"workload": "C", "records": 500, "load": load})
    workload.prepare(mine.endpoint, quiet)
    run = workload.start(mine.endpoint, seed=1, duration_s=RUN_S)

    def stall() -> None:
        time.sleep(2.0)
        mine.signal(signal.SIGSTOP)
        time.sleep(STALL_S)
        mine.signal(signal.SIGCONT)

    stalling = threading.Thread(target=stall)
    stalling.start()
    log = to_the_end(run)
    stalling.join()
    return log


def _percentile(buckets: Buckets, share: float) -> float:
    """Microseconds."""
    order = np.argsort(buckets.value_us)
    seen = np.cumsum(buckets.count[order])
    return float(buckets.value_us[order][np.searchsorted(seen, share * seen[-1])])


def test_a_stall_is_in_the_response_of_an_open_loop_and_not_in_the_service(mine: Running) -> None:
    users = 4
    log = _stalled_run(mine, {"users": users, "rate": RATE, "arrivals": "uniform"})
    assert log.error_classes == {}, log.errors
    assert log.shed.sum() == 0
    stalled = _stalled(log.response)
    # Everything that fell due during the stall had to wait for its rest: a sixth of the run, evenly spread.
    assert stalled >= 0.5 * STALL_S * RATE / 2
    assert log.response.value_us.max() >= 0.9 * STALL_S * 1e6
    assert _percentile(log.response, 0.99) >= 0.5 * STALL_S * 1e6
    # The server itself was asked by no more than its users when it stopped: all others were served as usual, but for the few
    # that a busy machine holds up.
    assert _stalled(log.service) <= stalled / 5
    assert _percentile(log.service, 0.5) <= _percentile(log.response, 0.99) / 10
    # They waited for a free user, and the generator was not late for it: one that stops, too, is late by nearly the stall.
    assert log.queue.value_us.max() >= 0.5 * STALL_S * 1e6
    assert _percentile(log.lateness, 0.99) < 0.5 * STALL_S * 1e6


def _stalled(buckets: Buckets) -> int:
    """Operations that took longer than half the stall."""
    return buckets.where(buckets.value_us > 0.5 * STALL_S * 1e6).count.sum().item()


def test_a_closed_loop_hides_it(mine: Running) -> None:
    """Why latencies of a closed loop cannot be compared: the stall is in one operation a user, and not in a sixth of all."""
    users = 2
    log = _stalled_run(mine, {"users": users, "think": "2ms"})
    assert 1 <= _stalled(log.response) <= 4 * users
    assert log.response.count.sum() > 100 * users
    assert log.response.value_us.max() >= 0.8 * STALL_S * 1e6


def test_the_measurement_tells_response_from_service(mine: Running) -> None:
    log = _stalled_run(mine, {"users": 4, "rate": RATE, "arrivals": "uniform"})
    measurement = summarise(log, window_s=(1.0, RUN_S - 1), is_steady=True)
    assert measurement.latency_ms["p99"].estimate >= 500 * STALL_S
    assert measurement.service_ms["p50"] < measurement.latency_ms["p99"].estimate / 10
    assert measurement.queue_p99_ms is not None
    assert measurement.queue_p99_ms >= 500 * STALL_S * 0.8
