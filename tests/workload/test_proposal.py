"""The study file that a profile becomes: it can be read again, whatever the columns and databases are called."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.workload.sql.columns import guess
from trimtab.workload.sql.profile import Profile, Proposal
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
