"""Our library among those that the server's sessions load: set for good by a person's command, or for a study's trials."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trimtab.errors import TargetError
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.session import StatementError

__all__ = ["HINT", "Preload", "literal", "preload_of"]

HINT = "see docs/how-to/tune-inside-postgresql.md"
_SHARES_LATE = 17
"""From this version on sessions share what they learn without the server's start."""
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_IN_FILES = "SELECT setting FROM pg_file_settings WHERE name = '{}' AND error IS NULL ORDER BY seqno DESC LIMIT 1"


def literal(text: str) -> str:
    """`text` in a statement."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Preload:
    """A setting with our library at its end.

    Attributes:
        name: of the setting.
        libraries: that it names, ours the last.
    """

    name: str
    libraries: tuple[str, ...]

    @property
    def is_late(self) -> bool:
        """Whether only a restart brings it into force."""
        return self.name == "shared_preload_libraries"

    @property
    def text(self) -> str:
        """As the server writes it."""
        return ", ".join(each if _PLAIN.fullmatch(each) else f'"{each}"' for each in self.libraries)

    def set(self, connection: Connection) -> bool:
        """By ALTER SYSTEM, where the files do not say so yet; whether they did not."""
        if connection.rows(_IN_FILES.format(self.name)) == [(self.text,)]:
            return False
        connection.rows(f"ALTER SYSTEM SET {self.name} = {', '.join(map(literal, self.libraries))}")
        return True


def preload_of(connection: Connection, library: str) -> Preload:
    """What has new sessions load `library`, or where only that shares knowledge the next start of the server.

    It is loaded once, into this session: one that cannot be loaded would keep every session out, or the server from starting.

    Raises:
        TargetError: it cannot be loaded, or this user may not.
    """
    try:
        connection.rows(f"LOAD {literal(library)}")
        is_late = connection.info.server_version < _SHARES_LATE * 10000
        name = "shared_preload_libraries" if is_late else "session_preload_libraries"
        found = connection.value(f"SELECT coalesce(({_IN_FILES.format(name)}), current_setting('{name}'))")
    except StatementError as error:
        raise TargetError(
            f"the extension cannot be loaded: {error.message}", hint=f"a superuser may; {HINT}"
        ) from error
    names = [each.strip().strip('"') for each in str(found).split(",") if each.strip()]
    return Preload(name, (*names, *(() if library in names else (library,))))
