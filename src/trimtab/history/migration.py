"""From each former version of the schema to the next: steps forward, each run inside the caller's transaction.

A step knows the tables as they were then and as they were after it, by names of its own, so that it stays right when the
tables change again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, column, table, text

__all__ = ["STEPS"]

_BATCH = 500
"""Rows that are read and written together."""


def _from_1(connection: Connection) -> None:
    """Columns to find studies and trials by; measurements compressed; spaces with `also_legal` and `fixed`."""
    binary = "bytea" if connection.dialect.name == "postgresql" else "blob"
    real = "double precision" if connection.dialect.name == "postgresql" else "double"
    words = ("target", "server_version", "workload", "objective", "origin")
    for name, kind in [*((word, "text not null default ''") for word in words),
                       ("cores", "integer not null default 0"), ("memory_bytes", "bigint not null default 0")]:  # fmt: skip
        connection.execute(text(f"alter table trimtab_study add column {name} {kind}"))
    for name, kind in (
        ("started_at", f"{real} not null default 0"),
        ("loss", real),
        ("config", "text not null default '{}'"),
        ("detail", f"{binary} not null default ''"),
    ):
        connection.execute(text(f"alter table trimtab_trial add column {name} {kind}"))
    connection.execute(text("create index trimtab_study_created on trimtab_study (created_at)"))
    _studies_from_1(connection)
    _trials_from_1(connection)


_STUDY = table("trimtab_study", *(column(name) for name in ("id", "body", "target", "server_version", "workload",
                                                            "objective", "cores", "memory_bytes")))  # fmt: skip
_TRIAL = table(
    "trimtab_trial",
    *(column(name) for name in ("study_id", "number", "body", "started_at", "loss", "config", "detail")),
)


def _studies_from_1(connection: Connection) -> None:
    for row in connection.execute(_STUDY.select().with_only_columns(_STUDY.c.id, _STUDY.c.body)).all():
        body = json.loads(row.body)
        space = body["space"]
        # Version 1 kept no constants: which names are unknown shows when the space is built.
        space["constraints"] = [{**entry, "constants": {}} for entry in space.get("constraints", [])]
        # A running value was always legal, whatever the range says (study.stage made spaces so).
        space["also_legal"] = {entry["name"]: [body["baseline"][entry["name"]]] for entry in space.get("knobs", [])
                               if entry["name"] in body["baseline"]}  # fmt: skip
        space["fixed"] = {}
        machine = body["machine"]
        connection.execute(
            _STUDY.update()
            .where(_STUDY.c.id == row.id)
            .values(
                body=_dumps(body),
                target=_kinds(body["settings"]),
                server_version=_shown(machine.get("server_version", "")),
                workload=_shown(body["context"]["workload"]),
                objective=_shown(body["objective"]),
                cores=machine["cores"],
                memory_bytes=machine["memory_bytes"],
            )
        )


def _trials_from_1(connection: Connection) -> None:
    keys = connection.execute(_TRIAL.select().with_only_columns(_TRIAL.c.study_id, _TRIAL.c.number)).all()
    for start in range(0, len(keys), _BATCH):
        for key in keys[start : start + _BATCH]:
            where = (_TRIAL.c.study_id == key.study_id) & (_TRIAL.c.number == key.number)
            body = json.loads(
                connection.execute(_TRIAL.select().with_only_columns(_TRIAL.c.body).where(where)).scalar_one()
            )
            config, measurement, loss = body.pop("config"), body.pop("measurement"), body["loss"]
            is_finite = loss is not None and abs(loss) <= 1e308
            detail = zlib.compress(_dumps({"measurement": measurement}).encode()) if measurement is not None else b""
            connection.execute(
                _TRIAL.update().where(where).values(
                    body=_dumps(body), config=_dumps(config), loss=loss if is_finite else None,
                    started_at=body["started_at"], detail=detail,
                )
            )  # fmt: skip


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _kinds(settings: Mapping[str, Any]) -> str:
    targets = settings.get("target")
    tables = targets.values() if isinstance(targets, Mapping) else ()
    return _shown("+".join(str(entry.get("kind", "")) for entry in tables if isinstance(entry, Mapping)))


def _shown(value: str) -> str:
    """What a text column can hold of it."""
    return value.replace("\0", " ").encode(errors="replace").decode()


STEPS: Mapping[int, Callable[[Connection], None]] = {1: _from_1}
"""Version -> what brings it to the next one."""
