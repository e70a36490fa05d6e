"""A program whose commands log in: its password is in no command line, journal, history or message, and undoing has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import PYTHON, start_trimtab
from tests.faults import killed_at
from tests.systems.program.conftest import CATALOG, made
from trimtab.errors import TargetError, UsageError
from trimtab.redact import forget_all
from trimtab.space import Config
from trimtab.systems import credentials
from trimtab.systems.passwords import public_url, separated
from trimtab.systems.program import ProgramTarget
from trimtab.trial import snapshot_to_json

CANARY = "kanarienvogel:/17"
QUOTED = "kanarienvogel%3A%2F17"
ADDRESS = f"vault://me:{QUOTED}@127.0.0.1:7/"
VAULT = f"""
import os, sys
from pathlib import Path
folder, address, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
with (folder / "seen").open("ab") as seen:
    seen.write(Path("/proc/self/cmdline").read_bytes() + b"\\n")
if os.environ.get("VAULT_PASSWORD") != {CANARY!r} or address != "vault://me@127.0.0.1:7/":
    sys.exit("wrong password: " + os.environ.get("VAULT_PASSWORD", "none"))
if what == "reload":
    (folder / "used").write_text((folder / "squeeze.conf").read_text())
"""
STUDY = """
[study]
name = "vault"
budget = "1 trials"
[target.zip]
kind = "program"
catalog = "catalog.toml"
memory = "64MB"
knobs = ["level"]
health = "{vault} {{server}} health"
reload = "{vault} {{server}} reload"
names = {{ server = "{address}" }}
passwords = {{ server = "VAULT_PASSWORD" }}
[workload]
kind = "command"
command = "sleep 0.1"
figure = "wall"
[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "1s"
"""
POINT = "trimtab.systems.program.target:ProgramTarget.apply:after:1"


@pytest.fixture(autouse=True)
def nobody_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VAULT_PASSWORD", raising=False)
    monkeypatch.setattr(credentials, "_kept", {})
    monkeypatch.setattr(credentials, "_received", {})
    forget_all()


@pytest.fixture
def vault(folder: Path) -> str:
    (folder / "vault.py").write_text(VAULT)
    return f"{PYTHON} {folder}/vault.py {folder}"


def guarded(folder: Path, vault: str, address: str = ADDRESS, **more: Any) -> ProgramTarget:
    table = {"names": {"server": address}, "passwords": {"server": "VAULT_PASSWORD"}, **more}
    return made(folder, health=f"{vault} {{server}} health", reload=f"{vault} {{server}} reload", **table)


def require_unseen(folder: Path) -> None:
    """In no command line of the program's commands, and in no file but the study and the program itself."""
    assert (folder / "seen").read_bytes().count(b"vault://me@") > 0
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("study.toml", "vault.py", "secret"):
            content = path.read_bytes()
            assert CANARY.encode() not in content, path
            assert QUOTED.encode() not in content, path


@pytest.mark.slow
def test_it_is_in_the_environment_of_commands_alone(folder: Path, vault: str) -> None:
    target = guarded(folder, vault)
    target.open()
    found = target.snapshot()
    target.apply(Config({"level": 9}))
    assert "level = 9" in (folder / "used").read_text()
    (folder / "snapshot").write_text(snapshot_to_json(found))
    (folder / "shown").write_text(f"{target.doctor()} {target.where()} {target.settings!r} {target.endpoint()!r}")
    require_unseen(folder)
    target.restore(found)


def test_addresses_that_no_command_names_are_journalled_without_it_too(folder: Path) -> None:
    address = f"http://me:{QUOTED}@127.0.0.1:7/?token={QUOTED}"
    names = {"unused": ADDRESS, "text": "a:b@c"}
    target = made(folder, url=address, names=names, health="unix:/tmp/x", passwords={"url": "VAULT_PASSWORD"})
    table = {**target.settings.public(), "health": f"cql://me:{QUOTED}@127.0.0.1:7/"}
    asked = ProgramTarget.from_settings("zip", table, state_dir=folder / "state").settings.public()
    text = snapshot_to_json(target.snapshot()) + json.dumps(asked)
    assert CANARY not in text
    assert QUOTED not in text
    assert asked["names"] == {"unused": "vault://me@127.0.0.1:7/", "text": "a:b@c"}
    assert (asked["url"], asked["health"]) == ("http://me@127.0.0.1:7/", "cql://me@127.0.0.1:7/")


def other_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], dict[str, Any]]]:
    def by_file() -> dict[str, Any]:
        (folder / "secret").write_text(f"{CANARY}\nmore\n")
        (folder / "secret").chmod(0o600)
        return {"password_files": {"server": "secret"}}

    def by_variable() -> dict[str, Any]:
        monkeypatch.setenv("VAULT_PASSWORD", CANARY)
        return {}

    return {"file": by_file, "variable": by_variable}


