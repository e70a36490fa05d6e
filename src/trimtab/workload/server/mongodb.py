"""MongoStore: databases of our own on a server that speaks MongoDB's protocol; each has one collection of records."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

from trimtab.errors import LoadError
from trimtab.records import Endpoint
from trimtab.workload.server.base import MARKER_TABLE, ServerError, Store

__all__ = ["RECORDS", "MongoSession", "MongoStore", "mongodb_url"]

RECORDS = "usertable"
"""The collection of records; `_id` is the key."""

_TIMEOUT_MS = 10_000
_BATCH = 1000
_IS_CLONE = "is_clone"
_OWN_OPTIONS = ("folder", "url")
"""Of an endpoint, for us: no driver knows them. Values in use come under names with a dot."""


def mongodb_url(endpoint: Endpoint) -> str:
    """The address as every driver takes it, without the password."""
    options = {
        name: value
        for name, value in endpoint.options.items()
        if name not in _OWN_OPTIONS and not name.startswith("value.")
    }
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    where = quote(endpoint.host, safe="") if endpoint.host.startswith("/") else f"{host}:{endpoint.port}"
    return f"mongodb://{where}/?{urlencode(options)}"


class MongoSession:
    """A client, and the database that it looks at; it holds the locks that were taken in it."""

    def __init__(self, endpoint: Endpoint, database: str) -> None:
        try:
            import pymongo
            from pymongo.errors import PyMongoError
        except ImportError as error:
            raise LoadError(
                "data on a MongoDB server are prepared with the package pymongo, which is not installed",
                hint="pip install 'trimtab[mongodb]'",
            ) from error
        self._error, self.locks = PyMongoError, list[int]()
        login: dict[str, Any] = {"username": endpoint.user, "password": endpoint.password} if endpoint.user else {}
        try:
            self.client: Any = pymongo.MongoClient(
                mongodb_url(endpoint), serverSelectionTimeoutMS=_TIMEOUT_MS, directConnection=True, **login
            )
            self.client.admin.command("ping")
        except PyMongoError as error:
            raise LoadError(
                f"cannot connect: endpoint={endpoint}: {error}"[:600], hint="check the target's url"
            ) from error
        self.database = self.client[database] if database else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        for each in self.locks:
            os.close(each)
        self.locks.clear()

    def tried(self, call: Any, *arguments: Any, **options: Any) -> Any:
        """What a call of the client gives.

        Raises:
            ServerError: the server refuses.
        """
        try:
            return call(*arguments, **options)
        except self._error as error:
            code = getattr(error, "code", None)
            words = str(error)[:600]
            raise ServerError(
                words, reason="disk_full" if code == 14031 or "No space left" in words else "other"
            ) from error

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Never.

        Raises:
            ServerError: always.
        """
        raise ServerError(f"a document server knows no statements: {statement[:40]!r}")

    def n_records(self) -> int:
        """How many records the database has."""
        return int(self.tried(self.database[RECORDS].count_documents, {})) if self.database is not None else 0


class MongoStore(Store):
    """See `Store`. Locks hold on this machine."""

    @property
    def password(self) -> str | None:
        """That of the endpoint."""
        return self.endpoint.password

    def connect(self, database: str | None = None) -> MongoSession:
        """A client."""
        return MongoSession(self.endpoint, database or self.endpoint.database)

    def lock(self, session: Any, name: str, *, wait: bool) -> bool:
        """By a file of this machine."""
        place = f"trimtab-{os.getuid()}-{self.endpoint.host}-{self.endpoint.port}-{name}.lock".replace("/", "_")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(Path(tempfile.gettempdir()) / place, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return False
        session.locks.append(descriptor)
        return True

    def exists(self, session: Any, database: str) -> bool:
        """Whether there is such a database."""
        return database in session.tried(session.client.list_database_names)

    def size_bytes(self, session: Any, database: str) -> int:
        """As the server counts them."""
        stats = session.tried(session.client[database].command, "dbStats")
        return int(stats.get("storageSize", 0)) + int(stats.get("indexSize", 0))

    def create(self, session: Any, database: str) -> None:
        """An empty collection of records."""
        session.tried(session.client[database].create_collection, RECORDS)

    def read_marker(self, session: Any, database: str) -> dict[str, Any] | None:
        """See `Store`; a document of a collection of its own."""
        own = session.client[database]
        found = session.tried(own[MARKER_TABLE].find_one, {"_id": 1})
        if found is not None:
            return {name: value for name, value in found.items() if name not in ("_id", _IS_CLONE)}
        others = [name for name in session.tried(own.list_collection_names) if name != MARKER_TABLE]
        if others == [RECORDS] and not session.tried(own[RECORDS].find_one):
            return None
        raise LoadError(
            f"database={database} exists and was not made by Trimtab",
            hint='name another one: database = "..." in [workload]; Trimtab creates it',
        )

    def write_marker(self, session: Any, content: Mapping[str, Any]) -> None:
        """Replaces the document."""
        own = session.database[MARKER_TABLE]
        session.tried(own.replace_one, {"_id": 1}, {"_id": 1, **content}, upsert=True)

    def drop(self, session: Any, database: str) -> None:
        """Drops it; nothing happens when there is none."""
        session.tried(session.client.drop_database, database)

    def clone(self, session: Any, source: str, copy: str) -> None:
        """The server copies the records; the mark comes first, so that half a copy is known."""
        content = self.read_marker(session, source) or {}
        there = session.client[copy]
        session.tried(there[MARKER_TABLE].replace_one, {"_id": 1}, {"_id": 1, **content, _IS_CLONE: True}, upsert=True)
        try:
            session.tried(
                session.client[source][RECORDS].aggregate, [{"$match": {}}, {"$out": {"db": copy, "coll": RECORDS}}]
            )
        except ServerError:
            # Older servers, and others of the same protocol, write into the database that they read from only.
            self._carry(session, source, copy)

    def _carry(self, session: Any, source: str, copy: str) -> None:
        there = session.client[copy][RECORDS]
        records = iter(session.tried(session.client[source][RECORDS].find))
        while batch := session.tried(list, islice(records, _BATCH)):  # the client asks for them only now
            session.tried(there.insert_many, batch)

    def is_clone(self, session: Any, database: str) -> bool:
        """Whether `clone` has made it."""
        found = session.tried(session.client[database][MARKER_TABLE].find_one, {"_id": 1})
        return found is not None and found.get(_IS_CLONE) is True

    def settle(self, session: Any) -> str:
        """Writes a checkpoint, where the user may."""
        try:
            session.tried(session.client.admin.command, "fsync")
        except ServerError as error:
            return f"the server was not asked for a checkpoint: {error.message}"
        return ""

    def data_directory(self, session: Any) -> str | None:
        """Not asked."""
        return None
