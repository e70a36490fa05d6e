"""MysqlTarget: a MySQL or MariaDB server as a target; ties the parts of this folder together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trimtab.errors import TargetError
from trimtab.records import Context, DataRights
from trimtab.space import Config
from trimtab.systems.base import KnobState
from trimtab.systems.database import DatabaseSystem
from trimtab.systems.doctor import Line
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql import grant, preflight
from trimtab.systems.mysql.catalogue import CATALOG, Facts, curated_for
from trimtab.systems.mysql.change import OptionFile
from trimtab.systems.mysql.embedded import EmbeddedReach
from trimtab.systems.mysql.flavour import Flavour, read_flavour
from trimtab.systems.mysql.foreign import take_picture
from trimtab.systems.mysql.pending import trouble
from trimtab.systems.mysql.persisted import read_persisted
from trimtab.systems.mysql.pool import MEMORY_FACTS, with_live_range
from trimtab.systems.mysql.program import find_server
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.remote import ConnectionReach, LocalReach
from trimtab.systems.mysql.replication import bound_by, has_replica, unseen
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.settings import Settings
from trimtab.systems.mysql.variables import from_mariadb, from_mysql, persisted_text
from trimtab.systems.picture import Picture
from trimtab.systems.ways import Ways

__all__ = ["MysqlTarget"]


_LEFT_OUT = "left out, because connections that are open keep the value that they began with: {}"
_NAMED = "only connections that begin later take these, and those of a pool keep them, after the undo too: {}"


class MysqlTarget(DatabaseSystem[Settings, Reach]):
    """MySQL 8.0 to 8.4 and MariaDB 10.6 to 11: embedded, on this machine, or by connection alone. A `Target`.

    Attributes:
        name: of the table in the study file.
        kind: "mysql", whichever of the two products it is.
        settings: the table, checked.
        SETTINGS: its model, for the reference page.
    """

    kind = "mysql"
    _flavour: Flavour | None = None
    _sessions: tuple[str, ...] = ()
    catalog = CATALOG
    PASSWORD_FILE = "~/.my.cnf"
    FRAGMENT_HEAD = ("[mysqld]",)
    SETTINGS = Settings
    WAYS = Ways(embedded=EmbeddedReach, local=LocalReach, connection=ConnectionReach, files="include_file")

    def _make_channel(self) -> OptionFile:
        return OptionFile(self._reach, self._variables, self._ours, self.settings.restart_timeout_s)

    @classmethod
    def has_program(cls, which: str) -> bool:
        """Whether that product's server is installed."""
        try:
            find_server(which)
        except TargetError:
            return False
        return True

    def _flavour_of(self, session: Session) -> Flavour:
        if self._flavour is None:
            self._flavour = read_flavour(str(session.value("SELECT VERSION()")))
        return self._flavour

    def _variables(self, session: Session) -> dict[str, Reading]:
        flavour = self._flavour_of(session)
        rows = session.rows(CATALOG.sql[f"{flavour.product}_variables"])
        if flavour.product == "mariadb":
            return from_mariadb(rows)
        return from_mysql(rows, curated_for(flavour), read_persisted(session))

    def _look(self) -> tuple[dict[str, Reading], Facts]:
        with self._reach.connect() as session:
            variables = self._variables(session)
            grants, bound = [str(row[0]) for row in session.rows("SHOW GRANTS")], bound_by(session, variables)
            facts = Facts(
                flavour=self._flavour_of(session),
                may_set=grant.may_set(grants),
                beyond_rights=grant.beyond_rights(self._flavour_of(session), grants),
                has_replica=has_replica(session),
                unseen=unseen(session, grants),
                has_mapped_log="innodb_log_file_mmap" in variables and variables["innodb_log_file_mmap"].value is True,
                persisted=frozenset(n for n, variable in variables.items() if persisted_text(variable) is not None),
                no_restart=CATALOG.denied[bound].reason if bound else "",
            )
        return variables, facts

    def _states_of(self, readings: Mapping[str, Reading], facts: Any) -> Mapping[str, KnobState]:
        can_restart = self._can_restart and not facts.no_restart
        return with_live_range(super()._states_of(readings, facts), readings, can_restart=can_restart)

    def _memory_facts(self) -> Mapping[str, float]:
        return MEMORY_FACTS

    def _ours(self, session: Session) -> frozenset[str]:
        return frozenset(curated_for(self._flavour_of(session)))

    def selection(self, context: Context) -> tuple[str, ...]:
        """See `Catalogued`; of sets, under an application's own sessions, without what these would not take (see `notes`)."""
        names = super().selection(context)
        if not context.has_lasting_sessions:
            self._sessions = ()
            return names
        left_out = [n for n in super().selection(replace(context, features={})) if n not in names]
        named = [name for name in names if CATALOG.knob[name].per_session]
        texts = ((_LEFT_OUT, left_out), (_NAMED, named))
        self._sessions = tuple(text.format(", ".join(each)) for text, each in texts if each)
        return names

    def _unfelt(self, context: Context) -> Collection[str]:
        names = (name for name, knob in CATALOG.knob.items() if knob.per_session)
        return frozenset(names) if context.has_lasting_sessions else ()

    def notes(self) -> tuple[str, ...]:
        """See `DatabaseSystem`; and what an application's open connections would not take."""
        return (*super().notes(), *self._sessions)

    def _picture(self) -> Picture:
        return take_picture(self._reach, self._variables, self._ours)

    def _version(self) -> str:
        with self._reach.connect() as session:
            return str(self._flavour_of(session))

    def _product(self) -> str:
        if self._flavour is None:
            with self._reach.connect() as session:
                return self._flavour_of(session).product
        return self._flavour.product

    def _check(self, config: Config, states: Mapping[str, KnobState]) -> None:
        super()._check(config, states)
        preflight.check_start(config, states, self._reach)

    def _granted(self, facts: Facts, names: Sequence[str], rights: DataRights | None, role: str) -> tuple[str, bool]:
        with self._reach.connect() as session:
            _, _, host = str(session.value("SELECT USER()")).rpartition("@")
        return grant.grant_text(facts.flavour, len(names), rights, role, host=host), True

    def _server_lines(self, states: Mapping[str, KnobState]) -> list[Line]:
        reach, (variables, facts) = self._reach, self._look()
        with reach.connect() as session:
            found = trouble(session, reach, variables, self._ours(session)) if self._can_restart else None
            user = session.value("SELECT CURRENT_USER()")
            is_read_only = bool(session.value("SELECT @@GLOBAL.read_only"))
        role = "read-only, perhaps a replica: tune its primary" if is_read_only else "takes writes"
        rights = "may use SET GLOBAL" if facts.may_set else "may not use SET GLOBAL: see the locked knobs"
        files = f"Trimtab's own option file {reach.include_file}"
        lost = "no include_file: changes are lost at the server's next restart"
        shared = facts.no_restart or _shared(facts)
        settled = "nothing waits for a restart" if self._can_restart else "Trimtab makes no restart here"
        return [
            ("server", True, f"{facts.flavour} at {reach.endpoint()}"),
            ("role", not is_read_only, role),
            ("replication", True, shared),
            ("rights", facts.may_set, f"user {user} {rights}"),
            ("files", True, lost if reach.include_file is None else files),
            ("pending", found is None, settled if found is None else "; ".join(found)),
        ]


def _shared(facts: Facts) -> str:
    """Which servers take part, as far as this user sees them."""
    if facts.has_replica:
        return "replicates from or to another server"
    if facts.unseen:
        lacking = " and ".join(facts.unseen)
        return f"none that this user sees; without {lacking} it does not see all (`trimtab doctor --grant-sql`)"
    return "none"
