"""What a searcher takes by itself: the time that a round trip is measured beside."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

from clients import KNOBS

from trimtab.flow.start import start_searcher
from trimtab.history.formats.partial import measurement_of
from trimtab.measure import Interval
from trimtab.records import Role, Status, Trial
from trimtab.session.spec import SessionSpec


def searcher_ms(n: int) -> float:
    """Median milliseconds of an ask and a tell of searcher `random`, over `n` trials of the benchmark's session, alone."""
    task = SessionSpec.model_validate(
        {"name": "alone", "knobs": KNOBS, "searcher": "random", "budget": f"{n} trials"}
    ).task()
    searcher = start_searcher(task, n)
    trial = Trial(number=0, role=Role.SEARCH, config=task.baseline, context=task.context, status=Status.OK,
                  loss=0.0, loss_se=0.01, measurement=measurement_of({"cost": Interval(100.0, 100.0, 100.0)}))  # fmt: skip
    spent_s = []
    for number in range(n):
        began = time.perf_counter()
        config = searcher.ask(1)[0]
        asked_s = time.perf_counter() - began
        told = replace(trial, number=number, config=config)
        began = time.perf_counter()
        searcher.tell(told)
        spent_s.append(asked_s + time.perf_counter() - began)
    return 1000 * statistics.median(spent_s)
