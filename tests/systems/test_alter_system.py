"""How ALTER SYSTEM is written and read back, without a server: a connection that is lost, and when a restart is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.errors import ApplyError, ForeignChangeError
from trimtab.space import Config, Knob, KnobKind
from trimtab.systems.postgresql import change as module
from trimtab.systems.postgresql.session import ConnectionLostError

KNOB = Knob(name="work_mem", kind=KnobKind.INTEGER, low=64, high=1 << 20, default=4096, unit="kB")


class Server:
    """What is in postgresql.auto.conf; the first `n_lost` changes end with the connection, the first line written."""

    def __init__(self, n_lost: int = 0) -> None:
        self.entries: dict[str, str] = {"jit": "off"}
        self.n_lost = n_lost
        self.shows_file = True
        self.n_reloads = 0
        self.rows: dict[str, Any] = {}

    @contextmanager
    def connect(self) -> Iterator[None]:
        yield

    def change(self, connection: object, now: dict[str, str], wanted: dict[str, str]) -> None:
        self.entries = dict(wanted)
        if self.n_lost:
            self.n_lost -= 1
            raise ConnectionLostError("the connection was lost")

    def shows(self, value: int, *, is_pending: bool = False) -> None:
        """The value that is in use."""
        self.rows["work_mem"] = SimpleNamespace(value=value, unit="kB", is_pending=is_pending, where="default")


def change_of(server: Server, monkeypatch: pytest.MonkeyPatch, left: dict[str, str] | None = None) -> Any:
    """A change of work_mem to 8 MB on it; `left`: the entries after the change before."""

    def reload(connect: object) -> None:
        server.n_reloads += 1

    monkeypatch.setattr(module, "read_entries", lambda connection: dict(server.entries))
    monkeypatch.setattr(module, "file_entries", lambda connection: dict(server.entries) if server.shows_file else None)
    monkeypatch.setattr(module, "change_entries", server.change)
    monkeypatch.setattr(module, "file_faults", lambda connection: [])
    monkeypatch.setattr(module, "reload_and_wait", reload)
    monkeypatch.setattr(module, "read_rows_somehow", lambda reach: server.rows)
    base: Any = SimpleNamespace(reach={"entries": {"jit": "off"}}, values={"work_mem": 4096})
    states: Any = {"work_mem": SimpleNamespace(knob=KNOB)}
    channel = module.AlterSystem(server)  # type: ignore[arg-type]
    channel.left = left
    return channel.change(Config({"work_mem": 8192}), states, base, stays=False)


def test_a_connection_that_is_lost_once_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(n_lost=1)
    change = change_of(server, monkeypatch)
    change.write()
    assert server.entries == {"jit": "off", "work_mem": "8MB"}
    change.take_effect()
    assert server.n_reloads == 1, "the entries before the first try count: they differ from what is wanted"


def test_one_that_is_lost_again_ends_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(n_lost=2)
    with pytest.raises(ConnectionLostError):
        change_of(server, monkeypatch).write()
    assert server.n_lost == 0


def test_what_the_file_holds_already_is_not_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    server.entries = {"jit": "off", "work_mem": "8MB"}
    change = change_of(server, monkeypatch, left=dict(server.entries))
    change.write()
    change.take_effect()
    assert server.n_reloads == 0


def test_the_files_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    change = change_of(server, monkeypatch)
    change.write()
    change.take_effect()  # before the restart that a config may need, and after it
    change.take_effect()
    assert server.n_reloads == 1


@pytest.mark.parametrize(
    ("value", "is_pending", "restarts"),
    [(4096, True, True), (4096, False, False), (8192, True, False), (8192, False, False)],
)
def test_only_a_value_that_waits_for_it_needs_a_restart(
    monkeypatch: pytest.MonkeyPatch, value: int, is_pending: bool, restarts: bool
) -> None:
    """One that another source keeps as it is would be the same after a restart."""
    server = Server()
    change = change_of(server, monkeypatch)
    change.write()
    server.shows(value, is_pending=is_pending)
    change.take_effect()
    assert change.must_restart() is restarts


def test_a_value_that_is_not_in_use_is_told_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    change = change_of(server, monkeypatch)
    change.write()
    server.shows(4096)
    change.take_effect()
    with pytest.raises(ApplyError, match=r"the server uses work_mem=4MB \(default\), not 8MB"):
        change.check()
    server.shows(8192)
    change.take_effect()
    change.check()


def test_an_entry_that_somebody_else_changed_meanwhile_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    change = change_of(server, monkeypatch)
    change.write()
    change.require_ours()
    server.entries["jit"] = "on"
    with pytest.raises(ForeignChangeError, match=r"was changed by somebody else while Trimtab changed it: jit\n"):
        change.require_ours()  # it would count as ours
    server.entries = {"jit": "off", "work_mem": "1024"}
    with pytest.raises(ForeignChangeError, match=r"was changed by somebody else while Trimtab changed it: work_mem\n"):
        change.require_ours()


@pytest.mark.parametrize(
    ("left", "entries", "theirs"),
    [
        (None, {"jit": "off", "max_wal_size": "8GB"}, "max_wal_size"),
        (None, {}, "jit"),
        (None, {"jit": "off", "work_mem": "64MB"}, "work_mem"),
        ({"jit": "off", "work_mem": "2MB"}, {"jit": "off", "work_mem": "2MB", "max_wal_size": "8GB"}, "max_wal_size"),
        ({"jit": "off", "work_mem": "2MB"}, {"jit": "off", "work_mem": "64MB"}, "work_mem"),
    ],
)
def test_what_somebody_else_has_set_since_the_last_look_is_not_reset(
    monkeypatch: pytest.MonkeyPatch, left: dict[str, str] | None, entries: dict[str, str], theirs: str
) -> None:
    server = Server()
    server.entries = dict(entries)
    expected = rf"^postgresql.auto.conf was changed by somebody else since Trimtab last read it: {theirs}\n"
    with pytest.raises(ForeignChangeError, match=expected) as raised:
        change_of(server, monkeypatch, left=left).write()
    assert raised.value.hint.startswith("tuning was stopped, so as not to fight over the configuration")
    assert server.entries == entries


def test_entries_as_found_are_known_after_a_change_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that was killed before it said so has put them back."""
    change_of(Server(), monkeypatch, left={"jit": "off", "work_mem": "2MB"}).write()


def test_what_a_change_has_left_is_known_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    change = change_of(server, monkeypatch)
    change.write()
    change.require_ours()
    assert change._channel.left == server.entries == {"jit": "off", "work_mem": "8MB"}


def test_where_the_file_cannot_be_seen_a_value_that_follows_ours_is_not_somebody_elses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only values in use are seen then, in the words of pg_settings."""
    server = Server()
    server.shows_file = False
    change = change_of(server, monkeypatch)
    change.write()
    server.shows(8192)
    change.take_effect()
    server.entries = {"jit": "on", "work_mem": "8192kB"}
    with pytest.raises(ForeignChangeError, match="work_mem"):
        change.require_ours()
    change.check()
    change.require_ours()
    server.entries["max_wal_size"] = "8GB"
    with pytest.raises(ForeignChangeError, match=r": max_wal_size\n"):
        change.require_ours()
