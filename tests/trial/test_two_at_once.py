"""An apply and a rollback, or two rollbacks, by two processes on one server: neither undoes what the other has just done.

Rolled back under a study that was applied meanwhile, a value of the first would come back with the second's rollback, for good.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.trial.test_stack_follow import Following
from trimtab.errors import LockedError, UsageError
from trimtab.study import rollback
from trimtab.study.rollback_point import applied_points
from trimtab.trial import Entry, Journal
from trimtab.trial.lines import read_lines


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Following:
    found = Following.found_again(tmp_path, monkeypatch)
    found.commit(db__method="ring")
    return found


@contextmanager
def another_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)  # one that lives
        yield


def just_before(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` happens between the first look of a rollback and its entry in the journal."""
    begin = Journal.begin

    def late(journal: Journal, *snapshots: Any, study: str, purpose: str) -> Entry:
        if purpose == "rollback":
            monkeypatch.setattr(Journal, "begin", begin)
            act()
        return begin(journal, *snapshots, study=study, purpose=purpose)

    monkeypatch.setattr(Journal, "begin", late)


def outcomes(state: Path) -> list[str]:
    return [str((line or {})["outcome"]) for line in read_lines((state / "journal" / "audit.jsonl").read_bytes())]


def test_nothing_is_applied_while_a_rollback_waits_for_the_server(
    bench: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, refused = bench.targets["db"].lock, list[LockedError]()

    def after_an_apply(holder: str) -> AbstractContextManager[None]:
        with another_process(monkeypatch), pytest.raises(LockedError) as caught:
            bench.commit("other", db__method="sync")
        refused.append(caught.value)
        return lock(holder)

    monkeypatch.setattr(bench.targets["db"], "lock", after_an_apply)
    rollback("s", bench.path)
    assert bench.values() == bench.found
    assert applied_points(bench.path) == []
    assert [error.message for error in refused] == [
        f"another process works on the same server: rollback of study='s' pid={os.getpid()}; nothing was changed"
    ]
    assert outcomes(bench.path)[1] == "nothing was changed"


def test_nothing_is_rolled_back_while_something_is_applied(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    with another_process(monkeypatch):
        other = Journal(bench.path).begin(bench.targets["db"].snapshot(), study="other", purpose="apply")
    with pytest.raises(
        LockedError, match="works on the same server: apply of study='other' pid=1; nothing was"
    ) as caught:
        rollback("s", bench.path)
    assert caught.value.hint == "wait until it ends; then run the command again"
    assert bench.targets["db"].values["method"] == "ring"
    other.close("not applied")
    rollback("s", bench.path)
    assert bench.values() == bench.found


def test_nothing_is_rolled_back_under_what_was_just_applied(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    just_before(monkeypatch, lambda: bench.commit("other", db__method="sync"))
    with pytest.raises(UsageError, match="study='other' was applied to the same server after study='s'"):
        rollback("s", bench.path)
    assert Journal(bench.path).open_entries() == []
    for name in ("other", "s"):
        rollback(name, bench.path)
    assert bench.values() == bench.found


def test_what_was_just_rolled_back_is_not_again(bench: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have applied it anew since."""
    just_before(monkeypatch, lambda: rollback("s", bench.path))
    with pytest.raises(UsageError, match="study='s' is not applied any more as it was when this command began"):
        rollback("s", bench.path)
    assert bench.values() == bench.found
    assert outcomes(bench.path)[-1] == "nothing was changed"
