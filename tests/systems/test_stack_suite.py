"""Stacks of fakes, and of a real server beside a fake, pass the public suite."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from trimtab.space import Config
from trimtab.systems import Snapshot
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
