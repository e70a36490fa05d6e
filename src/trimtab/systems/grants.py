"""The statements that make a role or user with the rights of a study, from the texts of a catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.records import DataRights
from trimtab.space.condition import is_true
from trimtab.systems.server_catalog import GrantText
from trimtab.units import Dimension

__all__ = ["DEFAULT_ROLE", "granted"]

DEFAULT_ROLE = "trimtab"


def granted(
    texts: Sequence[GrantText], rights: DataRights | None, facts: Mapping[str, float], words: Mapping[str, str]
) -> str:
    """The texts whose condition holds, filled in; ends with a newline.

    Args:
        texts: of the catalogue.
        rights: what the workload does with data; None when it cannot say.
        facts: of the server, for the conditions; those about the data are added: unknown, makes_databases, is_users_own and
            reads_only, 1 or 0.
        words: quoted names for the texts; {verbs} and {does}, for what is done with the user's tables, are added.
    """
    reads = rights is not None and rights.reads_only
    known = {
        **facts,
        "unknown": float(rights is None),
        "makes_databases": float(rights is not None and rights.makes_databases),
        "is_users_own": float(rights is not None and rights.is_users_own),
        "reads_only": float(reads),
    }
    said = {
        **words,
        "verbs": "SELECT" if reads else "SELECT, INSERT, UPDATE, DELETE",
        "does": "reads" if reads else "reads and writes",
    }
    dimensions = dict.fromkeys(known, Dimension.NUMBER)
    lines = [each.text.format_map(said) for each in texts if not each.when or is_true(each.when, known, dimensions)]
    return "\n".join(lines) + "\n"