@pytest.mark.parametrize("way", ["file", "variable"])
def test_it_may_come_from_elsewhere(folder: Path, vault: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = guarded(folder, vault, ADDRESS.replace(f":{QUOTED}", ""), **other_sources(folder, monkeypatch)[way]())
    target.open()
    lines = {check: (is_fine, text) for check, is_fine, text in target.doctor()}
    assert lines["recover"][0]
    assert ("VAULT_PASSWORD" in lines["recover"][1]) == (way == "variable")
    assert not any("password" in note for note in target.notes())
    (folder / "snapshot").write_text(snapshot_to_json(target.snapshot()))
    require_unseen(folder)


def test_what_only_the_address_has_is_told_before_the_first_change(folder: Path, vault: str) -> None:
    assert any(note.startswith("the password is only in url") for note in guarded(folder, vault).notes())


def test_a_file_that_others_may_read_is_refused(folder: Path, vault: str) -> None:
    (folder / "secret").write_text(CANARY)
    (folder / "secret").chmod(0o640)
    with pytest.raises(TargetError, match="may be read by others") as caught:
        guarded(folder, vault, "vault://me@127.0.0.1:7/", password_files={"server": "secret"}).open()
    assert caught.value.hint == f"chmod 600 {folder}/secret"


def test_a_message_that_repeats_it_is_masked(folder: Path, vault: str) -> None:
    with pytest.raises(TargetError, match="wrong password") as caught:
        guarded(folder, vault, ADDRESS.replace("me:", "you:")).open()
    assert CANARY not in caught.value.message


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"passwords": {}}, "names {server}: its password would be in the list of processes"),
        ({"restart": f"x {ADDRESS}", "pid_file": "p"}, "restart has a password in it"),
        ({"names": {"server": "vault://h/?password=secret"}}, "a password behind its question mark"),
        ({"run": "x {server}"}, "what Trimtab runs itself gets no password"),
        ({"passwords": {"servr": "X"}}, "passwords names 'servr', which is neither url nor one of names"),
        ({"passwords": {"server": "a b"}}, "is not the name of an environment variable"),
        ({"password_files": {"url": "x"}}, "password_files names 'url', which passwords does not"),
        ({"names": {"server": "vault://me:p/w@h/"}}, "server is an address that cannot be read"),
    ],
)
def test_what_would_show_one_is_refused(folder: Path, vault: str, more: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        guarded(folder, vault, **more)
    assert told in caught.value.message
    assert QUOTED not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("address", "bare", "password"),
    [
        ("mongodb://me:p%40ss@h1:1,h2:2/db?a=b", "mongodb://me@h1:1,h2:2/db?a=b", "p@ss"),
        ("redis://:secret@h:6379", "redis://h:6379", "secret"),
        ("mongodb://me:***@h/", "mongodb://me@h/", ""),
        ("mongodb://[::1]:27017/?appName=me@x", "mongodb://[::1]:27017/?appName=me@x", ""),
        ("http://127.0.0.1:{port}/a:b@c", "http://127.0.0.1:{port}/a:b@c", ""),
        ('ProxyPass "/" "http://u:p@h/"', 'ProxyPass "/" "http://u:p@h/"', ""),
    ],
)
def test_an_address_and_its_password_are_separated(address: str, bare: str, password: str) -> None:
    assert separated(address, "url") == (bare, password)
    assert public_url(address) == bare
    assert public_url("http://me:x@h/?a=1&token=2") == "http://me@h/?a=1"


