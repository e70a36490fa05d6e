"""What holds for every test: property tests have no deadline, for these machines are noisy, and more examples in the long form;
and Ctrl-C is heard."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import mutants  # first: a mutant must be in place before its module is imported
from tests.needs import IS_FULL
from tests.rules import (
    pytest_collection_modifyitems,
    pytest_ignore_collect,
    pytest_make_collect_report,
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_runtest_setup,
)
from tests.servers import run_folder

__all__ = [
    "mutants",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_ignore_collect",
    "pytest_make_collect_report",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
]


def pytest_configure(config: pytest.Config) -> None:
    """The folder that all workers share is the first process's. The tests' own folders lie in it, which is in memory where
    that is large enough: a study syncs its files four times a trial, and a disk takes milliseconds for each. So does the cache:
    the user's own stays as it is, and may be in a home that nobody can write to."""
    os.umask(0o022)  # servers' own users enter what tests make, whatever the shell of the run would keep from others
    shared = run_folder()
    os.environ.setdefault("TRIMTAB_CACHE", str(shared / "cache"))
    if config.option.basetemp is None:
        config.option.basetemp = str(shared / "pytest")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """What was imported and collected stays until the end: the garbage collector need not look at it again and again. Nor need it
    look so often for what tests leave behind."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


settings.register_profile("trimtab", max_examples=100 if IS_FULL else 40, deadline=None)
settings.load_profile("trimtab")

# A shell starts what runs in its background with SIGINT ignored, and tests send that signal to themselves and to commands.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
