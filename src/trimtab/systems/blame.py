"""Which tier of a stack failed first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trimtab.errors import TargetError
from trimtab.systems.capabilities import Evidence, ForensicTarget
from trimtab.systems.tier import Tier

__all__ = ["evidence_of"]


def evidence_of(tiers: Sequence[Tier]) -> Evidence:
    """The evidence of the lowest of `tiers` (bottom first) that fell, else of the lowest that complains; else the logs of all."""
    if len(tiers) == 1:
        return _evidence(tiers[0])
    found = [(tier, _evidence(tier)) for tier in tiers]
    for has_failed in (_has_fallen, _has_complained):
        for tier, evidence in found:
            if has_failed(tier, evidence):
                return _told(tier, evidence)
    return Evidence(log="\n".join(tier.said(evidence.log) for tier, evidence in found if evidence.log.strip()))


def _has_fallen(tier: Tier, found: Evidence) -> bool:
    died = any(symptom.is_death for symptom in found.symptoms)
    return died or not found.is_up or found.is_stopped or not _serves(tier)


def _has_complained(tier: Tier, found: Evidence) -> bool:
    return bool(found.symptoms)


def _evidence(tier: Tier) -> Evidence:
    target = tier.target
    return target.evidence() if isinstance(target, ForensicTarget) else Evidence(log=target.log_excerpt())


def _serves(tier: Tier) -> bool:
    try:
        tier.target.health()
    except TargetError:
        return False
    return True


def _told(tier: Tier, found: Evidence) -> Evidence:
    symptoms = tuple(replace(symptom, text=tier.said(symptom.text)) for symptom in found.symptoms)
    return replace(found, symptoms=symptoms, log=tier.said(found.log) if found.log.strip() else "")
