"""Constraints under other names mean the same."""

from __future__ import annotations

import pytest

from trimtab.space import Constraint, Knob, KnobKind
from trimtab.space.rename import quoted, renamed


def in_db(name: str) -> str:
    return f"db.{name}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a + b <= 1GiB", "db.a + db.b <= 1GiB"),
        ("min(a, max) < max(b, 2)", "min(db.a, db.max) < max(db.b, 2)"),
        ("a<=b and not a == 'a' or c == \"b\"", "db.a<=db.b and not db.a == 'a' or db.c == \"b\""),
        ("`odd-name` > a.b if true else c", "`db.odd-name` > db.a.b if true else db.c"),
        ("a  +\n a", "db.a  +\n db.a"),
        ("`odd: name of/it` > 0", "`db.odd: name of/it` > 0"),
    ],
)
def test_every_name_and_nothing_else_is_renamed(text: str, wanted: str) -> None:
    assert renamed(text, in_db) == wanted


def test_an_odd_name_is_quoted() -> None:
    assert renamed("a < 2", lambda name: f"my-db.{name}") == "`my-db.a` < 2"
    assert quoted("and") == "`and`"
    assert quoted("db.and") == "db.and"


def test_a_constraint_holds_for_the_same_values() -> None:
    knob = Knob(name="a", kind=KnobKind.INTEGER, low=1, high=100, default=1, unit="MB", doc="Some memory.")
    before = Constraint(
        "a * clients <= memory", name="memory budget", constants={"clients": 4.0, "memory": 64.0 * 2**20}
    )
    after = before.renamed(in_db)
    assert after.text == "db.a * db.clients <= db.memory"
    assert after.name == "db.memory budget"
    assert after.constants == {"db.clients": 4.0, "db.memory": 64.0 * 2**20}
    for size in (1, 16, 17):
        assert before.is_met({"a": size}, {"a": knob}) == after.is_met({"db.a": size}, {"db.a": knob}) == (size <= 16)
    assert Constraint("a < 3", name="a < 3").renamed(in_db).label == "db.a < 3"
