"""profile: what live servers are asked, as workloads; changes nothing on them."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.records import Endpoint
from trimtab.study.file import StudyFile
from trimtab.study.stage import build_stack
from trimtab.systems import Tier
from trimtab.trial.signals import signals_interrupt
from trimtab.workload.sql.profile import Profile, read_profile

__all__ = ["profile"]

_PROTOCOL = "postgresql"


def profile(
    file: StudyFile, state_dir: Path, *, database: str | None, window_s: float, coverage: float, most: int
) -> dict[str, Profile]:
    """Target -> what it was asked in `database` (its own when None), of each target of the study that counts its statements.

    All are watched during the same seconds.

    Raises:
        UsageError: no target has statement statistics that Trimtab can read.
        TargetError: a target cannot be reached, or its statistics are not there or may not be read.
        LoadError: the statistics of one saw nothing.
    """
    ended = threading.Event()
    with signals_interrupt(), ExitStack() as opened:
        found: list[tuple[Tier, Endpoint]] = []
        stack = build_stack(file, state_dir)
        for tier in stack.tiers:
            opened.callback(tier.target.close)
            with tier.asked():
                tier.target.open()
                endpoint = tier.target.endpoint()
            if endpoint.protocol == _PROTOCOL:
                found.append((tier, endpoint if database is None else endpoint.with_database(database)))
        if not found:
            raise UsageError(
                f"target kind={stack.kind!r} has no statement statistics that can be profiled yet",
                hint="use a target of kind postgresql",
            )

        def watched(each: tuple[Tier, Endpoint]) -> tuple[str, Profile]:
            with each[0].asked():
                return each[0].name, read_profile(
                    each[1], window_s=window_s, coverage=coverage, most=most, wait=ended.wait
                )

        with ThreadPoolExecutor(len(found)) as pool:
            try:
                watching = [pool.submit(watched, each) for each in found]
                done, _ = wait(watching, return_when=FIRST_EXCEPTION)
            finally:
                ended.set()  # after Ctrl-C, or an error of one, none watches on
            failed = [each for each in done if each.exception() is not None]
            return dict(each.result() for each in failed or watching)
