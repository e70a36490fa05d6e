"""The study file that a profile becomes: it can be read again, whatever the columns and databases are called."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.workload.sql.columns import guess
from trimtab.workload.sql.profile import Profile, Proposal, _propose, _Seen
from trimtab.workload.sql.proposal import study_text
from trimtab.workload.sql.samples import _parts

OF_SIZES = SimpleNamespace(table='"schöne Tabelle 😀"', name="größe", is_integer=True, is_unique=False)


class Catalogue:
    """Of one table."""

    def columns(self, table: str) -> dict[str, Any]:
        return {"größe": OF_SIZES}


def test_names_in_other_letters_are_keys_and_texts_of_a_study_file() -> None:
    text = 'SELECT * FROM "schöne Tabelle 😀" WHERE größe = $1'
    name, generator = guess(text, 1, Catalogue())  # type: ignore[arg-type]
    assert name == "gr__e"
    proposal = Proposal(
        label="s01_select", text=text, generators={f"s01_{name}": generator}, calls=7, time_ms=1.0, writes=False
    )
    profile = Profile(database="läden 😀", window_s=0.0, proposals=(proposal,), left_out=())
    workload = tomllib.loads(study_text(profile, "[study]\nname = 's'\n"))["workload"]
    assert workload["database"] == "läden 😀"
    assert workload["weights"] == {"s01_select": 7}
    expected = {"type": "column", "table": OF_SIZES.table, "column": "größe"}
    assert workload["parameters"] == {"s01_gr__e": expected}


def test_an_array_is_no_value_of_its_column() -> None:
    """The server takes a text such as {1,2,3} for it, and refuses every value of the column."""
    text = "SELECT * FROM t WHERE größe = ANY($1) AND größe IN ($2, $3)"
    guessed = [guess(text, number, Catalogue()) for number in (1, 2, 3)]  # type: ignore[arg-type]
    of_column = {"type": "column", "table": OF_SIZES.table, "column": "größe"}
    assert guessed == [("p1", {"type": "?"}), ("gr__e", of_column), ("gr__e", of_column)]


def test_a_list_whose_length_the_server_does_not_keep_is_not_taken_for_one_value() -> None:
    """PostgreSQL 18 counts IN (1, 2, 3) and longer lists as one statement, whose text has one value."""
    connection: Any = SimpleNamespace(execute=lambda *_: [])
    whole, cut = "SELECT x FROM t WHERE id = $1", "SELECT x FROM t WHERE id IN ($1 /*, ... */)"
    seen = [_Seen(cut, 9, 9.0), _Seen(whole, 1, 1.0)]
    proposals, left_out = _propose(connection, seen, 1.0, 10)
    assert [(proposal.text, proposal.calls) for proposal in proposals] == [("SELECT x FROM t WHERE id = :s01_id", 1)]
    assert [(left.calls, left.reason) for left in left_out] == [(9, "how many values its list had is not known")]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("orders", ["orders"]),
        ("shop.orders", ["shop", "orders"]),
        ('shop."Orders"', ["shop", "Orders"]),
        ('"a.b"."c ""d"""', ["a.b", 'c "d"']),
    ],
)
def test_a_table_is_found_by_the_name_that_the_server_writes(name: str, parts: list[str]) -> None:
    assert _parts(name) == parts
