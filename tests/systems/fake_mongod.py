"""A mongod that reaches nothing: its answers, and a client library that gives them; shaped as MongoDB's reference shows."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, ClassVar

from trimtab.systems.catalog import Catalog
from trimtab.systems.catalog_file import parse_catalog

__all__ = [
    "OPTIONS",
    "PARAMETERS",
    "PROFILE",
    "STATUS",
    "FakeClient",
    "FakeMongoError",
    "FakeSilenceError",
    "catalogue",
]

PARAMETERS: dict[str, Any] = {
    "ttlMonitorSleepSecs": 60,
    "syncdelay": 60.0,
    "journalCommitInterval": 100,
    "authenticationMechanisms": ["SCRAM-SHA-1", "SCRAM-SHA-256"],
    "logicalSessionRefreshMillis": 300000,
    "wiredTigerEngineRuntimeConfig": "eviction_dirty_target=10",
    "storageEngineConcurrencyAdjustmentAlgorithm": "throughputProbing",
    "enableFlowControl": True,
    "featureCompatibilityVersion": {"version": "7.0"},
    "ok": 1.0,
}
OPTIONS = {
    "argv": ["mongod", "--config", "/etc/mongod.conf"],
    "parsed": {
        "net": {"port": 27017, "bindIp": "127.0.0.1"},
        "storage": {"dbPath": "/var/lib/mongodb", "wiredTiger": {"engineConfig": {
            "cacheSizeGB": 2.0, "configString": "eviction=(threads_min=4),eviction_dirty_target=5"}}},
        "systemLog": {"destination": "file"},
    },
    "ok": 1.0,
}  # fmt: skip
PROFILE = {"was": 1, "slowms": 100, "sampleRate": 1.0, "ok": 1.0}
STATUS = {
    "opcounters": {"insert": 5, "query": 7},
    "wiredTiger": {
        "cache": {"maximum bytes configured": 2147483648, "bytes read into cache": 12},
        "uri": "statistics:",
    },
    "host": "db1",
    "ok": 1.0,
}


def catalogue() -> Catalog:
    text = (files("trimtab.catalog") / "kinds" / "mongodb.toml").read_text(encoding="utf-8")
    return parse_catalog(text, name="mongodb.toml")


class FakeMongoError(Exception):
    """As the client library raises it."""


class FakeSilenceError(FakeMongoError):
    """As the client library raises it of a server that it cannot reach."""


class FakeDatabase:
    """Answers commands; refuses one parameter, and everything that only a start sets."""

    def __init__(self, seen: list[dict[str, Any]]) -> None:
        self.seen = seen

    def command(self, command: dict[str, Any]) -> dict[str, Any]:
        self.seen.append(command)
        if FakeClient.silence:
            raise FakeSilenceError(FakeClient.silence)
        if "logicalSessionRefreshMillis" in command or "slowOpThresholdMs" in command:
            raise FakeMongoError("not allowed to change at runtime")
        if "profile" in command:
            if FakeClient.hides_profile:
                raise FakeMongoError("not authorized on admin to execute command")
            return PROFILE
        if "hello" in command:
            return FakeClient.hello
        if "buildInfo" in command:
            return {"version": FakeClient.version}
        if command.get("ttlMonitorSleepSecs") == -1:
            raise FakeMongoError("Invalid value for parameter ttlMonitorSleepSecs")
        if "getParameter" in command:
            return PARAMETERS
        return OPTIONS if "getCmdLineOpts" in command else STATUS


class FakeClient:
    """A client that reaches nothing."""

    seen: ClassVar[list[dict[str, Any]]] = []
    logins: ClassVar[list[tuple[str, str | None, str | None]]] = []
    version: ClassVar[str] = "7.0.5"
    hello: ClassVar[dict[str, Any]] = {"isWritablePrimary": True, "ok": 1.0}
    hides_profile: ClassVar[bool] = False
    silence: ClassVar[str] = ""
    waits_ms: ClassVar[list[int]] = []

    def __init__(self, url: str, **options: Any) -> None:
        if not url.startswith("mongodb://"):
            raise ValueError("Invalid URI scheme")
        self.waits_ms.append(options["serverSelectionTimeoutMS"])
        self.logins.append((url, options.get("username"), options.get("password")))

    def __getitem__(self, name: str) -> FakeDatabase:
        return FakeDatabase(self.seen)

    def close(self) -> None:
        pass
