"""Tiers that are restarted, or looked at, because one that they need was restarted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import UsageError
from trimtab.systems import Stack, Tier, stale
from trimtab.systems.follow import depending, follows_of
from trimtab.testing.fake_target import FakeTarget

CHAIN = {"app": ("db",), "web": ("app",)}


def tier(name: str, *needs: str, follows: bool = False) -> Tier:
    return Tier(name=name, target=FakeTarget(name), needs=needs, follows=follows)


@pytest.mark.parametrize(
    ("restarted", "found"),
    [
        ((), ()),
        (("db",), ("app", "web")),
        (("app",), ("web",)),
        (("web",), ()),
        (("db", "app", "web"), ()),
        (("app", "db"), ("app", "web")),
        (("db", "web", "app"), ("web",)),
        (("app", "web", "db", "app"), ("web",)),
    ],
)
def test_who_runs_since_before_what_it_follows(restarted: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert stale(CHAIN, [(name, True) for name in restarted]) == found


def test_a_restart_that_is_not_certain_counts_for_those_that_follow_only() -> None:
    assert stale(CHAIN, [("db", False)]) == ("app", "web")
    assert stale(CHAIN, [("db", True), ("app", False)]) == ("app", "web")
    assert stale(CHAIN, [("db", False), ("app", True)]) == ("web",)


@given(st.lists(st.sampled_from(["db", "cache", "app", "web"]), max_size=8), st.permutations(["app", "web", "cache"]))
def test_after_these_restarts_none_is_left_behind(restarted: list[str], order: list[str]) -> None:
    follows = {name: {"app": ("db", "cache"), "web": ("app",), "cache": ("db",)}[name] for name in order}
    known = [(name, True) for name in restarted]
    found = stale(follows, known)
    assert stale(follows, [*known, *((name, True) for name in found)]) == ()
    assert len(set(found)) == len(found)


def test_without_needs_a_tier_follows_all_below_it() -> None:
    tiers = [tier("db"), tier("cache"), tier("app", follows=True), tier("web", "app", follows=True)]
    assert follows_of(tiers) == {"app": ("db", "cache"), "web": ("app",)}


def test_who_depends_on_what_was_restarted() -> None:
    tiers = [tier("db"), tier("cache", "db"), tier("app", "db"), tier("web", "app")]
    assert [each.name for each in depending(tiers, ["app"])] == ["web"]
    assert [each.name for each in depending(tiers, ["db"])] == ["cache", "app", "web"]
    assert [each.name for each in depending(tiers, ["web"])] == []


def test_one_that_cannot_be_restarted_cannot_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack([tier("db"), tier("app", follows=True)])
    stack.open()
    assert stack.follows == {"app": ("db",)}
    monkeypatch.setattr(FakeTarget, "no_restart", "it is always there")
    with pytest.raises(
        UsageError, match=r"\[target.app\] follows = true, and it cannot be restarted: it is always there"
    ):
        stack.open()
    monkeypatch.delattr(FakeTarget, "restart")
    with pytest.raises(UsageError, match="targets of kind='fake' cannot be"):
        stack.open()
    assert all(each.target.calls[-1] == "close" for each in stack.tiers)
