"""Rules that hold for the whole suite: what may be skipped in CI, what a fast test may cost, what the long form adds."""

from __future__ import annotations

import fnmatch
import re
import resource
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tests import needs

T = TypeVar("T")
ALLOWED = Path(__file__).with_name("allowed_skips.txt")
FAST_CPU_S = 8.0
"""CPU seconds, children included, that a test may need which is marked neither `service` nor `slow`. Most need 0.05, and
what needs more than about 0.4 on a quiet machine with all its parameters is marked; the rest is room for slow and busy ones."""

LONG = (
    "tests/service/test_ablation.py", "tests/service/test_stack.py", "tests/docs/test_pages_run.py",
    "tests/service/test_planted_gain.py", "tests/service/test_passes.py", "tests/service/test_mariadb.py",
    "tests/service/test_mysql.py", "tests/service/test_rank.py", "tests/service/test_load_studies.py",
    "tests/service/test_end_to_end.py", "tests/faults/test_resources_server.py", "tests/faults/test_tuner_killed.py",
)  # fmt: skip
"""Files of tests that take half a minute or more."""
WHOLE = (
    "tests/wayback/test_state_files.py", "tests/workload/test_tpch_mysql.py", "tests/faults/test_framework.py",
    "tests/native/test_tls.py", "tests/service/test_searchers.py", "tests/engine/test_engine.py",
    "tests/engine/test_engine_faults.py", "tests/engine/test_engine_killed.py", "tests/systems/test_cassandra.py",
    "tests/apps/test_rubis.py", "tests/apps/test_tpcw.py", "tests/apps/test_stack.py",
    "tests/native/test_cassandra_ring.py", "tests/systems/test_cassandra_faults.py",
)  # fmt: skip
"""Files whose tests share a server, or a study, that takes long to make."""
OF_SOURCES = ("tests/architecture/test_imports.py", "tests/docs/test_docs.py", "tests/docs/test_phrases.py")
"""Files whose tests share the parsed sources of the package: five seconds of CPU in each process that looks at them."""


def allowed_skips(text: str) -> list[tuple[str, str]]:
    """(pattern of node ids, start of the reason) of each line `pattern: reason`."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(pattern, reason) for pattern, _, reason in (line.partition(": ") for line in lines)]


def is_allowed(node: str, reason: str, rules: list[tuple[str, str]]) -> bool:
    """Whether a rule allows that skip."""
    return any(fnmatch.fnmatchcase(node, pattern) and reason.startswith(start) for pattern, start in rules)


def refused_skip(node: str, longrepr: object) -> str | None:
    """What is wrong with a skip in CI; None when the list allows it."""
    reason = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")
    if is_allowed(node, reason, allowed_skips(ALLOWED.read_text(encoding="utf-8"))):
        return None
    return f"CI=true: skipped, and tests/{ALLOWED.name} does not allow it: {reason}"


def cpu_s() -> float:
    """CPU seconds of this process and of the children that ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def dealt(
    nodes: Sequence[T], n_workers: int, is_long: Callable[[T], bool], family: Callable[[T], str] = lambda node: ""
) -> list[T]:
    """The long ones first, dealt over the workers, each of which begins with an equal run of the list: one that starts last
    would keep one worker busy while the others have nothing left to do. Behind them, far from the end of a run, which is
    what another worker takes over, those of one `family`: each worker would make again what they share."""
    long, families, rest = list[T](), dict[str, list[T]](), list[T]()
    for node in nodes:
        (long if is_long(node) else families.setdefault(family(node), []) if family(node) else rest).append(node)
    starts = [long[worker::n_workers] for worker in range(n_workers)]
    for number, members in enumerate(families.values()):
        starts[-1 - number % n_workers] += members
    found: list[T] = []
    for worker, own in enumerate(starts):
        n_more = max(0, (len(nodes) - len(found)) // (n_workers - worker) - len(own))  # as xdist cuts the list
        found += [*own, *rest[:n_more]]
        rest = rest[n_more:]
    return [*found, *rest]


def cannot_hold(text: str, conftest: str, wanted: str) -> bool:
    """Whether no test of a file with that `text`, in a folder with that `conftest`, is wanted by `-m WANTED`.

    It looks for the marks where this suite writes them, and is wrong only in saying no.
    """
    own = next((line for line in text.splitlines() if line.startswith("pytestmark = ")), "")
    if wanted == "service":
        return "mark.service" not in text + conftest
    left_out = [part.removeprefix("not ") for part in wanted.split(" and ") if part.startswith("not ")]
    return any(re.search(rf"mark\.{mark}\b", own) for mark in left_out)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that hold no test of this stage are not imported: each worker would pay for all of them."""
    wanted = config.option.markexpr
    if not wanted or not collection_path.match("test_*.py"):
        return None
    conftest = collection_path.with_name("conftest.py")
    others = conftest.read_text(encoding="utf-8") if conftest.exists() else ""
    return cannot_hold(collection_path.read_text(encoding="utf-8"), others, wanted) or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `full` belong to the long form, and are deselected elsewhere; the long ones of the rest come first."""
    _deselect(config, items)
    n_workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = dealt(items, n_workers, lambda item: item.nodeid.startswith(LONG), _family)


def _family(item: pytest.Item) -> str:
    file = item.nodeid.partition("::")[0]
    return "sources" if file in OF_SOURCES else file if file in WHOLE else ""


def _deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    if needs.IS_FULL:
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Looks for what `@pytest.mark.needs(...)` names."""
    for mark in item.iter_markers("needs"):
        needs.require(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """In CI a test that says nothing about its cost stays below FAST_CPU_S."""
    before = cpu_s()
    result = yield
    used = cpu_s() - before
    is_fast = not (item.get_closest_marker("service") or item.get_closest_marker("slow"))
    if needs.IS_CI and not needs.IS_FULL and is_fast and used > FAST_CPU_S:
        pytest.fail(
            f"needs {used:.1f} s of CPU, more than {FAST_CPU_S:g}: make it cheaper, or mark it slow", pytrace=False
        )
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In CI a skip that is not on the list is a failure, whatever called `pytest.skip`."""
    report = yield
    if needs.IS_CI and report.skipped and not hasattr(report, "wasxfail"):
        wrong = refused_skip(item.nodeid, report.longrepr)
        if wrong is not None:
            report.outcome, report.longrepr = "failed", wrong
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """The same for a module that is skipped as a whole."""
    report = yield
    if needs.IS_CI and report.outcome == "skipped":
        wrong = refused_skip(collector.nodeid, report.longrepr)
        if wrong is not None:
            report.outcome, report.longrepr = "failed", wrong
    return report
