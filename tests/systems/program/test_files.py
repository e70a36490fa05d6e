"""A program's files and table: values there and back, and all that can be wrong with them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.commands import PYTHON
from tests.systems.program.conftest import CATALOG, CONF, CONTEXT, conf, made
from trimtab.errors import ApplyError, ForeignChangeError, LockedError, RestoreError, TargetError, UsageError
from trimtab.host import LocalHost
from trimtab.space import Config, Space
from trimtab.systems.base import Own
from trimtab.systems.catalog_file import kept_catalog, parse_catalog
from trimtab.systems.program import ProgramTarget
from trimtab.trial import own_from_json, own_to_json, snapshot_from_json, snapshot_to_json

# --- values, in its files and back ---


def test_values_are_read_with_their_units_and_places(folder: Path) -> None:
    states = made(folder).states()
    assert {name: state.running for name, state in states.items()} == {
        "level": 3, "threads": 1, "window": 512, "checksum": True,
    }  # fmt: skip
    assert states["window"].source_file == f"{folder}/squeeze.conf:3"
    assert states["threads"].source == "default"
    assert "durability is locked" in states["checksum"].lock_reason
    assert states["window"].knob.high == 4096


def test_only_a_value_as_found_that_is_not_known_locks_its_knob(folder: Path) -> None:
    target = made(folder)
    target.snapshot()
    (folder / "squeeze.conf").write_text(CONF.replace("level = 3 ", "level = 99 "))
    assert target.states()["level"].lock_reason == "", "the running config may be one of the study's"
    target.preflight(Config({"level": 5}))
    reason = "its value as found, 99, is not one that the catalogue knows"
    assert made(folder).states()["level"].lock_reason == reason


def test_only_values_change_and_all_of_them_go_back(folder: Path) -> None:
    target = made(folder)
    found = target.snapshot()
    target.apply(Config({"level": 9, "window": 1024}))
    assert conf(folder) == CONF.replace("level = 3 ", "level = 9 ").replace("512k", "1024k")
    target.apply(Config({"level": 5}))
    assert conf(folder) == CONF.replace("level = 3 ", "level = 5 ")
    done = target.restore(found)
    assert conf(folder) == CONF
    assert done.put_back == ("level=3",)
    assert not done.restarted


def test_a_file_that_was_not_there_is_made_and_removed(folder: Path) -> None:
    (folder / "squeeze.conf").unlink()
    target = made(folder)
    found = target.snapshot()
    target.apply(Config({"level": 9}))
    assert conf(folder) == "level = 9\n"
    target.restore(found)
    assert not (folder / "squeeze.conf").exists()


def test_a_template_is_filled_in(folder: Path) -> None:
    template = "codec = 'template'\ntemplate = '-{{level}} -T{{threads}} -w{{window}} {{checksum}}'"
    text = CATALOG.replace('codec = "keyvalue"', template)
    (folder / "catalog.toml").write_text(text)
    (folder / "squeeze.conf").unlink()
    target = made(folder)
    found = target.snapshot()
    target.apply(Config({"level": 9}))
    assert conf(folder) == "-9 -T1 -w256k yes"
    assert target.states()["level"].running == 9
    target.restore(found)
    assert not (folder / "squeeze.conf").exists()


def test_the_endpoint_carries_the_values(folder: Path) -> None:
    target = made(folder)
    target.apply(Config({"level": 9}))
    assert target.endpoint().options["value.level"] == "9"
    assert target.endpoint().options["value.window"] == "512k"


def test_constraints_memory_and_advice_are_the_catalogues(folder: Path) -> None:
    target = made(folder, run=f"{PYTHON} program.py {folder}")
    use = target.memory(CONTEXT).to_json(Config({"window": 1024}))
    assert use == {"windows": float(1 << 20), "rest": float(1 << 20), "budget": float(64 << 20)}
    texts = [each.label for each in target.constraints(("window", "level"), CONTEXT)]
    assert texts == ["memory budget", "level <= 19 or threads == 1"]
    assert [each.label for each in target.constraints(("checksum",), CONTEXT)] == []
    cores = target.limits.cores
    assert target.advise(CONTEXT) == Config({"threads": cores, "window": 1024})
    with pytest.raises(ApplyError, match="level <= 19 or threads == 1 does not hold with level=20, threads=2"):
        target.preflight(Config({"level": 20, "threads": 2}))
    with pytest.raises(ApplyError, match=r"a single client at work would take memory=\S+ of memory=64MiB"):
        target.preflight(Config({"window": 1048576}))
    states = target.states()
    knobs = [states[name].knob for name in ("level", "window")]
    Space(knobs, target.constraints(("level", "window"), CONTEXT), also_legal={"window": (512,)}).require_feasible()


def test_a_special_value_and_a_scalar_file(folder: Path) -> None:
    text = CATALOG.replace('codec = "keyvalue"', 'codec = "scalar"\nin_place = true')
    head, rest = text.split("[knob.threads]")
    head = head.replace("default = 3", 'default = 3\nspecial = [0]\naddress = "value"').replace("[1, 22]", "[0, 22]")
    (folder / "catalog.toml").write_text(head + rest[rest.index("[advice]") : rest.index('threads = "cores"')])
    (folder / "squeeze.conf").write_text("3\n")
    inode = (folder / "squeeze.conf").stat().st_ino
    target = made(folder)
    found = target.snapshot()
    target.apply(Config({"level": 0}))
    assert conf(folder) == "0\n"
    target.restore(found)
    assert conf(folder) == "3\n"
    assert (folder / "squeeze.conf").stat().st_ino == inode, "the file was replaced"


@pytest.mark.parametrize(
    ("read", "level"),
    [
        ("echo 7 {address}", None),
        ("/bin/sh -c 'echo 7'", 7),
        ("printf '%s\\n8\\n' {addresses}", 8),
        ("printf '%s = 9\\n' {addresses}", 9),
        ("echo {addresses}x", None),
        ("false {address}", None),
    ],
)
def test_values_in_use_are_asked_for(folder: Path, read: str, level: int | None) -> None:
    text = CATALOG[: CATALOG.index("[knob.threads]")]
    (folder / "catalog.toml").write_text(text)
    read = read if "{address" in read else read + " {address}"
    target = made(folder, read=read)
    if level is not None:
        assert target.states()["level"].running == level
        return
    with pytest.raises(TargetError, match="shows no value of address='level'|is not understood"):
        target.states()


def test_an_empty_value_in_use_is_not_the_name_below(folder: Path) -> None:
    """As redis-cli prints it: a name, and an empty line."""
    (folder / "told").write_text("save\n\nlevel\n3\n")
    target = made(folder, read=f"/bin/sh -c 'cat {folder}/told' {{addresses}}")
    assert target._reach.values(["save", "level"]) == {"save": "", "level": "3"}


def test_a_setting_that_the_program_does_not_tell_of_is_locked(folder: Path) -> None:
    """As another version of it has others; one that it has told before is missed."""
    (folder / "told").write_text("level 7\nchecksum yes\n")
    target = made(folder, read=f"/bin/sh -c 'cat {folder}/told' {{addresses}}", run="/bin/sleep 60")
    target.open()
    try:
        states = target.states()
        reason = "this program has no such setting, or does not show it"
        assert (states["level"].running, states["level"].lock_reason) == (7, "")
        assert (states["window"].running, states["window"].lock_reason) == (512, reason)
        assert states["threads"].lock_reason == reason
        (folder / "told").write_text("checksum yes\n")
        with pytest.raises(TargetError, match="shows no value of address='level'"):
            target.states()
    finally:
        target.close()


@pytest.mark.parametrize("read", ["{shell} -c 'echo 9' {address}", "{shell} -c 'echo level = 9' {addresses}"])
def test_names_may_stand_in_the_command_that_reads(folder: Path, read: str) -> None:
    (folder / "catalog.toml").write_text(CATALOG[: CATALOG.index("[knob.threads]")])
    assert made(folder, names={"shell": "/bin/sh"}, read=read).states()["level"].running == 9


def test_a_further_name_of_a_setting_counts_where_the_program_tells_it_by_that(folder: Path) -> None:
    more = f"codec = 'keyvalue'\nread = 'cat {folder}/told'\nprints = 'keyvalue'"
    text = CATALOG.replace('codec = "keyvalue"', more).replace("default = 3", "default = 3\nalso = ['strength']")
    (folder / "catalog.toml").write_text(text)
    target = made(folder)
    for told, level in (("strength = 8\n", 8), ("level = 5\nstrength = 8\n", 5), ("", 3)):
        (folder / "told").write_text(told)
        assert target.states()["level"].running == level


def test_a_setting_is_written_where_its_file_has_it_by_a_further_name(folder: Path) -> None:
    """A second line beside it could be refused, or be one that the program does not heed."""
    (folder / "catalog.toml").write_text(CATALOG.replace("default = 3", "default = 3\nalso = ['strength', 'force']"))
    text = CONF.replace("level = 3", "force = 5")
    (folder / "squeeze.conf").write_text(text)
    target = made(folder)
    state = target.states()["level"]
    assert (state.running, state.source, state.source_file) == (5, "configuration file", f"{folder}/squeeze.conf:2")
    found = target.snapshot()
    own = target.announce(Config({"level": 12, "window": 1024}))
    applied = target.apply(Config({"level": 12, "window": 1024}))
    assert applied.effective["level"] == 12
    assert conf(folder) == text.replace("force = 5", "force = 12").replace("512k", "1024k")
    with (folder / "squeeze.conf").open("a") as file:
        file.write("other = 1\n")
    target.restore(found, own)
    assert conf(folder) == f"{text}other = 1\n"


IN_PLACE = CATALOG.replace('codec = "keyvalue"', 'codec = "keyvalue"\nin_place = true')


def test_a_file_that_was_written_in_part_is_whole_again_after_the_way_back(folder: Path) -> None:
    """A kill or a full disk cuts off what is written in place; the first part of it says nothing of what others did."""
    (folder / "catalog.toml").write_text(IN_PLACE)
    target = made(folder)
    found = target.snapshot()
    own = target.announce(Config({"level": 12, "threads": 1}))
    changed = CONF.replace("level = 3 ", "level = 12 ") + "threads = 1\n"
    for text in (changed, CONF):
        for n_bytes in range(0, len(text), 3):
            (folder / "squeeze.conf").write_text(text[:n_bytes])
            target.restore(found, own)
            assert conf(folder) == CONF, text[:n_bytes]
    for theirs in ("# by hand\nlevel = 4\n", CONF.replace("512k", "1024k"), "level = 12\nother = 1\n"):
        (folder / "squeeze.conf").write_text(theirs)
        target.restore(found, own)
        assert conf(folder) == theirs.replace("level = 12", "level = 3")


def test_a_file_that_is_written_in_place_must_be_there(folder: Path) -> None:
    (folder / "catalog.toml").write_text(IN_PLACE)
    (folder / "squeeze.conf").unlink()
    reason = f"there is no file='{folder}/squeeze.conf': name the one that the program reads"
    assert made(folder).states()["level"].lock_reason == reason


def test_a_disk_that_takes_only_a_part_in_place_fails_the_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "catalog.toml").write_text(IN_PLACE)
    target = made(folder)
    target.snapshot()
    whole, room = LocalHost.write_in_place, [9, 1 << 20]

    def short(host: LocalHost, path: Path, content: bytes) -> None:
        whole(host, path, content[: room.pop(0)])

    monkeypatch.setattr(LocalHost, "write_in_place", short)
    with pytest.raises(ApplyError, match=r"written in part only: 9 of \d+ bytes") as caught:
        target.apply(Config({"level": 9}))
    assert caught.value.hint == "make room on its disk"
    assert conf(folder) == CONF


# --- what others do ---


def test_what_somebody_else_has_set_is_left_and_told(folder: Path) -> None:
    target = made(folder)
    found = target.snapshot()
    target.apply(Config({"level": 9, "window": 1024}))
    (folder / "squeeze.conf").write_text(conf(folder).replace("1024k", "2048k") + "extra = 1\n")
    (seen,) = target.disturbances()
    assert seen.stops
    assert "was changed by somebody else" in seen.text
    done = target.restore(found)
    assert conf(folder) == CONF.replace("512k", "2048k") + "extra = 1\n"
    assert done.put_back == ("level=3",)
    assert done.left == ("window=2048k: somebody else has set it to 2048k meanwhile (ours was 1024k, found was 512k)",)
    assert target.restore(found).text


def test_a_line_that_somebody_has_added_beside_ours_does_not_hold_up_the_others(folder: Path) -> None:
    """Of two lines with one name Trimtab cannot tell which one counts: its own goes all the same, and so does all else of it."""
    (folder / "squeeze.conf").write_text(without := CONF.replace("level = 3   # found best in May\n", ""))
    target = made(folder)
    found = target.snapshot()
    target.apply(Config({"level": 9, "window": 1024}))
    (folder / "squeeze.conf").write_text(conf(folder) + "level = 4\n")
    done = target.restore(found)
    assert conf(folder) == without + "level = 4\n"
    assert done.left == ("level=4: somebody else has set it to 4 meanwhile (ours was 9, found was (not in the file))",)


def test_what_somebody_has_written_is_told_as_theirs_also_where_it_cannot_be_read(folder: Path) -> None:
    """And where the values in use are asked for."""
    target = made(folder, read="sh -c 'echo 3' {address}")
    target.snapshot()
    (folder / "squeeze.conf").write_text(conf(folder) + "level = 4\n")
    (seen,) = target.disturbances()
    assert seen.stops
    assert "squeeze.conf' was changed by somebody else" in seen.text


def test_where_two_lines_remain_nothing_of_ours_is_left(folder: Path) -> None:
    target = made(folder)
    found = target.snapshot()
    target.apply(Config({"level": 9, "window": 1024}))
    (folder / "squeeze.conf").write_text(conf(folder) + "level = 4\n")
    done = target.restore(found)
    assert conf(folder) == CONF + "level = 4\n"
    assert done.put_back == ("window=512k",)
    assert done.left == ("level=4: somebody else has set it to 4 meanwhile (ours was 9, found was 3)",)


def test_a_file_that_was_changed_meanwhile_is_not_overwritten(folder: Path) -> None:
    target = made(folder)
    target.snapshot()
    (folder / "squeeze.conf").write_text(CONF + "extra = 1\n")
    with pytest.raises(ForeignChangeError, match="was changed by somebody else"):
        target.apply(Config({"level": 9}))
    assert conf(folder) == CONF + "extra = 1\n"


def test_a_change_that_was_cut_off_is_taken_back_from_the_journal(folder: Path) -> None:
    target = made(folder)
    found = snapshot_from_json(json.loads(json.dumps(snapshot_to_json(target.snapshot()))))
    announced = replace(target.announce(Config({"level": 9, "window": 1024})), is_whole=False)
    own = own_from_json(json.loads(json.dumps(own_to_json(announced))))
    target.apply(Config({"level": 9, "window": 1024}))
    (folder / "catalog.toml").unlink()  # the journal holds it
    other = ProgramTarget.from_snapshot(found, state_dir=folder / "state")
    assert other.restore(found, own).left == ()
    assert conf(folder) == CONF


def test_a_catalogue_that_this_version_would_refuse_still_leads_back(folder: Path) -> None:
    """It was obeyed by the version that made the change: an upgrade between a crash and `recover` must not stand in the way."""
    target = made(folder)
    found = target.snapshot()
    own = target.apply(Config({"level": 9})).own
    play = '\n[play.p]\nreason = "It may help here."\nwhen = "clients + 1"\nsettings = { level = 9 }\nsources = ["a book"]\n'
    refused = CATALOG.replace("default = 3\n", "default = 99\n") + play
    for text in (refused, refused.removesuffix(play)):
        with pytest.raises(UsageError, match=r"default=99 is not between 1 and 22|clients \+ 1"):
            parse_catalog(text, name="x")
    later = replace(found, reach={**found.reach, "catalog": refused})
    other = ProgramTarget.from_snapshot(later, state_dir=folder / "state")
    assert other.restore(later, own).left == ()
    assert conf(folder) == CONF
    with pytest.raises(UsageError, match=r"catalog='x': 'kind' is missing"):
        kept_catalog(CATALOG.replace('kind = "squeezer"', ""), name="x")


def test_files_of_another_machine_are_not_touched(folder: Path) -> None:
    target = made(folder)
    found = target.snapshot()
    applied = target.apply(Config({"level": 9}))
    other = replace(found, picture={**found.picture, "machine": "elsewhere"})
    with pytest.raises(RestoreError, match="these files are another machine's"):
        target.restore(other, applied.own)
    assert "level = 9" in conf(folder)


def test_two_state_directories_share_the_lock(folder: Path) -> None:
    first, second = made(folder), made(folder)
    held = pytest.raises(LockedError, match="another tuner holds this server: study=one")
    with first.lock("one"), held, second.lock("two"):
        pass
    with second.lock("two"):
        pass


# --- what is refused before anything is touched ---


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"catalog": "missing.toml"}, r"catalog='.*missing.toml' cannot be read: No such file"),
        ({"run": "x", "pid_file": "p"}, "run goes without pid_file"),
        ({"run": "x", "restart": "y"}, "run goes without restart"),
        ({"start": "x", "pid_file": "p"}, "start needs stop too"),
        ({"restart": "x"}, "restart needs pid_file too"),
        ({"read": "redis-cli config get"}, "read needs {address} or {addresses}"),
        ({"health": "'"}, "cannot be split into words"),
        ({"health": ""}, "is empty"),
        ({"files": {"other": "x"}}, "files names 'other', which is not a channel"),
        ({"knobs": ["levle"]}, "unknown knob or set='levle'"),
        ({"knobs": ["checksum"]}, "knob='checksum' is locked"),
        ({"catalogue": "x"}, "unknown key 'catalogue'"),
    ],
)
def test_wrong_tables_are_refused(folder: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        made(folder, **table).selection(CONTEXT)


def test_a_table_without_a_catalogue_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"\[target.zip\] lacks catalog"):
        ProgramTarget.from_settings("zip", {"kind": "program"}, state_dir=folder, directory=folder)


def test_an_address_that_comes_twice_is_refused(folder: Path) -> None:
    (folder / "squeeze.conf").write_text(CONF + "level = 4\n")
    with pytest.raises(TargetError, match=r"file='.*squeeze.conf': address='level' comes 2 times \(lines 2 and 5\)"):
        made(folder).open()


def test_a_value_in_use_that_is_not_understood_is_refused(folder: Path) -> None:
    """It may be the words of a command that has failed; one in a file locks its knob only: test_as_found.py."""
    with pytest.raises(TargetError, match="level='many' in the configuration file is not understood"):
        made(folder, read="sh -c 'echo many' {address}").states()


def test_what_is_ours_is_nothing_before_a_change(folder: Path) -> None:
    target = made(folder)
    found = target.snapshot()
    assert target.restore(found, Own()).text == "restored as it was found"
