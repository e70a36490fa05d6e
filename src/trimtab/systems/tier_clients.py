"""How many clients the tiers have that the load does not drive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from trimtab.errors import UsageError
from trimtab.records import Context
from trimtab.systems.base import KnobState
from trimtab.systems.tier import Tier

__all__ = ["TierClients"]


@dataclass(frozen=True, slots=True)
class TierClients:
    """See the module.

    Attributes:
        by_tier: tier -> a number, or the setting of another tier that limits it; default: the users of the load.
        tiers: their names, for people.
    """

    by_tier: Mapping[str, int | str]
    tiers: str

    def __bool__(self) -> bool:
        """Whether any tier has others than the load's."""
        return bool(self.by_tier)

    def limits(self, look: Callable[[], Mapping[str, KnobState]]) -> Mapping[str, KnobState]:
        """Tier -> the setting of another that limits its clients.

        Raises:
            UsageError: there is no such setting.
        """
        named = {tier: text for tier, text in self.by_tier.items() if isinstance(text, str)}
        states = look() if named else {}
        for tier, text in named.items():
            if text not in states:
                raise UsageError(
                    f"[stack] clients of {tier!r} names {text!r}: there is no such setting",
                    hint=f"write TARGET.knob, with one of the targets: {self.tiers}",
                )
        return {tier: states[text] for tier, text in named.items()}

    def seen_by(self, tier: Tier, context: Context, limits: Mapping[str, KnobState]) -> Context:
        """The load as a tier sees it: of as many clients as the setting lets through that limits them."""
        clients = self.by_tier.get(tier.name, context.clients)
        if isinstance(clients, str):
            running = limits[tier.name].running
            clients = int(running) if isinstance(running, int | float) and running >= 1 else context.clients
        return replace(context, clients=clients)
