"""A copy of an engine's table is written record by record: it needs as much room as the table has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import LoadError
from trimtab.load.engine import EngineError
from trimtab.records import Endpoint
from trimtab.workload.database import clone
from trimtab.workload.server import wiredtiger
from trimtab.workload.server.wiredtiger import WiredTigerStore

TABLE = {"table": "kv.0123456789ab.0", "is_clone": False}


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """An engine that has one database of a megabyte, and refuses to copy any."""

    def answer(socket: str, command: dict[str, Any]) -> Any:
        if command["do"] == "copy":
            raise EngineError(f"there is no database={command['source']!r}")
        return {"kv": TABLE}

    monkeypatch.setattr(wiredtiger, "ask", answer)
    (tmp_path / f"{TABLE['table']}.wt").write_bytes(bytes(1 << 20))
    return Endpoint(protocol="wiredtiger", host=str(tmp_path / "engine.sock"), port=0, user="", database="kv")


def test_a_copy_that_the_disk_has_no_room_for_is_not_begun(there: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WiredTigerStore, "free_bytes", lambda self, session: 64 << 20)
    with pytest.raises(LoadError, match="disk too small for a copy of database=kv: free=64MiB needed=65MiB"):
        clone(there, "kv", "kv_run")


def test_what_is_not_there_is_not_copied(there: Endpoint) -> None:
    with pytest.raises(LoadError, match="cannot copy database=gone to gone_run: there is no database='gone'"):
        clone(there, "gone", "gone_run")
