"""WHAT happened: frozen values that every room above exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.records.cycle import ContextResult, Cycle, CycleSummary, Visit
    from trimtab.records.endpoint import Endpoint
    from trimtab.records.gain import GainInterval
    from trimtab.records.hindsight import compared, in_hindsight, judged_again, noise_sd_of, se_of, se_of_run
    from trimtab.records.machine import Machine
    from trimtab.records.objective import FIGURES, METRICS, MetricConstraint, Objective
    from trimtab.records.prior import WITHIN_LIMITS, KnobPrior, Play, Prior
    from trimtab.records.query_class import CLASSES_KEPT, QueryClass, classes_from_json, classes_to_json
    from trimtab.records.rights import DataRights
    from trimtab.records.trial import BASELINE_ROLES, Context, Fault, Role, Status, Trial, seconds_of
    from trimtab.records.verdict import (
        AblationSummary,
        BenchSummary,
        Condition,
        DesignPlan,
        DriftPoint,
        DriftSummary,
        DroppedKnob,
        KeptRanks,
        KnobChange,
        KnobWorth,
        MemoryUse,
        PassesPlan,
        PassesSummary,
        PassSummary,
        PastTrials,
        PlaysSummary,
        PruneLevel,
        PrunePlan,
        PruneSummary,
        StopKind,
        TriedPlay,
        Verdict,
        WarmStartSummary,
        WarmStudy,
    )
else:
    __getattr__ = deferred(
        __name__,
        {
            "cycle": "ContextResult Cycle CycleSummary Visit",
            "endpoint": "Endpoint",
            "gain": "GainInterval",
            "hindsight": "compared in_hindsight judged_again noise_sd_of se_of se_of_run",
            "machine": "Machine",
            "objective": "FIGURES METRICS MetricConstraint Objective",
            "prior": "WITHIN_LIMITS KnobPrior Play Prior",
            "query_class": "CLASSES_KEPT QueryClass classes_from_json classes_to_json",
            "rights": "DataRights",
            "trial": "BASELINE_ROLES Context Fault Role Status Trial seconds_of",
            "verdict": "AblationSummary BenchSummary Condition DesignPlan DriftPoint DriftSummary DroppedKnob "
            "KeptRanks "
            "KnobChange KnobWorth MemoryUse PassSummary PassesPlan PassesSummary PastTrials PlaysSummary PruneLevel "
            "PrunePlan PruneSummary StopKind TriedPlay Verdict "
            "WarmStartSummary WarmStudy",
        },
    )

__all__ = [
    "BASELINE_ROLES",
    "CLASSES_KEPT",
    "FIGURES",
    "METRICS",
    "WITHIN_LIMITS",
    "AblationSummary",
    "BenchSummary",
    "Condition",
    "Context",
    "ContextResult",
    "Cycle",
    "CycleSummary",
    "DataRights",
    "DesignPlan",
    "DriftPoint",
    "DriftSummary",
    "DroppedKnob",
    "Endpoint",
    "Fault",
    "GainInterval",
    "KeptRanks",
    "KnobChange",
    "KnobPrior",
    "KnobWorth",
    "Machine",
    "MemoryUse",
    "MetricConstraint",
    "Objective",
    "PassSummary",
    "PassesPlan",
    "PassesSummary",
    "PastTrials",
    "Play",
    "PlaysSummary",
    "Prior",
    "PruneLevel",
    "PrunePlan",
    "PruneSummary",
    "QueryClass",
    "Role",
    "Status",
    "StopKind",
    "Trial",
    "TriedPlay",
    "Verdict",
    "Visit",
    "WarmStartSummary",
    "WarmStudy",
    "classes_from_json",
    "classes_to_json",
    "compared",
    "in_hindsight",
    "judged_again",
    "noise_sd_of",
    "se_of",
    "se_of_run",
    "seconds_of",
]
