"""A ring of private Cassandra nodes for tests: one on each of several loopback addresses, small, and made of the files that the
catalogue has for a private node."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.fetch_servers import PROGRAMS
from tests.servers.run import free_port, made
from trimtab import plugins
from trimtab._native import Cql, CqlConsole
from trimtab.records import Endpoint
from trimtab.systems.account import server_account
from trimtab.systems.placeholder import filled
from trimtab.systems.programs import find_program

__all__ = ["CassandraNode", "CassandraRing", "cassandra_ring"]

_VERSION = "5.0"
_PATIENCE_S = 300.0
"""On a machine that does much else."""
_POLL_S = 0.2
_SMALL = {
    "512m": "256m",
    "-XX:+UseG1GC": "-XX:+UseSerialGC\n-XX:TieredStopAtLevel=1",
}
_PATIENT = """
read_request_timeout: 10000ms
write_request_timeout: 20000ms
request_timeout: 20000ms
"""
"""What a cold node on a busy machine takes is not what these tests are about."""


@dataclass
class CassandraNode:
    """One node.

    Attributes:
        address: of its machine, as it takes this one to be.
        port: for clients, the same on all addresses.
        folder: of everything.
        names: what {NAME}s of the catalogue's texts are.
    """

    address: str
    port: int
    folder: Path
    names: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        """Does not wait until it serves."""
        table = plugins.load("targets", "cassandra").catalogue().embedded[_VERSION]
        argv = filled(table.lifecycle.run, self.names).split()
        account = server_account()
        other = {} if account.is_me else {"user": account.uid, "group": account.gid, "extra_groups": []}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                argv, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **other
            )

    def kill(self) -> None:
        """At once, as a machine does that loses its power."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def rows(self, statement: str, consistency: str = "ONE") -> list[list[str | None]]:
        """What it answers to a statement of which it need not ask others at ONE."""
        driver = Cql(host=self.address, port=self.port, settings=[("consistency", consistency)])
        console = CqlConsole(driver, timeout_s=30.0)
        try:
            return console.rows(statement, timeout_s=60.0)
        finally:
            console.close()

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Until `is_so`; shows its log when it ends or takes too long. A node that does not answer yet is none of both."""
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until and self.process is not None and self.process.poll() is None:
            with suppress(OSError, ValueError):
                if is_so():
                    return
            time.sleep(_POLL_S)
        raise RuntimeError(f"{self.address}: {(self.folder / 'log').read_text(errors='replace')[-5000:]}")

    def n_asked(self, keyspace: str, what: str) -> int:
        """How often it has done that ("coordinator_read", "local_write" and so on) for YCSB's table of a keyspace."""
        for found, table, count in self.rows(
            f'SELECT keyspace_name, table_name, "count" FROM system_views.{what}_latency'
        ):
            if (found, table) == (keyspace, "usertable"):
                return int(count or 0)
        return 0


@dataclass(frozen=True)
class CassandraRing:
    """Nodes that know each other; each has an equal part of the tokens."""

    nodes: Sequence[CassandraNode]

    @property
    def endpoint(self) -> Endpoint:
        """Of the first node."""
        return Endpoint(protocol="cql", host=self.nodes[0].address, port=self.nodes[0].port, user="", database="")

    def wait_whole(self) -> None:
        """Until each node serves, knows where all others serve, and writes to all."""
        for node in self.nodes:
            node.wait(partial(self._is_known_to, node))
        copies = f"{{'class': 'SimpleStrategy', 'replication_factor': {len(self.nodes)}}}"
        self.nodes[0].rows(f"CREATE KEYSPACE whole WITH replication = {copies}")
        self.nodes[0].rows("CREATE TABLE whole.t (k int PRIMARY KEY)")
        for node in self.nodes:
            node.wait(partial(_writes_to_all, node))

    def _is_known_to(self, node: CassandraNode) -> bool:
        others = node.rows("SELECT native_address, tokens FROM system.peers_v2")
        return sum(None not in row for row in others) == len(self.nodes) - 1


def _writes_to_all(node: CassandraNode) -> bool:
    node.rows("INSERT INTO whole.t (k) VALUES (1)", "ALL")
    return True


@contextmanager
def cassandra_ring(n_nodes: int = 3) -> Iterator[CassandraRing]:
    """So many nodes, started at the same time; they are gone at the end, with their folder."""
    with made("ring") as home, ExitStack() as running:
        addresses = [f"127.0.0.{number + 1}" for number in range(n_nodes)]
        ports = {"port": str(free_port(addresses)), "port.storage": str(free_port(addresses))}
        nodes = []
        for number, address in enumerate(addresses):
            nodes.append(_node(home / str(number), address, ",".join(addresses), _tokens(number, n_nodes), ports))
            running.callback(nodes[-1].kill)
            nodes[-1].start()
        ring = CassandraRing(nodes)
        ring.wait_whole()
        yield ring


def _tokens(number: int, n_nodes: int) -> str:
    """Two of a node, in equal distances from those of the others."""
    step = (1 << 64) // (2 * n_nodes)
    return ",".join(str(step * (place + 1) - (1 << 63) - 1) for place in (number, number + n_nodes))


def _node(folder: Path, address: str, seeds: str, tokens: str, ports: Mapping[str, str]) -> CassandraNode:
    table = plugins.load("targets", "cassandra").catalogue().embedded[_VERSION]
    account = server_account()
    programs = {name: find_program(name, package) for name, package in table.needs.items()}
    root = str(PROGRAMS / f"cassandra-{_VERSION}")
    names = {"folder": str(folder), "root": root, "compilers": "1", **ports, **programs}
    for inside in ("", *table.folders):
        (folder / inside).mkdir(mode=0o755)
        os.chown(folder / inside, account.uid, account.gid)
    changed = {
        "listen_address": address,
        "rpc_address": address,
        "num_tokens": "2",
        "initial_token": tokens,
        "commitlog_total_space": "128MiB",
    }
    for name, text in {**table.files, **table.first_files}.items():
        text = filled(text, names)
        if name.endswith(".yaml"):
            for key, value in changed.items():
                text, n_changed = re.subn(rf"(?m)^{key}: .*$", f"{key}: {value}", text)
                assert n_changed == 1, key
            text = re.sub(r'- seeds: ".*"', f'- seeds: "{seeds}"', text) + _PATIENT
        for old, new in _SMALL.items() if name.endswith(".options") else ():
            assert old in text
            text = text.replace(old, new)
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    return CassandraNode(address, int(ports["port"]), folder, names)
