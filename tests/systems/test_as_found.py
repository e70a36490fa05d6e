"""What a system's files hold that is no value of a knob, and what others do to these files besides changing a value."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.systems.kernel import kernel, linux
from tests.systems.program.conftest import CATALOG, CONF, cache, conf, folder, made
from tests.systems.test_tomcat import packaged as tomcat
from trimtab.errors import ApplyError, TargetError
from trimtab.host import FileCopy
from trimtab.records import Context
from trimtab.space import Config

__all__ = ["cache", "folder", "kernel"]

UNKNOWN = "its value as found, {}, is not one that the catalogue knows"


@pytest.mark.parametrize(
    ("was", "text", "name", "running_value", "reason"),
    [
        ("512k", "1500B", "window", 2, "its value as found, 1500B, is not a whole number of unit=kB"),
        ("level = 3 ", "level = 3.5 ", "level", 4, "its value as found, 3.5, is not a whole number"),
        ("level = 3 ", "level = ${level} ", "level", 3, "its value as found, ${level}, is a variable of the program's"),
        ("level = 3 ", "level = 65 60 ", "level", 3, UNKNOWN.format("65 60")),
        ("name = x", "checksum = 2", "checksum", True, UNKNOWN.format("2")),
        ("name = x", "checksum = some", "checksum", True, UNKNOWN.format("some")),
    ],
)
def test_a_value_that_no_number_of_the_knob_says_locks_its_knob_only(
    folder: Path, was: str, text: str, name: str, running_value: object, reason: str
) -> None:
    written = CONF.replace(was, text)
    (folder / "squeeze.conf").write_text(written)
    target = made(folder, unlock=["durability"])
    state = target.states()[name]
    assert (state.running, state.lock_reason) == (running_value, reason)
    found = target.snapshot()
    target.apply(Config({"level": 9} if name != "level" else {"window": 1024}))
    target.restore(found)
    assert conf(folder) == written


def test_the_rights_that_somebody_gives_a_file_meanwhile_stay(folder: Path) -> None:
    """A change of ours changes words; whoever takes rights away, for a password in it, does not want them back."""
    target, file = made(folder), folder / "squeeze.conf"
    file.chmod(0o644)
    found = target.snapshot()
    target.apply(Config({"level": 9}))
    file.chmod(0o600)
    target.apply(Config({"level": 5}))
    assert (file.stat().st_mode & 0o777, "level = 5 " in conf(folder)) == (0o600, True)
    target.restore(found)
    assert (file.stat().st_mode & 0o777, conf(folder)) == (0o600, CONF)


def test_a_list_of_rights_that_somebody_gives_a_file_meanwhile_still_counts(folder: Path) -> None:
    """The group's bits of the mode are the most that the list gives anybody."""
    target, file = made(folder), folder / "squeeze.conf"
    file.chmod(0o600)
    found = target.snapshot()
    target.apply(Config({"level": 9}))
    entries = [(1, 6, 0xFFFFFFFF), (2, 4, 65534), (4, 0, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)]
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    try:
        os.setxattr(file, "system.posix_acl_access", rights)
    except OSError as error:
        pytest.skip(f"this file system has no lists of rights: {error.strerror}")
    target.restore(found)
    assert os.getxattr(file, "system.posix_acl_access") == rights
    assert conf(folder) == CONF


def test_the_rights_of_another_users_file_in_its_place_are_not_taken(folder: Path) -> None:
    channel = made(folder)._channels[0]
    found = FileCopy(content=b"secret\n", mode=0o600, uid=0, gid=0)
    theirs = FileCopy(content=b"level = 9\n", mode=0o666, uid=65534, gid=65534)
    assert channel.with_mode_of(theirs, found) == found


def test_a_check_that_refuses_the_file_as_found_says_so(folder: Path) -> None:
    """Its command may ask another program than the one that runs, as another Java does."""
    check = "check = '/bin/sh -c \"! grep -q name {file} || { echo no name; exit 3; }\"'"
    (folder / "catalog.toml").write_text(CATALOG.replace('codec = "keyvalue"', f'codec = "keyvalue"\n{check}'))
    target = made(folder)
    with pytest.raises(ApplyError, match="would refuse file=.*: no name; it refuses the file as found, too") as caught:
        target.preflight(Config({"level": 9}))
    assert str(caught.value.hint).startswith("does check='/bin/sh")
    (folder / "squeeze.conf").write_text(CONF.replace("name = x\n", ""))
    made(folder).preflight(Config({"level": 9}))


def test_a_check_for_which_no_copy_can_be_made_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "catalog.toml").write_text(CATALOG.replace('codec = "keyvalue"', 'codec = "keyvalue"\ncheck = "true"'))
    monkeypatch.setattr("tempfile.tempdir", str(folder / "nowhere"))
    with pytest.raises(TargetError, match=r"squeeze\.conf' cannot be copied for a check: No such file or directory"):
        made(folder).preflight(Config({"level": 9}))


