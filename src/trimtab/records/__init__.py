"""WHAT happened: frozen values that every room above exchanges."""

from trimtab.records.endpoint import Endpoint
from trimtab.records.machine import Machine
from trimtab.records.objective import METRICS, MetricConstraint, Objective
from trimtab.records.trial import Context, Role, Status, Trial

__all__ = [
    "METRICS",
    "Context",
    "Endpoint",
    "Machine",
    "MetricConstraint",
    "Objective",
    "Role",
    "Status",
    "Trial",
]
