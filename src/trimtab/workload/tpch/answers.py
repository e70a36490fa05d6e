"""Checks the 22 queries against the published answers of scale 1.

The answers themselves are not ours to ship: `answers.json` holds, for each query, the number of rows, a digest of all
rows with numbers rounded to a hundredth (clause 2.1.3.5), and the sum of each numeric column, which shows how far off a
wrong answer is. They come from runs that agreed with the published set (docs/reference/tpch.md names its limits).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from importlib.resources import files

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.server import server_of
from trimtab.workload.tpch import marker
from trimtab.workload.tpch.parameters import QUERIES
from trimtab.workload.tpch.queries import validation_query

__all__ = ["Answer", "AnswerCheck", "check_answers", "summarise"]

_CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Answer:
    """A query's answer in short: rows, digest of the rows in their order, and the sum of each numeric column."""

    n_rows: int
    sha256: str
    sums: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """One query's verdict; `difference` tells what is wrong, "" when nothing is."""

    query: int
    is_right: bool
    difference: str = ""


def _normal(value: object) -> str:
    """A value as text: numbers to a hundredth, whatever type the server has for them; texts without padding of char(n)."""
    if isinstance(value, int | float | Decimal):
        return str(Decimal(str(value)).quantize(_CENT, ROUND_HALF_UP))
    return str(value).strip()


def summarise(rows: Sequence[Sequence[object]]) -> Answer:
    """The short form of an answer."""
    digest = hashlib.sha256()
    sums: dict[int, Decimal] = {}
    for row in rows:
        digest.update(("|".join(_normal(value) for value in row) + "\n").encode())
        for column, value in enumerate(row):
            if isinstance(value, int | float | Decimal):
                sums[column] = sums.get(column, Decimal(0)) + Decimal(str(value))
    return Answer(len(rows), digest.hexdigest(), tuple(_normal(total) for _, total in sorted(sums.items())))


def published() -> dict[int, Answer]:
    """The expected answers, by query."""
    text = files("trimtab.workload.tpch").joinpath("answers.json").read_text(encoding="utf-8")
    return {
        int(query): Answer(answer["n_rows"], answer["sha256"], tuple(answer["sums"]))
        for query, answer in json.loads(text).items()
    }


def compare(query: int, found: Answer, expected: Answer) -> AnswerCheck:
    """The verdict on `query`, naming the first figure that differs."""
    if found == expected:
        return AnswerCheck(query, True)
    if found.n_rows != expected.n_rows:
        difference = f"rows={found.n_rows}, expected rows={expected.n_rows}"
    elif found.sums != expected.sums:
        difference = f"column sums={list(found.sums)}, expected sums={list(expected.sums)}"
    else:
        difference = "the figures agree, but a text or the order of the rows differs"
    return AnswerCheck(query, False, difference)


def check_answers(endpoint: Endpoint) -> list[AnswerCheck]:
    """Runs all 22 queries with their validation parameters on `endpoint` (its database) and compares the answers.

    Raises:
        LoadError: the database does not hold finished TPC-H data of scale 1.
    """
    server = server_of(endpoint)
    with server.connect() as session:
        found = marker.read(server, session, endpoint.database)
        if found is None or found.state != "loaded" or found.scale != 1.0:
            raise LoadError(
                f"database={endpoint.database} does not hold TPC-H data of scale=1",
                hint="the published answers are for scale 1: prepare that first",
            )
        expected = published()
        return [
            compare(query, summarise(session.execute(validation_query(query))), expected[query]) for query in QUERIES
        ]
