"""One PostgreSQL of a cluster behind a load balancer, as a client of a session: each server tries another config under live load.

    python member.py db1 'host=db1 user=postgres dbname=app' &      # beside each server, or all of them from one machine

The figure is the server's own: milliseconds of work per transaction, counted in pg_stat_database while the balancer goes on
sending it its share. Servers that differ are compared by runs of the common baseline (layer `machines`). Nothing needs a restart.
At the end, and when it is stopped (Ctrl-C, `kill`, a closed terminal), the three settings are reset (ALTER SYSTEM RESET): the
values of postgresql.conf apply again, and what was set by ALTER SYSTEM before is lost. With --apply a server keeps a winner that
was proven.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from typing import Any

import psycopg

from trimtab.client import Point, Server, integer, real

KNOBS = [
    integer("work_mem", 1024, 262_144, default=4096, log=True, unit="kB"),
    real("random_page_cost", 1.0, 4.0, step=0.1, default=4.0),
    integer("jit_above_cost", 1000, 1_000_000, default=100_000, log=True),
]
LONGEST_S = 600.0
"""After which a run without enough transactions is given up."""
RELOAD_S = 10.0
"""In which a new session has the values of a reload, unless its role or database has values of its own."""


class OverriddenError(Exception):
    """New sessions do not have the server's values."""


def connected(dsn: str) -> psycopg.Connection[Any]:
    """A connection of its own, which sees the values in force for new sessions."""
    return psycopg.connect(dsn, autocommit=True, application_name="member")


def set_values(dsn: str, config: dict[str, Any] | None) -> None:
    """Sets the values for the whole server (None: those of postgresql.conf), and waits until new sessions have them.

    Raises:
        OverriddenError: they have others; the server's are reset.
    """
    with connected(dsn) as connection:
        for name in ("work_mem", "random_page_cost", "jit_above_cost"):
            to = f"SET {name} = '{config[name]}'" if config else f"RESET {name}"
            connection.execute(f"ALTER SYSTEM {to}".encode())
        connection.execute("SELECT pg_reload_conf()")
    until = time.monotonic() + RELOAD_S
    while config and (others := differing(dsn, config)):
        if time.monotonic() > until:
            set_values(dsn, None)
            raise OverriddenError(
                f"this role or database has values of its own, which the server's do not change: {others}"
            )
        time.sleep(0.05)


def differing(dsn: str, config: dict[str, Any]) -> str:
    """What a new session has in place of these values; "" when it has them all."""
    with connected(dsn) as connection:
        rows = connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(config)]
        ).fetchall()
    return ", ".join(f"{name}={setting}" for name, setting in rows if float(setting) != float(config[name]))


def counted(connection: psycopg.Connection[Any]) -> tuple[int, float]:
    """Transactions, and milliseconds spent in statements, since the server counts; both grow about once a second."""
    row = connection.execute(
        "SELECT xact_commit, active_time FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def cost(dsn: str, least: int, window_s: float) -> float | None:
    """Milliseconds per transaction over `window_s` and `least` transactions; None when the balancer sends none."""
    with connected(dsn) as connection:
        began, (n_before, ms_before) = time.monotonic(), counted(connection)
        while (spent_s := time.monotonic() - began) < LONGEST_S:
            time.sleep(0.2)
            n, ms = counted(connection)
            if n - n_before >= least and ms > ms_before and spent_s >= window_s:
                return (ms - ms_before) / (n - n_before)
    return None


def measure(point: Point, asked: argparse.Namespace) -> None:
    """Sets one config, measures it and reports."""
    try:
        set_values(asked.dsn, point.config)
        found = cost(asked.dsn, asked.least, asked.window)
    except psycopg.Error as error:
        point.fail(str(error))
        return
    except OverriddenError as error:
        point.fail(str(error), "infrastructure")
        return
    if found is None:
        point.fail("the balancer sends no transactions", "infrastructure")
    else:
        point.report(found)


def main() -> None:
    """Joins, measures until the session ends, and puts the server back."""
    parser = argparse.ArgumentParser(description="One PostgreSQL of a cluster as a client of a session.")
    parser.add_argument("name", help="of this server, for people")
    parser.add_argument("dsn", help="of a superuser, in the database that the users use")
    parser.add_argument("--session", default="cluster")
    parser.add_argument("--clients", type=int, default=3, help="how many servers there are")
    parser.add_argument("--budget", default="40 trials")
    parser.add_argument("--window", type=float, default=20.0, help="seconds of one run")
    parser.add_argument("--least", type=int, default=500, help="transactions of one run")
    parser.add_argument("--no-proof", action="store_true")
    parser.add_argument("--apply", action="store_true", help="leave the proven winner on the server")
    asked = parser.parse_args()
    # One in the background hears no Ctrl-C: what ends it resets its server, too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda *_: sys.exit(1))
    layers = [{"kind": "machines", "options": {"times": 2, "every": 8}}]
    wanted = {"budget": asked.budget, "clients": asked.clients, "layers": layers, "proof": not asked.no_proof}
    is_winner = False
    with Server() as server:
        session = server.session(asked.session, KNOBS, client=asked.name, **wanted)
        try:
            for point in session:
                measure(point, asked)
            is_winner = asked.apply and session.result == "better"
            print(f"{asked.name}: {session.result}: {session.best}")
        finally:
            set_values(asked.dsn, session.best.config if is_winner else None)


if __name__ == "__main__":
    main()
