"""Stack: the targets of a study as one. A study of one target is a stack of one tier, whose names have no prefix.

    stack = Stack([Tier(name="db", target=database), Tier(name="cache", target=cache)], memory=8 << 30)
    stack.states()["db.work_mem"]
    for step in stack.plan(config, now={}, models=stack.models(context)):
        step.tier.target.apply(step.config)

Each tier sees its own names only; so does the gate, which knows dangerous names without a prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.errors import SpaceError, TargetError, UsageError
from trimtab.space import Config
from trimtab.systems.base import KnobState, Snapshot, Target
from trimtab.systems.capabilities import ForensicTarget, LastingTarget, PlayingTarget
from trimtab.systems.follow import depending, follows_of, require_followers
from trimtab.systems.gate import check_harmless, require_open
from trimtab.systems.host_budget import between_tiers, budgets, joined
from trimtab.systems.memory import MemoryModel
from trimtab.systems.same_server import is_same_server, shared_file
from trimtab.systems.stack_watch import StackWatch
from trimtab.systems.tier import Step, Tier, ordered
from trimtab.systems.tier_clients import TierClients

if TYPE_CHECKING:
    from trimtab.records import Context, Endpoint, Machine, Play
    from trimtab.space import Constraint, Value
    from trimtab.systems.capabilities import Disturbance, Evidence

__all__ = ["Stack"]


class Stack:
    """See the module.

    Args:
        tiers: bottom first: each after those that it needs.
        memory: what the tiers of one machine may use together, in bytes; None: what it has.
        constraints: what must hold between knobs of several tiers, in the constraint language.
        driven: the tier that the load drives; "" for the highest.
        data: the tier that keeps the data of the one that the load drives; "" for itself.

    Attributes:
        tiers: bottom first.
        driven: the tier that the load drives.
        data: the tier that keeps the data of it.
        follows: tier -> those after whose restart it is restarted, bottom first.
        watch: the resources of all tiers and their machine.

    Raises:
        UsageError: no tier, or `driven` is none of them.
    """

    def __init__(
        self,
        tiers: Sequence[Tier],
        *,
        memory: int | None = None,
        constraints: Sequence[str] = (),
        driven: str = "",
        data: str = "",
        clients: Mapping[str, int | str] | None = None,
    ) -> None:
        if not tiers:
            raise UsageError("a stack has at least one target", hint="add a [target.NAME] table")
        is_one = len(tiers) == 1
        self.tiers = tuple(replace(tier, prefix="" if is_one else f"{tier.name}.") for tier in tiers)
        self._memory = memory
        self._constraints = tuple(constraints)
        self._clients = TierClients(clients or {}, self.name)
        self.driven = self.tier(driven) if driven else self.tiers[-1]
        self.data = self.tier(data) if data else self.driven
        self.follows = follows_of(self.tiers)
        self.watch = StackWatch(self.tiers, memory)

    @classmethod
    def of(cls, target: Target) -> Stack:
        """One target; its names stay as they are."""
        return cls([Tier(name=target.name, target=target)])

    @property
    def is_one(self) -> bool:
        """Whether it has a single tier."""
        return len(self.tiers) == 1

    @property
    def folders(self) -> tuple[Path, ...]:
        """Of its private servers, which outlive studies."""
        found = (getattr(tier.target, "private_folder", None) for tier in self.tiers)
        return tuple(folder for folder in found if folder is not None)

    @property
    def kind(self) -> str:
        """Kinds of its targets from the bottom up, joined by "+"."""
        return "+".join(tier.target.kind for tier in self.tiers)

    @property
    def name(self) -> str:
        """Names of its tiers, for people."""
        return ", ".join(tier.name for tier in self.tiers)

    def driving(self, name: str, data: str = "") -> Stack:
        """The same targets, with the load on the tier of that name, and its data on that of the other."""
        return self._of(self.tiers, name, data)

    def permitted(self) -> Stack:
        """The same targets as one sees them who may change their settings, to be looked at only (see `RestrictedTarget`)."""
        return self._of([tier.permitted() for tier in self.tiers], self.driven.name, self.data.name)

    def _of(self, tiers: Sequence[Tier], driven: str, data: str) -> Stack:
        return Stack(tiers, memory=self._memory, constraints=self._constraints, driven=driven, data=data,
                     clients=self._clients.by_tier)  # fmt: skip

    def tier(self, name: str) -> Tier:
        """A tier by its name.

        Raises:
            UsageError: there is none.
        """
        for tier in self.tiers:
            if tier.name == name:
                return tier
        raise UsageError(f"there is no target {name!r}", hint=f"the targets are: {self.name}")

    # --- reach ---

    def open(self) -> None:
        """Opens the tiers, the lowest first; those that are open are closed again when one cannot be.

        Raises:
            TargetError: one cannot be reached.
            UsageError: two are one server, or one that must be restarted after another cannot be.
        """
        with ExitStack() as opened:
            for tier in self.tiers:
                opened.callback(tier.target.close)
                with tier.asked():
                    tier.target.open()
            self._require_distinct()
            require_followers(self.tiers)
            self.watch.name_disks()
            opened.pop_all()

    def close(self) -> None:
        """Closes all, the highest first."""
        with ExitStack() as opened:
            for tier in self.tiers:
                opened.callback(tier.target.close)

    def _require_distinct(self) -> None:
        """That no two tiers are one server, and no two write one file: each would take back what the other has set."""
        if self.is_one:
            return
        found: list[tuple[Tier, Snapshot]] = []
        for tier in self.tiers:
            with suppress(TargetError):  # one that cannot be journalled as it is says so when that is needed
                found.append((tier, tier.target.snapshot()))
        for (one, mine), (other, theirs) in combinations(found, 2):
            if is_same_server(mine, theirs):
                raise UsageError(
                    f"targets {one.name!r} and {other.name!r} are one server",
                    hint="drop one of the two [target] tables",
                )
            if path := shared_file(mine, theirs):
                raise UsageError(
                    f"targets {one.name!r} and {other.name!r} both write file={path!r}",
                    hint="tune the settings of one file by one target",
                )

    @contextmanager
    def lock(self, holder: str) -> Iterator[None]:
        """All tiers for one tuner, or none; taken in one order by every tuner, so that two never wait for each other.

        Raises:
            LockedError: another tuner holds one; nothing stays locked.
        """
        with ExitStack() as locks:
            for tier in sorted(self.tiers, key=lambda tier: (tier.target.kind, tier.name)):
                with tier.asked():
                    locks.enter_context(tier.target.lock(holder))
            yield

    def machine(self) -> Machine:
        """Facts about the machine of the lowest tier, and the versions of all."""
        found = [tier.target.machine() for tier in self.tiers]
        versions = (tier.said(each.server_version) for tier, each in zip(self.tiers, found, strict=True))
        return replace(found[0], server_version="; ".join(versions))

    def endpoint(self) -> Endpoint:
        """How the load reaches the tier that it drives, and the tier behind it that keeps its data."""
        with self.driven.asked():
            there = self.driven.target.endpoint()
        if self.data is self.driven:
            return there
        with self.data.asked():
            return replace(there, data=self.data.target.endpoint())

    def where(self) -> Mapping[str, str]:
        """Server, files and restart command of each tier, for people."""
        return {
            tier.said(word) if tier.prefix else word: text
            for tier in self.tiers
            for word, text in tier.target.where().items()
        }

    def doctor(self) -> tuple[tuple[str, bool, str], ...]:
        """The checks of all tiers."""
        return tuple(
            (tier.said(check), is_fine, text) for tier in self.tiers for check, is_fine, text in tier.target.doctor()
        )

    def health(self) -> None:
        """That all serve, the lowest asked first.

        Raises:
            TargetError: one does not.
        """
        for tier in self.tiers:
            with tier.asked():
                tier.target.health()

    def depending(self, restarted: Sequence[str]) -> tuple[Tier, ...]:
        """The tiers that need one of `restarted`, directly or through others, the lowest first."""
        return tuple(depending(self.tiers, restarted))

    def log_excerpt(self, n_lines: int = 20) -> str:
        """The last lines of all logs."""
        found = [(tier, tier.target.log_excerpt(n_lines)) for tier in self.tiers]
        return "\n".join(f"{tier.name}:\n{text}" if tier.prefix else text for tier, text in found if text)

    # --- what may change ---

    def states(self) -> Mapping[str, KnobState]:
        """Every knob of every tier, by its name in the stack."""
        found: dict[str, KnobState] = {}
        for tier in self.tiers:
            with tier.asked():
                found |= {tier.full(name): tier.state(state) for name, state in tier.target.states().items()}
        return found

    def selection(self, context: Context) -> tuple[str, ...]:
        """The knobs to tune, of all tiers; all of them open.

        Raises:
            UsageError: a tier's settings name one that is unknown or locked.
            SpaceError: a tier offers one that does harm.
        """
        found: list[str] = []
        for tier in self.tiers:
            with tier.asked():
                names = tier.target.selection(self._context(tier, context))
                require_open(names, tier.target.states())
            found += [tier.full(name) for name in names]
        return tuple(found)

    def advise(self, context: Context) -> Config:
        """The rules of all tiers."""
        found: dict[str, Value] = {}
        for tier in self.tiers:
            with tier.asked():
                advice = tier.target.advise(self._context(tier, context))
            found |= {tier.full(name): value for name, value in advice.items()}
        return Config(found)

    def plays(self, context: Context, latency_s: float) -> tuple[Play, ...] | None:
        """What experts would try, the most promising first; None when no tier has any to offer."""
        tiers = [(tier, tier.target) for tier in self.tiers]
        asked = [
            (tier, target.plays(self._context(tier, context), latency_s))
            for tier, target in tiers
            if isinstance(target, PlayingTarget)
        ]
        if all(plays is None for _, plays in asked):
            return None
        found = [tier.play(play) for tier, plays in asked for play in plays or ()]
        return tuple(sorted(found, key=lambda play: -play.worth * play.chance))

    def constraints(self, names: Sequence[str], context: Context) -> tuple[Constraint, ...]:
        """What must hold within each tier, for the memory of each machine, and between tiers; over those of `names` that matter.

        Raises:
            UsageError: a constraint of the stack names what is no knob.
        """
        if self.is_one:
            return self.tiers[0].target.constraints(names, context)
        found: list[Constraint] = []
        models = self.models(context)
        for tier in self.tiers:
            mine = [name.removeprefix(tier.prefix) for name in names if name.startswith(tier.prefix)]
            own_budget = models[tier.name].constraint(mine)
            with tier.asked():
                each = tier.target.constraints(mine, self._context(tier, context))
            found += [constraint.renamed(tier.full) for constraint in each if constraint != own_budget]
        states, limits = self.states(), self._limits()
        found += budgets(self.tiers, models, self._memory, names, limits)
        at_least = tuple(f"{state.knob.name} >= 1" for state in limits.values())  # -1 would be any number
        return (*found, *between_tiers((*self._constraints, *at_least), states, names))

    def models(self, context: Context) -> Mapping[str, MemoryModel]:
        """What each tier takes of its machine's memory, by tier and under its own names; {} in a stack of one.

        Raises:
            TargetError: the memory of a tier's machine is not known.
        """
        if self.is_one:
            return {}
        found = {}
        for tier in self.tiers:
            with tier.asked():
                found[tier.name] = tier.target.memory(self._context(tier, context))
        return found

    def _limits(self) -> Mapping[str, KnobState]:
        return self._clients.limits(self.states) if self._clients else {}

    def _context(self, tier: Tier, context: Context) -> Context:
        return self._clients.seen_by(tier, context, self._limits())

    def memory(self, context: Context) -> MemoryModel:
        """What the stack takes, and its budget; over several machines their sum."""
        if self.is_one:
            return self.tiers[0].target.memory(context)
        hosts = list(joined(self.tiers, self.models(context), self._memory, self._limits()).values())
        return replace(reduce(MemoryModel.joined, hosts), budget_bytes=sum(host.budget_bytes for host in hosts))

    # --- change ---

    def split(self, config: Mapping[str, Value]) -> Mapping[str, Config]:
        """Tier -> its part of `config` under its own names, from the bottom up; empty parts too.

        Raises:
            SpaceError: a name that belongs to no tier.
        """
        parts: dict[str, dict[str, Value]] = {tier.name: {} for tier in self.tiers}
        for name, value in config.items():
            if self.is_one:
                parts[self.tiers[0].name][name] = value
                continue
            tier, _, knob = name.partition(".")
            if tier not in parts or not knob:
                raise SpaceError(
                    f"knob={name!r} is of no target", hint=f"write TARGET.knob; the targets are: {self.name}"
                )
            parts[tier][knob] = value
        return {tier: Config(part) for tier, part in parts.items()}

    def preflight(self, config: Mapping[str, Value], *, stays: bool = False) -> None:
        """Everything that can be known of `config` on every tier before the first byte of any is changed.

        Args:
            config: by the stack's names.
            stays: whether it must outlive the next restart.

        Raises:
            ApplyError: it cannot work, or not stay, or a name in it does harm.
        """
        parts = self.split(config)
        for tier in self.tiers:
            if parts[tier.name]:
                with tier.asked():
                    check_harmless(parts[tier.name])
                    tier.target.preflight(parts[tier.name])
                    if stays and isinstance(tier.target, LastingTarget):
                        tier.target.require_lasting(parts[tier.name])

    def plan(
        self, config: Mapping[str, Value], *, now: Mapping[str, Value], models: Mapping[str, MemoryModel]
    ) -> tuple[Step, ...]:
        """One step for each tier, in the order in which they are made: tiers that need less memory than now before those
        that need more, the lower first.

        Args:
            config: what is to be set over the values as found.
            now: what is set over them at this moment.
            models: of `models`, while the tiers were as found.
        """
        goal, before = self.split(config), self.split(now)
        steps = []
        for tier in self.tiers:
            model = models.get(tier.name)
            found, start, end = (
                (0.0, 0.0, 0.0)
                if model is None
                else (model.total({}), model.total(before[tier.name]), model.total(goal[tier.name]))
            )
            steps.append(
                Step(tier=tier, config=goal[tier.name], found_bytes=found, before_bytes=start, after_bytes=end)
            )
        return ordered(steps)

    def snapshots(self) -> tuple[Snapshot, ...]:
        """The tiers as found, from the bottom up.

        Raises:
            TargetError: one cannot be journalled as it is.
        """
        found = []
        for tier in self.tiers:
            with tier.asked():
                found.append(replace(tier.target.snapshot(), follows=self.follows.get(tier.name, ())))
        return tuple(found)

    def fragments(self, config: Mapping[str, Value]) -> Mapping[str, str]:
        """Tier -> its part of `config`, ready for its configuration file; without tiers of which nothing is set."""
        parts = self.split(config)
        return {
            tier.name: tier.target.fragment(parts[tier.name]) for tier in self.tiers if parts[tier.name] or self.is_one
        }

    # --- what went wrong ---

    @property
    def is_forensic(self) -> bool:
        """Whether a tier can say what went wrong."""
        return any(isinstance(tier.target, ForensicTarget) for tier in self.tiers)

    def evidence(self) -> Evidence:
        """Of the lowest tier that failed: what fell above it fell with it. Of a stack in which none did, of its lowest."""
        from trimtab.systems.blame import evidence_of

        return evidence_of(self.tiers)

    def disturbances(self) -> tuple[Disturbance, ...]:
        """What others did to any tier (see `ForensicTarget`).

        Raises:
            TargetError: one cannot be reached.
        """
        found: list[Disturbance] = []
        for tier in self.tiers:
            if isinstance(tier.target, ForensicTarget):
                with tier.asked():
                    found += [replace(each, text=tier.said(each.text)) for each in tier.target.disturbances()]
        return tuple(found)

    def notes(self) -> tuple[str, ...]:
        """What people should know of the tiers before tuning starts."""
        forensic = ((tier, tier.target) for tier in self.tiers if isinstance(tier.target, ForensicTarget))
        return tuple(tier.said(note) for tier, target in forensic for note in target.notes())
