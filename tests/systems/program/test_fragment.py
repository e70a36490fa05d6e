"""Settings as text for a program's files: in the syntax of each file, read back by its codec."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systems.program.conftest import CATALOG, made
from trimtab.host import LocalHost
from trimtab.space import Config
from trimtab.systems.catalog import Channel
from trimtab.systems.codec import CODECS
from trimtab.systems.file_channel import FileChannel

WRITTEN = {
    "keyvalue": ({"work_mem": "8MB", "jit": "off"}, "work_mem = 8MB\njit = off\n"),
    "ini": ({"top": "1", "mysqld.port": "3306"}, "top = 1\n[mysqld]\nport = 3306\n"),
    "yaml": (
        {"storage.cacheSizeGB": "2", "storage.journal.commit": "5"},
        "storage:\n  journal:\n    commit: 5\n  cacheSizeGB: 2\n",
    ),
    "mongod": (
        {"net.port": "27017", "storage.wiredTiger.engineConfig.configString#eviction.threads_min": "2"},
        'net:\n  port: 27017\nstorage:\n  wiredTiger:\n    engineConfig:\n      configString: "eviction=(threads_min=2)"\n',
    ),
    "directives": ({"timeout": "60", "listen": "80 http"}, "timeout 60\nlisten 80 http\n"),
    "redis": ({"maxmemory": "268435456", "save": "60 1000"}, "maxmemory 268435456\nsave 60 1000\n"),
    "nginx": ({"worker_processes": "4"}, "worker_processes 4;\n"),
    "jvm": ({"-Xmx": "2g", "-XX:UseG1GC": "false"}, "-Xmx2g\n-XX:-UseG1GC\n"),
    "scalar": ({"value": "10"}, "10\n"),
}
"""Codec -> values of addresses that an empty file can take, and the text."""

TOLD = {
    "directives": {"IfModule mpm_event_module.ServerLimit": "8"},
    "nginx": {"events.worker_connections": "1024"},
    "xml": {"Connector[port=8080]@maxThreads": "400"},
    "template": {"level": "19"},
}
"""Codec -> values of addresses that need what is around them."""


def channel_of(codec: str, path: Path) -> FileChannel:
    template = "-{{level}}" if codec == "template" else ""
    return FileChannel("conf", Channel(codec=codec, template=template), path, LocalHost(), {"level": "3"})


def test_every_codec_is_shown() -> None:
    assert {*WRITTEN, *TOLD} == set(CODECS)


@pytest.mark.parametrize("codec", WRITTEN)
def test_values_stand_in_the_syntax_of_their_file(codec: str, tmp_path: Path) -> None:
    values, text = WRITTEN[codec]
    channel = channel_of(codec, tmp_path / "some.conf")
    head, _, rest = channel.fragment(values, {address: address for address in values}).partition("\n")
    assert head == f"# {tmp_path}/some.conf (codec {codec})"
    assert rest == text
    assert {address: located.value for address, located in channel.codec.read(rest).items()} == values


@pytest.mark.parametrize("codec", TOLD)
def test_a_value_without_a_place_in_an_empty_file_is_told(codec: str, tmp_path: Path) -> None:
    ((address, value),) = TOLD[codec].items()
    text = channel_of(codec, tmp_path / "some.conf").fragment({address: value}, {address: address})
    assert text == (f"# {tmp_path}/some.conf (codec {codec})\n# set {address} to {value!r} at its place in that file\n")


def test_values_with_and_without_a_place_stand_in_one_text(tmp_path: Path) -> None:
    values = {"events.multi_accept": "on", "worker_processes": "4"}
    text = channel_of("nginx", tmp_path / "nginx.conf").fragment(values, {address: address for address in values})
    assert text == (
        f"# {tmp_path}/nginx.conf (codec nginx)\nworker_processes 4;\n"
        "# set events.multi_accept to 'on' at its place in that file\n"
    )


def test_a_knob_of_another_name_than_its_address_is_told(folder: Path) -> None:
    (folder / "catalog.toml").write_text(
        CATALOG.replace("[knob.level]", '[knob.effort]\naddress = "level"').replace("level <= 19", "effort <= 19")
    )
    text = made(folder).fragment(Config({"effort": 9, "window": 1024}))
    assert text == f"# {folder}/squeeze.conf (codec keyvalue)\n# effort is level\nlevel = 9\nwindow = 1024k\n"


def test_each_file_has_its_own_part(folder: Path) -> None:
    two = 'path = "squeeze.conf"\n[channel.kernel]\ncodec = "scalar"\npath = "threads"'
    catalog = CATALOG.replace('path = "squeeze.conf"', two).replace(
        "[knob.threads]", '[knob.threads]\nchannel = "kernel"'
    )
    for knob in ("level", "window", "checksum"):
        catalog = catalog.replace(f"[knob.{knob}]", f'[knob.{knob}]\nchannel = "conf"')
    (folder / "catalog.toml").write_text(catalog)
    assert made(folder).fragment(Config({"threads": 1, "level": 4})) == (
        f"# {folder}/squeeze.conf (codec keyvalue)\nlevel = 4\n"
        f"# {folder}/threads (codec scalar)\n# threads is value\n1\n"
    )
