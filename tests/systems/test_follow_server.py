"""A program that follows a PostgreSQL, on real processes: restarted after a change and on the way back, its files untouched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands import PYTHON
from tests.systems.program.conftest import conf, folder, made
from trimtab.space import Config
from trimtab.study.rollback_point import file_of, keep_point, point_of
from trimtab.systems import Stack, Tier
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.program import ProgramTarget
from trimtab.trial import Journal, commit
from trimtab.trial.change import put_back

pytestmark = pytest.mark.service

__all__ = ["folder"]


@pytest.fixture
def program(folder: Path) -> Iterator[ProgramTarget]:
    run = f"{PYTHON} program.py {folder}"
    target = made(folder, run=run, health=f"test -f {folder}/seen", restart_timeout_s=30)
    target.open()
    yield target
    target.close()


def test_a_program_follows_a_server_there_and_back(
    target: PostgresTarget, program: ProgramTarget, folder: Path, tmp_path: Path
) -> None:
    stack = Stack([Tier(name=target.name, target=target), Tier(name=program.name, target=program, follows=True)])
    state, found = tmp_path / "state", conf(folder)
    connections = f"{target.name}.max_connections"
    before, pid = stack.states()[connections].running, program._reach.pid

    def applied(**changes: object) -> int | None:
        commit(
            stack,
            Config(changes),  # type: ignore[arg-type]
            study="s",
            state_dir=state,
            keep=lambda snapshots, owns: keep_point(state, "s", snapshots, owns),
            file=file_of(state, "s"),
        )
        return program._reach.pid

    second = applied(**{connections: 117})
    assert stack.states()[connections].running == 117
    assert second not in (None, pid)
    assert conf(folder) == found
    assert not program.disturbances()
    point = point_of(state, "s")
    assert point is not None
    assert {snapshot.target: tuple(snapshot.follows) for snapshot in point.snapshots}[program.name] == (target.name,)
    owns = {snapshot.target: own for snapshot, own in zip(point.snapshots, point.owns, strict=True)}
    entry = Journal(state).begin(*stack.snapshots(), study="s", purpose="bench")
    entry = replace(entry, snapshots=point.snapshots)
    done = put_back(stack, entry, own_of=owns.__getitem__)
    entry.close("done")
    assert done.restarted
    assert stack.states()[connections].running == before
    assert program._reach.pid not in (None, second)
    assert conf(folder) == found
