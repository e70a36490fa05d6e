"""Puts the application of a workload into the study's application server, when that is a private one of ours."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.records import Endpoint
from trimtab.systems import Target, Tier
from trimtab.systems.catalog_system import CatalogSystem
from trimtab.systems.database import DatabaseSystem
from trimtab.systems.private_files import keep_file
from trimtab.workload import DeployedWorkload, Workload

__all__ = ["with_application"]

_NAME = "applications"
"""A private server whose catalogue has this name is one for applications."""


def with_application(
    name: str,
    table: Mapping[str, Any],
    workload: Callable[[], Workload],
    tiers: Sequence[Tier],
    data: str,
) -> Mapping[str, Any]:
    """A [target.NAME] table, with the workload's application where it is that of a private application server and names none.

    Args:
        name: of the target.
        table: of it.
        workload: of the study.
        tiers: below the target.
        data: the tier with the data, as [workload] says; "" for the only database.

    Raises:
        UsageError: there is no database below the server for the application.
        LoadError: the application cannot be built.
    """
    if not _is_for_applications(table):
        return table
    asked = workload()
    if not isinstance(asked, DeployedWorkload):
        return table
    server = f"{table['kind']}-{table['embedded']}-{name}"
    deployment = asked.deployment(_with_own_roots(_database(tiers, data).endpoint(), server), _said)
    names = {**deployment.names, "config": str(keep_file(server, deployment.config.encode(), ".properties"))}
    return {**table, "names": {**names, **table.get("names", {})}}


def _is_for_applications(table: Mapping[str, Any]) -> bool:
    kind, version = table.get("kind"), table.get("embedded")
    if version is None or _NAME in table.get("names", {}):
        return False
    plugin = plugins.load("targets", str(kind))
    if not isinstance(plugin, type) or not issubclass(plugin, CatalogSystem) or not hasattr(plugin, "catalogue"):
        return False
    own = plugin.catalogue().embedded.get(version)
    return own is not None and _NAME in (own.lifecycle.names or {})


def _database(tiers: Sequence[Tier], data: str) -> Target:
    found = [tier for tier in tiers if isinstance(tier.target, DatabaseSystem) and data in ("", tier.name)]
    if len(found) != 1:
        raise UsageError(
            "the workload's application needs one database among the targets below its server",
            hint='add [target.db] kind = "postgresql" behind it, or name the one to use: [workload] data = "db"',
        )
    return found[0].target


def _said(line: str) -> None:
    """Tells the user, on stderr, what a command does before it can say anything else."""
    print(line, file=sys.stderr, flush=True)


def _with_own_roots(there: Endpoint, server: str) -> Endpoint:
    """The endpoint with its root certificates in a file that the private server's user can read; PostgreSQL's own library looks
    for them at a place of ours where its url names none."""
    named = there.options.get("sslrootcert", "")
    usual = Path("~/.postgresql/root.crt").expanduser() if there.protocol == "postgresql" else None
    path = Path(named) if named else usual
    if named == "system" or path is None or not path.is_file():
        return there
    own = keep_file(server, path.read_bytes(), ".pem")
    return replace(there, options={**there.options, "sslrootcert": str(own)})
