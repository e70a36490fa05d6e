"""Stacks of fakes, of a real server beside a fake, and of three real tiers pass the public suite."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.systems.test_httpd import httpd
from tests.systems.test_tomcat import tomcat
from trimtab.space import Config
from trimtab.systems import Snapshot, Target
from trimtab.systems.postgresql import PostgresTarget
from trimtab.testing.fake_target import Disk, FakeTarget
from trimtab.testing.stack_suite import StackSubject, StackSuite


@pytest.fixture(autouse=True)
def disks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Disk]:
    """The servers that a rollback finds again."""
    found: dict[str, Disk] = {}
    module = import_module("trimtab.trial.undo")
    plain = module.reattach

    def reattach(snapshot: Snapshot, state_dir: Path) -> object:
        if snapshot.kind != FakeTarget.kind:
            return plain(snapshot, state_dir)
        return FakeTarget(snapshot.target, disk=found[snapshot.target])

    monkeypatch.setattr(module, "reattach", reattach)
    return found


class TestFakes(StackSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path, disks: dict[str, Disk]) -> StackSubject:
        targets = [FakeTarget(name) for name in ("db", "app", "web")]
        disks.update({target.name: target.disk for target in targets})
        changes = Config({"db.cache": 256, "app.method": "ring", "web.workers": 4, "web.cache": 64})
        return StackSubject(targets=targets, changes=changes, state_dir=tmp_path)


@pytest.mark.service
class TestPostgresqlBesideAFake(StackSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path, target: PostgresTarget, disks: dict[str, Disk]) -> StackSubject:
        fake = FakeTarget("cache")
        disks["cache"] = fake.disk
        changes = Config({f"{target.name}.work_mem": 8192, "cache.cache": 256})
        return StackSubject(targets=[target, fake], changes=changes, state_dir=tmp_path)


# The quick form of three real tiers: test_C3_stack of tests/faults, and tests/apps/test_stack.py.
@pytest.mark.service
@pytest.mark.full
@pytest.mark.needs("httpd", "tomcat", "java")
class TestThreeTiers(StackSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def above(cls, state_dir: Path) -> Iterator[list[Target]]:
        """What runs in front of the database."""
        targets = [
            tomcat(state_dir, "app-of-three", memory="512MiB"),
            httpd(state_dir, "web-of-three", memory="256MiB"),
        ]
        for target in targets:
            target.open()
        yield targets
        for target in targets:
            target.close()

    @pytest.fixture
    def subject(self, tmp_path: Path, target: PostgresTarget, above: list[Target]) -> StackSubject:
        changes = {
            f"{target.name}.work_mem": 8192,
            "app-of-three.maxThreads": 50,
            "app-of-three.MinHeapFreeRatio": 30,
            "web-of-three.KeepAliveTimeout": 20,
            "web-of-three.ServerLimit": 20,
        }
        return StackSubject(targets=[target, *above], changes=Config(changes), state_dir=tmp_path)
