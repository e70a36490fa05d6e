"""What all tiers on one machine may take of its memory together, and what must hold between tiers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from trimtab.errors import UsageError
from trimtab.space import Constraint, Value, base_value
from trimtab.systems.base import KnobState
from trimtab.systems.memory import MemoryModel
from trimtab.systems.tier import Tier
from trimtab.units import format_size

__all__ = ["between_tiers", "budgets", "joined"]


def joined(
    tiers: Sequence[Tier],
    models: Mapping[str, MemoryModel],
    memory: int | None,
    limits: Mapping[str, KnobState] | None = None,
) -> dict[str, MemoryModel]:
    """Host -> the model of all its tiers, whose budget is the least of `memory` and what the machine has.

    `limits`: tier -> the setting of another tier that says how many clients it has.
    """
    found = {}
    for host in dict.fromkeys(model.host for model in models.values()):
        mine = [tier for tier in tiers if models[tier.name].host == host]
        whole = reduce(MemoryModel.joined, (_whole(tier, models[tier.name], limits or {}) for tier in mine))
        most = max(_limit(tier, models[tier.name]) for tier in mine)
        found[host] = replace(whole, budget_bytes=min(most, memory) if memory is not None else most)
    return found


def _whole(tier: Tier, model: MemoryModel, limits: Mapping[str, KnobState]) -> MemoryModel:
    """The model of a tier under the names of the stack."""
    named = model.prefixed(tier.name)
    limit = limits.get(tier.name)
    return named if limit is None else named.with_knob_for(f"{tier.name}.clients", limit.knob, limit.running)


def _limit(tier: Tier, model: MemoryModel) -> int:
    """What the machine or the cgroup of one tier has; what its table says where that cannot be seen from here."""
    return model.budget_bytes if model.host else tier.target.machine().memory_bytes


def budgets(
    tiers: Sequence[Tier],
    models: Mapping[str, MemoryModel],
    memory: int | None,
    names: Collection[str],
    limits: Mapping[str, KnobState],
) -> tuple[Constraint, ...]:
    """One constraint for each host, and one for each tier that a cgroup holds to less; over those of `names` that matter."""
    found = []
    hosts = joined(tiers, models, memory, limits)
    for host, model in hosts.items():
        label = f"memory budget of host={host}" if len(hosts) > 1 and host else "memory budget"
        found.append(model.constraint(names, label=label))
    for tier in tiers:
        model, limit = models[tier.name], _limit(tier, models[tier.name])
        if limit < hosts[model.host].budget_bytes:
            part = replace(_whole(tier, model, limits), budget_bytes=limit)
            found.append(part.constraint(names, label=f"memory limit of {tier.name} ({format_size(limit)})"))
    return tuple(constraint for constraint in found if constraint is not None)


def between_tiers(
    texts: Sequence[str], states: Mapping[str, KnobState], names: Collection[str]
) -> tuple[Constraint, ...]:
    """[stack] constraints, those in which one of `names` comes; other knobs stand at their running values.

    Raises:
        UsageError: a name that is no knob of a tier.
        SpaceError: a text that is not in the language.
    """
    found = []
    for index, text in enumerate(texts):
        constraint = Constraint(text, name=f"stack.constraints[{index}]")
        for name in constraint.names:
            if name not in states:
                raise _unknown(name, index, states)
        if set(constraint.names) & set(names):
            fixed: dict[str, Value] = {
                n: base_value(states[n].knob, states[n].running) for n in constraint.names if n not in names
            }
            found.append(replace(constraint, constants=fixed))
    return tuple(found)


def _unknown(name: str, index: int, states: Mapping[str, KnobState]) -> UsageError:
    tiers = sorted({each.partition(".")[0] for each in states})
    tier, dot, knob = name.partition(".")
    if not dot or tier not in tiers:
        return UsageError(
            f"stack.constraints[{index}] names {name!r}: there is no target {tier!r}"
            if dot
            else f"stack.constraints[{index}] names {name!r}, which says not of which target",
            hint=f"write TARGET.knob, with one of the targets: {', '.join(tiers)}",
        )
    return UsageError(
        f"stack.constraints[{index}] names {name!r}: target {tier!r} has no knob {knob!r}",
        hint="see `trimtab knobs --all` for its knobs",
    )
