"""Puts the application of a workload into the study's application server, when that is a private one of ours."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.host import FileCopy, LocalHost
from trimtab.systems import Target, Tier
from trimtab.systems.account import cache_root, server_account
from trimtab.systems.catalog_system import CatalogSystem
from trimtab.systems.database import DatabaseSystem
from trimtab.workload import DeployedWorkload, Workload

__all__ = ["kept", "with_application"]

_NAME = "applications"
"""A private server whose catalogue has this name is one for applications."""


def with_application(
    table: Mapping[str, Any], workload: Callable[[], Workload], tiers: Sequence[Tier], data: str
) -> Mapping[str, Any]:
    """A [target.NAME] table, with the workload's application where it is that of a private application server and names none.

    Args:
        table: of the target.
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
    database = _database(tiers, data)
    deployment = asked.deployment(database.endpoint(), lambda line: None)
    names = {**deployment.names, "config": str(kept(deployment.config))}
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


def kept(text: str) -> Path:
    """The file with the text, which may hold a password, for the user of private servers alone."""
    account = server_account()
    folder = cache_root() / "apps" / "sites"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.properties"
    copy = FileCopy(content=text.encode(), mode=0o600, uid=account.uid, gid=account.gid)
    if not path.exists() or os.geteuid() == 0:
        LocalHost().write_file(path, copy)
    return path
