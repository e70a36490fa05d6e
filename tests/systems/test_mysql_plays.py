"""The plays of MySQL and MariaDB on servers that have been tuned before."""

from __future__ import annotations

import pytest

from tests.systems.test_mysql_catalogue import BOUNDS, mysql_states
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.plays import fitting_plays, shipped_plays
from trimtab.systems.rules import advised, memory_of

FACTS = {
    **BOUNDS, "clients": 32.0, "read_share": 0.5, "analytic": 0.0, "ssd": 1.0, "hdd": 0.0, "version": 800.0, "mariadb": 0.0,
}  # fmt: skip
PLAYS = shipped_plays("mysql", frozenset(CATALOG.knob), frozenset()).play


def test_a_play_that_asks_for_more_takes_nothing_away() -> None:
    """As from a redo log of 8 GiB, to make it "larger"."""
    found = mysql_states(BOUNDS, innodb_redo_log_capacity=8 << 30, innodb_buffer_pool_size=700 << 20)
    more = {play.name: play.settings for play in fitting_plays(PLAYS, found, FACTS)}
    assert more["large_redo_log_mysql"] == {"innodb_redo_log_capacity": 8 << 30}
    assert more["most_to_the_buffer_pool"] == more["half_to_the_buffer_pool"] == {"innodb_buffer_pool_size": 700 << 20}
    installed = {play.name: play.settings for play in fitting_plays(PLAYS, mysql_states(), FACTS)}
    assert installed["large_redo_log_mysql"] == {"innodb_redo_log_capacity": 4 << 30}


@pytest.mark.parametrize(("version", "mariadb", "fits"), [(800, 0, True), (804, 0, False), (1011, 1, True)])
def test_an_ssd_is_not_told_to_write_less_than_the_server_lets_it(version: int, mariadb: int, fits: bool) -> None:
    """MySQL 8.4 has 10,000 operations a second as installed, where others have 200."""
    facts = {**FACTS, "version": float(version), "mariadb": float(mariadb)}
    assert PLAYS["ssd_flushing"].fits(facts) is fits


@pytest.mark.parametrize(("running", "advice"), [(200, 2000), (10_000, 10_000)])
def test_advice_for_an_ssd_takes_no_operations_away(running: int, advice: int) -> None:
    found = mysql_states(BOUNDS, innodb_io_capacity=running)
    config = advised(CATALOG, found, FACTS, memory_of(CATALOG, found, FACTS, budget_bytes=4 << 30))
    assert config["innodb_io_capacity"] == advice
