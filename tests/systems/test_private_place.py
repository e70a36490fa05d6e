"""A private server is known by its version and its target's name: what becomes of its files, and of one that runs, when a study
says something else of it than the one before.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port
from trimtab.errors import TargetError
from trimtab.space import Config
from trimtab.systems import Stack, Tier
from trimtab.systems.http_probe import http_get
from trimtab.systems.kinds import kind_of_catalog
from trimtab.systems.private_files import forget_files, keep_file

CATALOG = """
schema = 2
kind = "pages"

[channel.conf]
codec = "keyvalue"
path = "/etc/pages.conf"

[embedded."1"]
module = "http"
folders = ["conf"]
paths = { conf = "conf/pages.conf" }
first_files = { "conf/pages.conf" = "greeting = {greeting}\\n", "conf/other.txt" = "written once\\n" }

[embedded."1".lifecycle]
run = "{program} -m http.server {port} --bind 127.0.0.1 --directory {folder}/conf"
health = "http://127.0.0.1:{port}/pages.conf"
url = "http://127.0.0.1:{port}/"
names = { greeting = "hello" }

[knob.size]
doc = "Of the pages."
type = "integer"
low = 1
high = 99
default = 9
"""
Make = Callable[..., Any]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Targets of one private server; gone at the end."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    kind = kind_of_catalog(CATALOG, where="pages.toml")
    targets = []

    def made(name: str = "web", **table: Any) -> Any:
        targets.append(kind.from_settings(name, {"embedded": "1", **table}, state_dir=tmp_path / "state"))
        return targets[-1]

    yield made
    for target in reversed(targets):
        with suppress(TargetError):
            if target._reach.pid is not None and target._reach._take():
                target.close()


def killed(target: Any) -> None:
    """The tuner that started it: its lock is free, and the server runs on."""
    target._reach.owner.release()


def page(target: Any) -> str:
    return http_get(f"{target.endpoint().options['url']}pages.conf", timeout_s=10.0)[1]


def test_a_file_is_written_again_when_names_change(make: Make) -> None:
    first = make()
    files = [Path(first._reach.folder) / "conf" / name for name in ("pages.conf", "other.txt")]
    first._reach._home.make(first._reach.account)
    assert files[0].read_text() == "greeting = hello\n"
    for file in files:
        file.write_text("by hand\n")
    make()._reach._home.make(first._reach.account)
    assert [file.read_text() for file in files] == ["by hand\n"] * 2, "the same names leave every file as it is"
    make(names={"greeting": "good evening"})._reach._home.make(first._reach.account)
    assert files[0].read_text() == "greeting = good evening\n"
    assert files[1].read_text() == "by hand\n", "a file in which no name is stays"


@pytest.mark.service
def test_a_server_that_a_killed_study_left_is_taken_over_as_it_is(make: Make) -> None:
    first = make()
    first.open()
    pid = first._reach.pid
    first.apply(Config({"size": 5}))
    pid = first._reach.pid
    killed(first)
    second = make()
    second.open()
    assert second._reach.pid == pid
    assert second.states()["size"].running == 5
    second.close()
    assert second._reach.pid is None


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "file"))
    with pytest.raises(TargetError, match="for files of a private server: Not a directory"):
        keep_file("pages", b"password", ".txt")


def test_files_of_a_private_server_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    now, before, other = (keep_file(name, text, ".txt") for name, text in (("a", b"1"), ("a", b"2"), ("b", b"1")))
    now.write_text("by hand\n")
    now.chmod(0o644)
    assert keep_file("a", b"1", ".txt") == now, "written again"
    assert (now.read_bytes(), now.stat().st_mode & 0o777) == (b"1", 0o600)
    mine = tmp_path / "mine.txt"
    mine.write_text("the user's")
    forget_files([str(now), str(mine), "hello"])
    assert [path.exists() for path in (now, before, other, mine)] == [False, False, True, True]


@pytest.mark.service
def test_what_only_it_may_read_goes_when_it_is_stopped(make: Make) -> None:
    first = make()
    kept = keep_file("pages-1-web", b"password", ".txt")
    running, looking = make(names={"greeting": str(kept)}), make(names={"greeting": str(kept)})
    running.open()
    looking.open()
    looking.close()
    assert kept.exists(), "another tuner has the server"
    running.close()
    assert not kept.exists()
    first.close()


@pytest.mark.service
@pytest.mark.parametrize("change", ["names", "port"])
def test_one_that_is_to_be_another_is_started_anew(make: Make, change: str) -> None:
    """It answered with the old page before, or was waited for on a port on which nobody listens."""
    port = free_port()
    first = make()
    first.open()
    pid = first._reach.pid
    killed(first)
    second = make(**{"names": {"names": {"greeting": "good evening"}}, "port": {"port": port}}[change])
    second.open()
    assert second._reach.pid != pid
    if change == "names":
        assert page(second) == "greeting = good evening\n"
    else:
        assert second.endpoint().port == port
    second.close()


@pytest.mark.service
def test_one_that_another_tuner_runs_otherwise_is_told(make: Make) -> None:
    first = make()
    first.open()
    pid = first._reach.pid
    second = make(names={"greeting": "good evening"})
    with pytest.raises(TargetError) as caught:
        second.open()
    assert caught.value.message.startswith("another tuner runs the private pages-1 in folder='")
    assert "with other `names` or another port: pid=" in caught.value.message
    assert caught.value.hint == (
        "a private server is known by its version and its target's name: wait, or name the target differently"
    )
    assert first._reach.pid == pid
    first.health()


@pytest.mark.service
def test_a_port_that_is_taken_names_the_tier_and_stops_those_below(make: Make) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        below, above = make("app"), make("web", port=port)
        stack = Stack([Tier(name="app", target=below), Tier(name="web", target=above)])
        with pytest.raises(TargetError) as caught:
            stack.open()
    assert caught.value.message == f"web: port={port} is taken by another program"
    assert below._reach.pid is None
    assert above._reach.pid is None
