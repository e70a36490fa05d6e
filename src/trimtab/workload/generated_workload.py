"""GeneratedWorkload: what the workloads share whose data Trimtab makes itself, and copies for runs that write."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from trimtab.records import DataRights, Endpoint
from trimtab.workload.base import Preparation, require_protocol
from trimtab.workload.database import Dataset, ensure
from trimtab.workload.engine_workload import EngineWorkload
from trimtab.workload.run_database import RunDatabase

__all__ = ["GeneratedWorkload"]


class GeneratedWorkload(EngineWorkload):
    """An `EngineWorkload` on data of our own; its settings have `database`, `start_state` and `is_read_only` besides."""

    def __init__(self, settings: Any) -> None:
        is_copied = settings.start_state == "template" or (settings.start_state == "auto" and not settings.is_read_only)
        super().__init__(settings, RunDatabase(settings.database, is_copied))

    @property
    @abstractmethod
    def dataset(self) -> Dataset:
        """What the database is to hold."""

    @property
    def rights(self) -> DataRights:
        """What a user must be allowed to do with the data."""
        return DataRights(
            database=self.database.data, makes_databases=True, is_users_own=False, reads_only=self.settings.is_read_only
        )

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Makes the database exist with all its rows; what is there already is verified and kept."""
        require_protocol(self.kind, self.protocols, endpoint)
        if endpoint.protocol == "wiredtiger" and self._sets_timeout:
            report(
                "[workload] operation_timeout has no effect on a target of kind=wiredtiger: nothing cuts a call of a library off"
            )
        return ensure(endpoint, self.dataset, report)

    @property
    def _sets_timeout(self) -> bool:
        """Whether it has another one than the default."""
        usual = {field.name: field.default for field in fields(self.settings)}
        return bool(self.settings.operation_timeout_s != usual["operation_timeout_s"])
