"""MysqlTarget: a MySQL or MariaDB server as a target; ties the parts of this folder together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.errors import ApplyError
from trimtab.host import most_open_files
from trimtab.records import Context, DataRights, Play
from trimtab.space import Config, Constraint, Knob, SafetyClass, Value
from trimtab.systems.base import Applied, KnobState, Own, Restarts, Snapshot, Undone, Vitals
from trimtab.systems.discovery import FoundServer
from trimtab.systems.gate import check_config
from trimtab.systems.memory import MemoryModel
from trimtab.systems.mysql import advice, doctor, grant, memory, preflight, vitals
from trimtab.systems.mysql.catalogue import Facts, curated_for, knob_states, require_changeable, selected_names
from trimtab.systems.mysql.change import Catalogue, set_config, take_snapshot
from trimtab.systems.mysql.counters import read_counters
from trimtab.systems.mysql.discover import discover, embedded
from trimtab.systems.mysql.embedded import EmbeddedReach
from trimtab.systems.mysql.flavour import Flavour, read_flavour
from trimtab.systems.mysql.fragment import fragment_text
from trimtab.systems.mysql.lock import TunerLock
from trimtab.systems.mysql.open_files import open_files_constraints
from trimtab.systems.mysql.overlay import load_overlay
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.remote import ConnectionReach, LocalReach
from trimtab.systems.mysql.replication import has_replica
from trimtab.systems.mysql.sentry import Sentry
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.settings import Settings, read_settings
from trimtab.systems.mysql.undo import take_back
from trimtab.systems.mysql.values import option_text
from trimtab.systems.mysql.variables import MARIADB_QUERY, MYSQL_QUERY, Variable, from_mariadb, from_mysql
from trimtab.systems.orders import check_orders
from trimtab.systems.overlay import Bounds
from trimtab.systems.plays import fitting_plays, play_facts, shipped_plays
from trimtab.systems.server import ServerTarget

__all__ = ["MysqlTarget"]


class MysqlTarget(ServerTarget[Settings, Reach]):
    """MySQL 8.0 to 8.4 and MariaDB 10.6 to 11: embedded, on this machine, or by connection alone. A `Target`.

    Attributes:
        name: of the table in the study file.
        kind: "mysql", whichever of the two products it is.
        settings: the table, checked.
        SETTINGS: its model, for the reference page.
    """

    kind = "mysql"
    SETTINGS = Settings

    def __init__(self, name: str, settings: Settings, state_dir: Path, reach: Reach | None = None) -> None:
        super().__init__(name, settings, reach if reach is not None else _reach(name, settings))
        self._sentry = Sentry(self._reach, lambda: self._catalogue)
        self._flavour: Flavour | None = None
        self._lock = TunerLock(self._lock_file(state_dir), lambda: self._reach.connect())

    @classmethod
    def from_settings(
        cls, name: str, settings: Mapping[str, Any], *, state_dir: Path, directory: Path | None = None
    ) -> MysqlTarget:
        """A target from its [target.NAME] table, whose paths are relative to `directory`; touches nothing.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(name, read_settings(name, settings, directory), state_dir)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, state_dir: Path) -> MysqlTarget:
        """The target that a journalled snapshot came from, ready for `restore`; needs neither study file nor `open`.

        The journal holds no password: it comes from MYSQL_PWD or an option file, or from the tuner (see `credentials`).
        """
        settings = read_settings(snapshot.target, snapshot.reach["settings"])
        reach: Reach
        if settings.embedded is not None:
            reach = EmbeddedReach(
                snapshot.target,
                settings.embedded,
                folder=Path(snapshot.reach["folder"]),
                immediate_stop=settings.immediate_stop is not False,
                memory_limit_bytes=settings.memory_limit_bytes,
            )
        else:
            reach = _running(settings, snapshot.reach.get("found"))
        return cls(snapshot.target, settings, state_dir, reach)

    @classmethod
    def found_servers(cls) -> Sequence[FoundServer]:
        """Those that run on this machine."""
        return discover()

    @classmethod
    def embedded_server(cls) -> FoundServer | None:
        """A private MariaDB; None when it is not installed."""
        return embedded()

    def _flavour_of(self, session: Session) -> Flavour:
        if self._flavour is None:
            self._flavour = read_flavour(str(session.value("SELECT VERSION()")))
        return self._flavour

    def _variables(self, session: Session) -> dict[str, Variable]:
        flavour = self._flavour_of(session)
        if flavour.product == "mariadb":
            return from_mariadb(session.execute(MARIADB_QUERY))
        return from_mysql(session.execute(MYSQL_QUERY), curated_for(flavour))

    def _look(self) -> tuple[dict[str, Variable], Facts]:
        with self._reach.connect() as session:
            variables = self._variables(session)
            grants = [str(row[0]) for row in session.execute("SHOW GRANTS")]
            facts = Facts(
                flavour=self._flavour_of(session),
                may_set=grant.may_set(grants),
                beyond_rights=grant.beyond_rights(self._flavour_of(session), grants),
                has_replica=has_replica(session),
                has_mapped_log="innodb_log_file_mmap" in variables and variables["innodb_log_file_mmap"].value is True,
            )
        return variables, facts

    @property
    def _catalogue(self) -> Catalogue:
        with self._reach.connect() as session:
            ours = frozenset(curated_for(self._flavour_of(session)))
        return Catalogue(self._variables, ours)

    def _bounds(self, variables: Mapping[str, Variable]) -> Bounds:
        return self._bounds_with(float(variables["max_connections"].value))

    def _version(self) -> str:
        with self._reach.connect() as session:
            return str(self._flavour_of(session))

    def states(self) -> Mapping[str, KnobState]:
        """Every knob of the live server, by name."""
        variables, facts = self._look()
        return knob_states(variables, facts, self._bounds(variables), self.settings, self._reach.no_restart)

    def selection(self, context: Context) -> tuple[str, ...]:
        """The knobs that the settings ask to tune; of a set only those that a workload like `context` can feel.

        Raises:
            UsageError: an unknown name, or one that is named and locked.
            TargetError: this user lets no knob be changed at all.
        """
        states = self.states()
        require_changeable(states)
        return selected_names(self.settings.knobs, states, reads_only=context.read_share == 1.0)

    def advise(self, context: Context) -> Config:
        """A rule-based config over the changeable knobs (see `advice`)."""
        variables, _ = self._look()
        return advice.advise(self.states(), context, self._bounds(variables), self.machine())

    def plays(self, context: Context, latency_s: float) -> tuple[Play, ...]:
        """What an expert would try here (see `trimtab.systems.plays`)."""
        facts = play_facts(context, self.machine(), self._bounds(self._look()[0]), latency_s=latency_s)
        overlay = load_overlay()
        locked = frozenset(n for n, knob in overlay.knob.items() if knob.safety is not SafetyClass.PERFORMANCE)
        return fitting_plays(shipped_plays("mysql", frozenset(overlay.knob), locked), self.states(), facts)

    def constraints(self, names: Sequence[str], context: Context) -> tuple[Constraint, ...]:
        """The memory budget, the orders and the open files over those of `names` that matter."""
        states, pid = self._states_as_found(), self._reach.pid
        with self._reach.connect() as session:
            product = self._flavour_of(session).product
        limit = most_open_files(pid) if pid is not None else None
        return (
            *memory.constraints(names, states, context, self.budget_bytes),
            *open_files_constraints(names, states, product, limit),
        )

    def memory(self, context: Context) -> MemoryModel:
        """What all connections share, and the buffers of each, over the values as found (see `memory`)."""
        model = memory.model(self._states_as_found(), context, self.budget_bytes)
        return replace(model, host=self.host_name)

    def preflight(self, config: Config) -> None:
        """Everything that can be known without changing anything.

        Raises:
            ApplyError: the config cannot work, with the reason.
        """
        states = self._states_as_found()
        check_config(config, states)
        check_orders(memory.ORDERS, config, states)
        preflight.check_memory(config, states, self.budget_bytes)
        preflight.check_disk(config, states, self._reach)
        preflight.check_start(config, states, self._reach)

    def snapshot(self) -> Snapshot:
        """The configuration as it is; later applies count from here.

        Raises:
            TargetError: a restart of ours would bring about changes of somebody else's.
        """
        can_restart = self.settings.allow_restart and not self._reach.no_restart
        found = take_snapshot(
            self.name, self.kind, self._reach, self._catalogue, self.settings.public(), can_restart=can_restart
        )
        self._base = replace(found, picture=self._sentry.begin())
        return self._base

    def _texts(self, knob: Knob, value: Value) -> tuple[str, ...]:
        return (option_text(value),)

    def _set(self, config: Config, states: Mapping[str, KnobState], base: Snapshot, *, stays: bool) -> Applied:
        return set_config(self._reach, self._catalogue, base, config, stays=stays)

    def _require_lasting(self) -> None:
        if self._reach.include_file is None:
            raise ApplyError(
                "the config cannot be made to stay: Trimtab has no option file on this server",
                hint="set include_file in the target's table, or put the printed settings into the server's own file",
            )

    def _take_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
        return take_back(self._reach, Catalogue(self._variables, frozenset(snapshot.values)), snapshot, own, restarts)

    @property
    def _own_files(self) -> Sequence[Path]:
        return [self._reach.include_file] if self._reach.include_file is not None else []

    def health(self) -> None:
        """A fresh login and a query.

        Raises:
            TargetError: the server does not answer.
        """
        with self._reach.connect() as session:
            session.execute("SELECT 1")

    def notes(self) -> tuple[str, ...]:
        """What `recover` could not do later; a set of knobs leaves out what a server does not have, without a word."""
        return self._login_notes("~/.my.cnf")

    def fragment(self, config: Config) -> str:
        """`config` as text for an option file."""
        return fragment_text(config, self._states_as_found())

    def counters(self) -> Mapping[str, float]:
        """What the server has counted of its own work since its start."""
        with self._reach.connect() as session:
            return read_counters(session)

    def vitals(self) -> Vitals:
        """What server and machine use now; see `Watchable`."""
        return vitals.read_vitals(self._reach, self.settings.memory)

    def data_bytes(self) -> int | None:
        """What the server occupies on its volume."""
        return vitals.data_bytes(self._reach)

    def unwatch(self) -> None:
        """Nothing is kept open."""

    def grant_sql(self, context: Context, rights: DataRights | None, *, role: str) -> tuple[str, bool]:
        """The user that tuning needs, as SQL for an administrator; see `GrantingTarget`."""
        variables, facts = self._look()
        allowed = replace(facts, may_set=True, beyond_rights=frozenset())
        states = knob_states(variables, allowed, self._bounds(variables), self.settings, self._reach.no_restart)
        names = selected_names(self.settings.knobs, states, reads_only=context.read_share == 1.0)
        user = role or (self._reach.endpoint().user if not facts.may_set else grant.DEFAULT_USER)
        return grant.grant_text(facts.flavour, len(names), rights, user)

    def doctor(self) -> Sequence[tuple[str, bool, str]]:
        """(check, is_fine, explanation) lines; changes nothing."""
        _, facts = self._look()
        return doctor.examine(self._reach, self.settings, self.states(), facts, self.budget_bytes, self.limits)


def _reach(name: str, settings: Settings) -> Reach:
    if settings.embedded is not None:
        limit, is_immediate = settings.memory_limit_bytes, settings.immediate_stop is not False
        return EmbeddedReach(name, settings.embedded, memory_limit_bytes=limit, immediate_stop=is_immediate)
    return _running(settings, None)


def _running(settings: Settings, found: Mapping[str, Any] | None) -> Reach:
    reach = LocalReach(settings) if settings.include_file is not None else ConnectionReach(settings)
    reach.recall(found or {})
    return reach