def test_a_link_in_place_of_a_file_is_told_with_what_to_do(folder: Path) -> None:
    (folder / "squeeze.conf").rename(folder / "real.conf")
    (folder / "squeeze.conf").symlink_to("real.conf")
    with pytest.raises(TargetError, match="it is a symbolic link") as caught:
        made(folder).states()
    assert caught.value.hint == "name the file that it leads to"


# --- Tomcat ---


def test_a_variable_of_tomcats_is_left_alone(tmp_path: Path) -> None:
    states = tomcat(tmp_path, ' maxThreads="${http.threads}" compression="${zip}"').states()
    assert states["maxThreads"].lock_reason == "its value as found, ${http.threads}, is a variable of the program's"
    assert (states["maxThreads"].running, states["compression"].running) == (200, "off")
    assert states["compression"].lock_reason
    assert not states["acceptCount"].lock_reason


def test_what_an_executor_rules_is_not_a_knob_of_the_connector(tmp_path: Path) -> None:
    states = tomcat(tmp_path, ' executor="pool"').states()
    why = "element='Connector[protocol=HTTP/1.1][executor=][useVirtualThreads=]': the file has 0 such elements"
    for name in ("maxThreads", "minSpareThreads", "threadPriority"):
        assert states[name].lock_reason.endswith(why), name
    assert not states["maxConnections"].lock_reason
    assert not tomcat(tmp_path).states()["maxThreads"].lock_reason


@pytest.mark.parametrize(("attributes", "consumer"), [("", "threads"), (' executor="pool"', "executor")])
def test_the_threads_that_there_are_take_memory(tmp_path: Path, attributes: str, consumer: str) -> None:
    app, file = tomcat(tmp_path, attributes), tmp_path / "conf" / "server.xml"
    if attributes:
        file.write_text(file.read_text().replace("<Service>", '<Service><Executor name="pool"/>'))
    model = app.memory(Context("suite", clients=10))
    use = model.use(Config({"maxThreads": 1000} if not attributes else {"executorMaxThreads": 1000}))
    assert {"threads", "executor"} & use.keys() == {consumer}
    assert use[consumer] == 1000 * 256 * 1024


def test_an_advised_heap_that_is_made_smaller_is_not_larger_at_the_start(tmp_path: Path) -> None:
    app, context = tomcat(tmp_path, memory="512MiB"), Context("suite", clients=1000)
    advice = app.advise(context)
    assert app.memory(context).total(advice) <= 512 << 20
    assert float(advice["InitialHeapSize"]) == float(advice["MaxHeapSize"]) < 256 << 20


@pytest.mark.parametrize(
    ("resource", "is_pool"),
    [
        ('type="javax.sql.DataSource" maxTotal="20"', True),
        ('type="jakarta.mail.Session"', False),
        ('type="javax.sql.DataSource" factory="org.apache.tomcat.jdbc.pool.DataSourceFactory"', False),
    ],
)
def test_only_a_pool_of_tomcats_own_is_one(tmp_path: Path, resource: str, is_pool: bool) -> None:
    """Another kind of resource knows no such attributes, or has other defaults."""
    app = tomcat(tmp_path)
    (tmp_path / "conf/context.xml").write_text(f'<Context>\n<Resource name="x" {resource}/>\n</Context>\n')
    state = app.states()["maxTotal"]
    assert (state.running, not state.lock_reason) == (20 if is_pool else 8, is_pool)


def test_files_that_are_not_there_are_not_made_for_tomcat(tmp_path: Path) -> None:
    """It would not read them: its own lie elsewhere."""
    app = tomcat(tmp_path)
    for file in (tmp_path / "conf").iterdir():
        file.unlink()
    (tmp_path / "conf").rmdir()
    states = app.states()
    for name, file in (("maxThreads", "server.xml"), ("maxTotal", "context.xml"), ("MaxHeapSize", "jvm.options")):
        path = str(tmp_path / "conf" / file)
        assert states[name].lock_reason == f"there is no file={path!r}: name the one that the program reads"


def test_a_folder_that_is_not_there_is_no_fault_of_trimtabs(folder: Path) -> None:
    pid = folder / "pid"
    pid.write_text(f"{os.getpid()}\n")
    target = made(folder, pid_file=str(pid), restart="true", files={"conf": str(folder / "nowhere/squeeze.conf")})
    assert target.notes() == ()
    assert {name: text for name, _, text in target.doctor()}["values"] == "as the program uses them"
    why = f"there is no folder={str(folder / 'nowhere')!r}: name the file that the program reads"
    assert {state.lock_reason for state in target.states().values()} == {why}


# --- the kernel ---


@pytest.mark.needs("sysctl")
@pytest.mark.usefixtures("kernel")
def test_a_switch_of_the_kernel_with_another_number_locks_itself_only(tmp_path: Path) -> None:
    file = Path("/proc/sys") / "net/ipv4/tcp_slow_start_after_idle"
    before = file.read_text()
    try:
        file.write_text("2\n")
        states = linux(tmp_path).states()
        assert states["tcp_slow_start_after_idle"].lock_reason == UNKNOWN.format("2")
        assert not states["tcp_autocorking"].lock_reason
    finally:
        file.write_text(before)
