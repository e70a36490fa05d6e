"""WHAT happened: frozen values that every room above exchanges."""

from trimtab.records.endpoint import Endpoint
from trimtab.records.machine import Machine
from trimtab.records.objective import METRICS, MetricConstraint, Objective
from trimtab.records.rights import DataRights
from trimtab.records.trial import Context, Fault, Role, Status, Trial

__all__ = [
    "METRICS",
    "Context",
    "DataRights",
    "Endpoint",
    "Fault",
    "Machine",
    "MetricConstraint",
    "Objective",
    "Role",
    "Status",
    "Trial",
]
