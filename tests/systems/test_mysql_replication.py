"""Whether another server takes part, asked in the words that each version knows."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pymysql.constants import CR

from tests.systems.mysql_shapes import ANSWERS, ScriptedSession
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql.catalogue import Facts
from trimtab.systems.mysql.flavour import read_flavour
from trimtab.systems.mysql.replication import bound_by, has_replica, is_replica, unseen
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.target import _shared
from trimtab.systems.session import StatementError


def session(version: str, **changed: Any) -> Session:
    answers = {name: changed.get(name.split()[0].lower(), rows) for name, rows in ANSWERS[version].items()}
    return cast(Session, ScriptedSession(version, answers))


@pytest.mark.parametrize("version", ANSWERS)
def test_a_replica_is_known_by_every_version(version: str) -> None:
    assert is_replica(session(version))
    assert has_replica(session(version))
    assert not is_replica(session(version, show=[]))
    assert not has_replica(session(version, show=[]))


@pytest.mark.parametrize("version", ANSWERS)
def test_a_source_is_known_by_who_reads_its_log(version: str) -> None:
    source = session(version, show=[], select=[(1,)])
    assert has_replica(source)
    assert not is_replica(source)


def test_who_may_not_ask_for_the_one_still_sees_the_other() -> None:
    answers = {name: [(1,)] for name in ANSWERS["8.4.3"] if name.startswith("SELECT")}
    refused = cast(Session, ScriptedSession("8.4.3", answers))
    assert not is_replica(refused)
    assert has_replica(refused)


ONE_RIGHT = ["GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO `tuner`@`%`"]
ALL = ["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"]


@pytest.mark.parametrize(
    ("version", "grants", "may_ask", "lacking"),
    [
        ("8.4.3", ONE_RIGHT, False, ("REPLICATION CLIENT", "PROCESS")),
        ("8.4.3", ["GRANT PROCESS, REPLICATION CLIENT ON *.* TO `tuner`@`%`", *ONE_RIGHT], True, ()),
        ("8.0.21", ["GRANT REPLICATION CLIENT ON *.* TO `tuner`@`%`", *ONE_RIGHT], True, ("PROCESS",)),
        ("8.0.36", ALL, True, ()),
        ("8.0.36", ["GRANT ALL PRIVILEGES ON `shop`.* TO `tuner`@`%`"], True, ("PROCESS",)),
        ("10.6.16-MariaDB", ["GRANT SUPER, PROCESS ON *.* TO `tuner`@`%`"], False, ("REPLICA MONITOR",)),
        ("11.8.2-MariaDB-ubu2404", ALL, True, ()),
    ],
)
def test_what_a_user_may_not_see_of_replication_is_known(
    version: str, grants: list[str], may_ask: bool, lacking: tuple[str, ...]
) -> None:
    known: Any = {name: [] for name in ANSWERS[version] if may_ask or name.startswith("SELECT")}
    assert unseen(cast(Session, ScriptedSession(version, known)), grants) == lacking


def test_the_doctor_does_not_say_none_of_what_it_may_not_see() -> None:
    def told(**facts: Any) -> str:
        return _shared(Facts(read_flavour("8.4.3"), may_set=True, **facts))

    assert told(has_replica=False) == "none"
    lacking = ("REPLICATION CLIENT", "PROCESS")
    assert told(has_replica=True, unseen=lacking) == "replicates from or to another server"
    assert told(has_replica=False, unseen=lacking) == (
        "none that this user sees; without REPLICATION CLIENT and PROCESS it does not see all (`trimtab doctor --grant-sql`)"
    )


def test_a_lost_connection_says_nothing_about_replicas() -> None:
    class Lost(ScriptedSession):
        def rows(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
            if statement.startswith("SHOW"):
                raise StatementError(
                    "Lost connection to MySQL server during query", code=CR.CR_SERVER_LOST, is_lost=True
                )
            return super().rows(statement)

    with pytest.raises(StatementError, match="Lost connection"):
        has_replica(cast(Session, Lost("8.4.3", {})))
    with pytest.raises(StatementError, match="Lost connection"):
        unseen(cast(Session, Lost("8.4.3", {})), ONE_RIGHT)


def test_only_old_servers_are_asked_in_the_old_words() -> None:
    assert read_flavour("8.0.21").replica_status == "SHOW SLAVE STATUS"
    assert read_flavour("8.0.22").replica_status == "SHOW REPLICA STATUS"
    assert read_flavour("10.6.0-MariaDB").replica_status == "SHOW ALL REPLICAS STATUS"


@pytest.mark.parametrize(("n_nodes", "takes_part"), [("0", False), ("1", False), ("3", True)])
def test_the_other_nodes_of_a_cluster_take_part(n_nodes: str, takes_part: bool) -> None:
    node: Any = dict.fromkeys(ANSWERS["10.6.16-MariaDB"], ())
    node["SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'"] = [("wsrep_cluster_size", n_nodes)]
    assert has_replica(cast(Session, ScriptedSession("10.6.16-MariaDB", node))) is takes_part


@pytest.mark.parametrize(
    ("told", "nodes", "bound"),
    [
        ({"wsrep_cluster_address": "gcomm://10.0.0.1,10.0.0.2"}, [("wsrep_cluster_size", "1")], "last_node"),
        ({"wsrep_cluster_address": "gcomm://10.0.0.1,10.0.0.2"}, [("wsrep_cluster_size", "2")], ""),
        ({"wsrep_cluster_address": "gcomm://?gmcast.segment=1"}, [("wsrep_cluster_size", "1")], ""),
        ({"wsrep_cluster_address": "gcomm://"}, [("wsrep_cluster_size", "3")], "would_split"),
        ({"wsrep_cluster_address": ""}, [("wsrep_cluster_size", "0")], ""),
        ({"group_replication_group_name": "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"}, [], "in_group"),
        ({"group_replication_group_name": ""}, [], ""),
        ({}, [], ""),
    ],
)
def test_a_server_that_its_cluster_needs_up_is_not_restarted(told: dict[str, str], nodes: Any, bound: str) -> None:
    """The last node of a Galera cluster ends at once when it is started without bootstrapping; one whose address names no other
    makes a cluster of its own, or ends because it was not the last to leave."""
    asked = cast(Session, ScriptedSession("8.0.36", {"SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'": nodes}))
    assert bound_by(asked, {n: Reading(name=n, text=text, kind="text") for n, text in told.items()}) == bound
