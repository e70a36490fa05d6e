"""The built-in workloads pass the public suite: pages on a small site, a command, and the others on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.servers.web import site
from trimtab.records import Endpoint
from trimtab.testing.workload_suite import WorkloadSuite

LOAD = {"users": 2, "think": "2ms"}


class TestHttp(WorkloadSuite):
    kind = "http"
    settings: ClassVar[Mapping[str, Any]] = {"pages": ["/", {"path": "/item/{1-9}", "share": 2}], "load": LOAD}

    @pytest.fixture
    def endpoint(self) -> Iterator[Endpoint]:
        with site() as web:
            yield Endpoint(protocol="http", host="127.0.0.1", port=web.port, user="", database="")


@pytest.mark.slow
class TestSite(TestHttp):
    kind = "site"
    directory = Path(__file__).parent
    settings: ClassVar[Mapping[str, Any]] = {"site": "shop.toml", "think_scale": 0.001, "load": {"users": 2}}


@pytest.mark.service
@pytest.mark.slow
class TestYcsb(WorkloadSuite):
    kind = "ycsb"
    settings: ClassVar[Mapping[str, Any]] = {"workload": "A", "records": 200, "load": LOAD}

    @pytest.fixture
    def endpoint(self, server: Endpoint) -> Endpoint:
        return server


@pytest.mark.service
@pytest.mark.full
class TestOltp(TestYcsb):
    kind = "oltp"
    settings: ClassVar[Mapping[str, Any]] = {"table_size": 200, "load": LOAD}


@pytest.mark.service
@pytest.mark.full
class TestPgbench(TestYcsb):
    kind = "pgbench"
    settings: ClassVar[Mapping[str, Any]] = {"load": LOAD}


@pytest.mark.service
@pytest.mark.full
class TestTpch(TestYcsb):
    kind = "tpch"
    settings: ClassVar[Mapping[str, Any]] = {"scale": 0.01, "mix": {"q6": 2}}


class TestCommand(WorkloadSuite):
    kind = "command"
    settings: ClassVar[Mapping[str, Any]] = {"command": "sleep 0.05"}

    @pytest.fixture
    def endpoint(self) -> Endpoint:
        return Endpoint(protocol="program", host="localhost", port=0, user="", database="")
