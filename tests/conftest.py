"""What holds for every test: property tests have no deadline, for these machines are noisy; and Ctrl-C is heard."""

from __future__ import annotations

import signal
import threading

from hypothesis import settings

from tests import mutants  # first: a mutant must be in place before its module is imported
from tests.rules import (
    pytest_collection_modifyitems,
    pytest_make_collect_report,
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_runtest_setup,
)
from tests.servers import run_folder

__all__ = [
    "mutants",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_make_collect_report",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
]


def pytest_configure() -> None:
    """The folder that all workers share is the first process's."""
    run_folder()


settings.register_profile("trimtab", parent=settings(), deadline=None)
settings.load_profile("trimtab")

# A shell starts what runs in its background with SIGINT ignored, and tests send that signal to themselves and to commands.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