class Study:
    """Of a vault, with commands of Trimtab over it."""

    def __init__(self, folder: Path, vault: str) -> None:
        self.folder = folder
        (folder / "study.toml").write_text(STUDY.format(vault=vault, address=ADDRESS))
        (folder / "catalog.toml").write_text(CATALOG)
        self.found = (folder / "squeeze.conf").read_bytes()

    def environment(self, **more: str) -> dict[str, str]:
        own = {"TRIMTAB_STATE": str(self.folder / "state"), "TRIMTAB_CACHE": str(self.folder / "cache")}
        return {**os.environ, **own, "NO_COLOR": "1", **more}

    def shoot(self, **more: str) -> None:
        """A bench that kills itself after its first change."""
        process = start_trimtab(
            [POINT, "--", "bench", "study.toml", "--runs", "1", "--set", "level=9"],
            script=Path(killed_at.__file__), cwd=self.folder, env=self.environment(**more), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.wait(timeout=120) == -signal.SIGKILL

    def trimtab(self, *words: str, **more: str) -> tuple[int, str]:
        process = start_trimtab(
            words, cwd=self.folder, env=self.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        out, _ = process.communicate(timeout=120)
        return process.returncode, out

    @property
    def open_entries(self) -> list[Path]:
        return list((self.folder / "state" / "journal").glob("*.open"))

    def check(self) -> None:
        assert (self.folder / "squeeze.conf").read_bytes() == self.found
        assert (self.folder / "used").read_bytes() == self.found, "it was not asked to read its file again"
        assert not self.open_entries
        require_unseen(self.folder)


@pytest.mark.slow
def test_the_dead_man_can_log_in_with_a_password_that_only_the_tuner_had(folder: Path, vault: str) -> None:
    study = Study(folder, vault)
    study.shoot()
    until = time.monotonic() + 60
    while study.open_entries:
        assert time.monotonic() < until, "the dead-man did nothing"
        time.sleep(0.05)
    study.check()


@pytest.mark.slow
def test_after_a_power_cut_recover_takes_it_from_the_environment(folder: Path, vault: str) -> None:
    study = Study(folder, vault)
    study.shoot(TT_KILL_DEADMAN="1")
    assert b"level = 9" in (folder / "squeeze.conf").read_bytes()
    (entry,) = study.open_entries
    assert json.dumps("VAULT_PASSWORD")[1:-1] in entry.read_text()
    require_unseen(folder)
    code, out = study.trimtab("recover")
    assert code != 0
    assert "wrong password: none" in out
    code, out = study.trimtab("recover", "--retry", "vault", VAULT_PASSWORD=CANARY)
    assert (code, "restored" in out) == (0, True), out
    study.check()
    (folder / "shown").write_text(study.trimtab("history", "show", "vault", "--json")[1])
    require_unseen(folder)


@pytest.mark.parametrize("port", ["x", "65536", "2y", "-1"])
def test_a_port_that_is_none_is_told_before_anything_is_asked(port: str) -> None:
    with pytest.raises(UsageError, match=f"url is an address with port='{port}'") as caught:
        separated(f"mongodb://me:geheim@h:1,h:{port}/", "url")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "place", ["h", "h:1", "[::1]", "[::1]:65535", "{host}:{port}", "127.0.0.1:{port.storage}", "a:1,b:2"]
)
def test_a_port_that_is_one_is_taken(place: str) -> None:
    assert separated(f"mongodb://me:geheim@{place}/", "url") == (f"mongodb://me@{place}/", "geheim")
