"""Two snapshots of one server: by what is changed there, and not by what its target is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.systems.program.conftest import CATALOG
from trimtab.systems import Snapshot, is_same_server
from trimtab.systems.program import ProgramTarget

FILE: Mapping[str, Any] = {"content": "x\n", "mode": 0o644, "uid": 0, "gid": 0}


def httpd(name: str, *paths: str, **more: Any) -> Snapshot:
    return Snapshot(target=name, kind="httpd", reach={}, files=dict.fromkeys(paths, FILE), **more)


CONF = "/etc/apache2/apache2.conf"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (httpd("web", CONF), httpd("front", CONF), True),
        (httpd("web", CONF), httpd("front", "/etc/apache2/mods/x.conf", CONF), True),
        (httpd("web", CONF), httpd("web", "/srv/second/apache2.conf"), False),
        (httpd("web", CONF, picture={"machine": "a"}), httpd("web", CONF, picture={"machine": "b"}), False),
        (httpd("web", CONF, picture={"machine": "a"}), httpd("front", CONF, picture={"machine": "a"}), True),
        (httpd("web", CONF, picture={"machine": "a"}), httpd("front", CONF), True),
        # A table of a node has no path: the name is all that there is.
        (httpd("web", "cql:shop.orders"), httpd("web", "cql:shop.orders"), True),
        (httpd("web", "cql:shop.orders"), httpd("front", "cql:shop.orders"), False),
        (httpd("web"), httpd("web"), True),
        (httpd("web"), httpd("front"), False),
    ],
)
def test_files_decide_where_nothing_else_says_which_server_it_is(
    one: Snapshot, other: Snapshot, expected: bool
) -> None:
    assert is_same_server(one, other) is expected
    assert is_same_server(other, one) is expected


def test_an_address_or_an_identifier_is_asked_first() -> None:
    def db(name: str, url: str, **picture: str) -> Snapshot:
        files = {f"/etc/mysql/{name}.cnf": FILE}
        return Snapshot(target=name, kind="mysql", reach={"url": url}, files=files, picture=picture)

    assert is_same_server(db("a", "mysql://h:1/"), db("b", "mysql://h:1/"))
    assert not is_same_server(db("a", "mysql://h:1/"), db("a", "mysql://h:2/"))
    assert is_same_server(db("a", "mysql://h:1/", identifier="7"), db("b", "mysql://h:2/", identifier="7"))
    assert not is_same_server(db("a", "mysql://h:1/", identifier="7"), db("a", "mysql://h:1/", identifier="8"))


def test_targets_of_two_studies_over_one_file_are_one_server(tmp_path: Path) -> None:
    def snapshot(name: str, folder: str, file: str) -> Snapshot:
        home = tmp_path / folder
        home.mkdir(exist_ok=True)
        (home / "catalog.toml").write_text(CATALOG)
        (tmp_path / file).write_text("level = 3\n")
        table = {
            "kind": "program",
            "catalog": "catalog.toml",
            "memory": "64MB",
            "files": {"conf": str(tmp_path / file)},
        }
        return ProgramTarget.from_settings(name, table, state_dir=tmp_path / "state", directory=home).snapshot()

    web, front = snapshot("web", "a", "one.conf"), snapshot("front", "b", "one.conf")
    assert is_same_server(web, front)
    assert not is_same_server(web, snapshot("web", "b", "two.conf"))
