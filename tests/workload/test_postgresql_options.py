"""The settings that a url of PostgreSQL holds, for connections that libpq does not make."""

from __future__ import annotations

import pytest

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.engine_run import access_of
from trimtab.workload.postgresql_options import settings_of


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("", []),
        ("  ", []),
        ("-c search_path=app,public  -c work_mem=8MB", [["search_path", "app,public"], ["work_mem", "8MB"]]),
        ("-cenable_sort=off --statement-timeout=5s", [["enable_sort", "off"], ["statement_timeout", "5s"]]),
        (r"-c search_path=a,\ b\\c -c role=", [["search_path", r"a, b\c"], ["role", ""]]),
    ],
)
def test_settings_are_read_as_the_server_reads_them(options: str, settings: list[list[str]]) -> None:
    assert settings_of(options) == settings


@pytest.mark.parametrize(("options", "word"), [("-c", "-c"), ("-c work_mem", "-c"), ("-e", "-e"), ("-c a=1 x", "x")])
def test_what_is_no_setting_is_refused(options: str, word: str) -> None:
    with pytest.raises(LoadError, match=f"options='{options}' in the target's url asks for: '{word}' sets nothing"):
        settings_of(options)


def test_a_load_sets_what_the_url_does_and_then_its_own() -> None:
    there = Endpoint(
        protocol="postgresql", host="db", port=5432, user="u", database="d", password="p",
        options={"options": "-c search_path=app"},
    )  # fmt: skip
    assert access_of(there)["settings"] == [["search_path", "app"]]
    own = access_of(there, settings=[("synchronous_commit", "off")])
    assert own["settings"] == [["search_path", "app"], ["synchronous_commit", "off"]]


def test_statements_of_a_load_are_committed_whatever_the_server_does_for_others() -> None:
    there = Endpoint(protocol="mysql", host="db", port=3306, user="u", database="d", password="p")
    own = access_of(there, settings=[("unique_checks", "0")])
    assert own["settings"] == [["autocommit", "1"], ["unique_checks", "0"]]
