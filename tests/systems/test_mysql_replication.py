"""Whether another server takes part, asked in the words that each version knows."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pymysql.constants import CR

from tests.systems.mysql_shapes import ANSWERS, ScriptedSession
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql.flavour import read_flavour
from trimtab.systems.mysql.replication import bound_by, has_replica, is_replica
from trimtab.systems.mysql.session import Session
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
