"""Loads that do not go over the target's own protocol run whatever is tuned: a command, and sites at an address of their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from trimtab.records import Endpoint
from trimtab.study.driven import loaded_tier
from trimtab.study.file import StudyFile
from trimtab.systems import Tier
from trimtab.systems.store_probe import STORES
from trimtab.workload import Workload
from trimtab.workload.command import CommandWorkload
from trimtab.workload.http import HttpWorkload
from trimtab.workload.rubis.workload import RubisWorkload
from trimtab.workload.server import DATA_PROTOCOLS
from trimtab.workload.site import SiteWorkload

PROTOCOLS = {"program", "http", "postgresql", "mysql", "cql", *STORES, *DATA_PROTOCOLS}
SITE = {"url": "http://127.0.0.1:8080/"}
PAGES: dict[str, Any] = {"pages": ["/"]}


@pytest.fixture(params=["command", "http", "site", "rubis"])
def workload(request: pytest.FixtureRequest) -> Workload:
    if request.param == "command":
        return CommandWorkload.from_settings({"kind": "command", "command": "true"})
    if request.param == "http":
        return HttpWorkload.from_settings({"kind": "http", **SITE, **PAGES})
    if request.param == "site":
        return SiteWorkload.from_settings(
            {"kind": "site", "site": "shop.toml", **SITE}, directory=Path(__file__).parent
        )
    return RubisWorkload.from_settings({"kind": "rubis", **SITE})


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_it_runs_on_every_target(workload: Workload, protocol: str) -> None:
    there = Endpoint(protocol=protocol, host="h", port=1, user="", database="")
    tier = cast(Tier, SimpleNamespace(name="t", target=SimpleNamespace(endpoint=lambda: there)))
    file = cast(StudyFile, SimpleNamespace(workload={"kind": workload.kind}))
    assert loaded_tier(file, [tier], workload) is tier


def test_a_site_without_an_address_is_the_targets_own() -> None:
    assert HttpWorkload.from_settings({"kind": "http", **PAGES}).protocols == ("http",)
    assert RubisWorkload.from_settings({"kind": "rubis"}).protocols == ("http",)
