"""What locks the variables of a MySQL or MariaDB server, beside what the catalogue says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.systems.knobs import Reading, Sight
from trimtab.systems.mysql.flavour import Flavour
from trimtab.systems.server_catalog import ServerKnob, server_catalog

__all__ = ["CATALOG", "Facts", "curated_for"]

CATALOG = server_catalog("mysql")


def curated_for(flavour: Flavour) -> Mapping[str, ServerKnob]:
    """The catalogue's knobs that servers of that flavour have."""
    return CATALOG.known(product=flavour.product)


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides whether knobs may be changed, beside their readings.

    Attributes:
        flavour: product and version.
        may_set: whether this user may use SET GLOBAL.
        has_replica: whether another server replicates from this one, or this one from another.
        beyond_rights: knobs that this user may not set although it may use SET GLOBAL.
        persisted: variables that SET PERSIST gives a value at the next start, whatever is in use now.
        has_mapped_log: whether the redo log is mapped into memory (persistent memory, tmpfs), so that it has no buffer.
        unseen: rights without which this user cannot see all of those servers.
        no_restart: why its cluster keeps it from being restarted; "" when none does.
    """

    flavour: Flavour
    may_set: bool
    has_replica: bool
    has_mapped_log: bool = False
    beyond_rights: frozenset[str] = frozenset()
    persisted: frozenset[str] = frozenset()
    unseen: tuple[str, ...] = ()
    no_restart: str = ""

    @property
    def is_admin(self) -> bool:
        """Whether this user may change any knob."""
        return self.may_set

    def with_rights(self) -> Facts:
        """The same, for a user who may do what tuning needs."""
        return replace(self, may_set=True, beyond_rights=frozenset())

    def sight(self, readings: Mapping[str, Reading]) -> Sight:
        """What the server shows, with the locks that follow from these facts."""
        return Sight(
            readings=readings,
            curated=curated_for(self.flavour),
            useless=self._useless,
            denied=self._denied,
            product=self.flavour.product,
        )

    def _useless(self, reading: Reading) -> str:
        is_mapped = reading.name == "innodb_log_buffer_size" and self.has_mapped_log
        return "has no effect: the redo log is mapped into memory" if is_mapped else ""

    def _denied(self, reading: Reading) -> str:
        if reading.name in self.persisted:
            return CATALOG.pinned[CATALOG.sources["PERSISTED"]]
        if reading.is_late:
            return self.no_restart
        if not self.may_set:
            return CATALOG.denied["no_right"].reason
        return CATALOG.denied["no_further_right"].reason if reading.name in self.beyond_rights else ""
