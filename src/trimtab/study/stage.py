"""Stage: everything a study needs, built from its file: targets, workload, space, baseline and advice."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trimtab import plugins
from trimtab.errors import SpaceError, UsageError
from trimtab.records import Machine, Objective
from trimtab.space import Config, Constraint, Knob, KnobKind, Space, Value, base_value
from trimtab.space.expression import names_in, parse
from trimtab.study.deploy import with_application
from trimtab.study.driven import driving, which_target
from trimtab.study.file import StudyFile, plan_of
from trimtab.study.stack_table import StackTable
from trimtab.systems import CompilingTarget, KnobState, Stack, Target, Tier
from trimtab.systems.doctor import knob_line
from trimtab.trial import MeasurePlan
from trimtab.trial.signals import signals_interrupt
from trimtab.units import format_value, parse_duration, parse_value
from trimtab.workload import CycledWorkload, Workload, arrivals_s

__all__ = ["Stage", "build_stack", "build_target", "build_workload", "open_stage", "opened", "require_one_context"]

_MOST_COMING_S = 300.0
"""Of a load at another rate than the study's own: at a low one many browsers may take hours until each has had its pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The open targets with their workload and what may change.

    Attributes:
        file: the study file.
        stack: open; closed by `open_stage`.
        workload: not yet prepared.
        states: the live catalogue.
        space: the study's knobs and constraints; contains the baseline and the advice. Its defaults are the running values,
            so that a knob without effect stays as it is.
        baseline: running values of the space's knobs.
        advice: rule-based config over the space.
        machine: facts for the history.
        plan: how a trial measures.
        unfelt: knobs that were left out, each with its condition: that is false here whatever is tuned.
        moved: why the advice of the study file is not used as it is, and what is used; "" where it is.
    """

    file: StudyFile
    stack: Stack
    workload: Workload
    states: Mapping[str, KnobState]
    space: Space
    baseline: Config
    advice: Config
    machine: Machine
    plan: MeasurePlan
    unfelt: Mapping[str, str] = field(default_factory=dict)
    moved: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a study should say before it begins: what its targets note, what was left out, and what is not used as it is."""
        conditions = dict.fromkeys(self.unfelt.values())
        left_out = (
            f"left out, without effect here: {', '.join(n for n, c in self.unfelt.items() if c == condition)} "
            f"(felt only where {condition})"
            for condition in conditions
        )
        return (*self.stack.notes(), *left_out, *filter(None, (self.moved,)))

    @property
    def locked(self) -> str:
        """Why this user may not change some knob of the space; "" always where the stage was opened for changes."""
        return next(filter(None, (self.states[name].lock_reason for name in self.space.knobs)), "")

    @property
    def objective(self) -> Objective:
        """What the study optimises."""
        return self.file.objective

    def plan_at(self, load: Workload) -> MeasurePlan:
        """How a trial measures its load at another rate: no window begins before the users do what they do on average, but it
        waits for that no longer than `warmup_cap`, or `_MOST_COMING_S` where the study file has none."""
        given = self.file.measure.warmup_cap
        most_s = _MOST_COMING_S if given is None else parse_duration(given)
        return _plan(self.file, self.stack, min(arrivals_s(load), most_s))


def build_stack(file: StudyFile, state_dir: Path) -> Stack:
    """The study's targets, not yet open.

    Raises:
        UsageError: unknown kind, or a table its plug-in refuses.
        LoadError: the workload brings an application, which cannot be built.
    """
    tiers: list[Tier] = []
    data = str(file.workload.get("data", ""))
    for name, needs in file.tiers.items():
        table = with_application(name, file.table_of(name), lambda: build_workload(file), tiers, data)
        follows = file.target[name].get("follows", False)
        plugin = plugins.load("targets", table["kind"])
        target: Target = plugin.from_settings(name, table, state_dir=state_dir, directory=file.directory)
        tiers.append(Tier(name=name, target=target, needs=needs, follows=follows))
    rules = file.stack or StackTable()
    return Stack(tiers, memory=rules.memory, constraints=rules.constraints, driven=file.workload.get("target", ""),
                 clients=rules.clients)  # fmt: skip


def build_target(file: StudyFile, state_dir: Path) -> Target:
    """The target that the study's load drives, not yet open.

    Raises:
        UsageError: unknown kind, a table its plug-in refuses, or several targets and [workload] names none.
    """
    stack = build_stack(file, state_dir)
    if not stack.is_one and "target" not in file.workload:
        raise which_target(stack.tiers)
    return stack.driven.target


def build_workload(file: StudyFile) -> Workload:
    """The study's workload, not yet prepared.

    Raises:
        UsageError: unknown kind, or a table its plug-in refuses.
    """
    plugin = plugins.load("workloads", file.workload["kind"])
    table = {key: value for key, value in file.workload.items() if key not in ("target", "data")}

    def made(settings: Mapping[str, Any]) -> Workload:
        workload: Workload = plugin.from_settings(settings, directory=file.directory)
        return workload

    return CycledWorkload.from_settings(table, made) if "cycle" in table else made(table)


def require_one_context(file: StudyFile, what: str) -> None:
    """Raises UsageError when the study's workload is a cycle, which `what` cannot measure as one."""
    if "cycle" in file.workload:
        raise UsageError(
            f"{what} measures one context, and [workload.cycle] has several",
            hint="run it with a study file that has the keys of one of the contexts in [workload]",
        )


@contextmanager
def opened(file: StudyFile, state_dir: Path) -> Iterator[Stack]:
    """The study's targets, open; they are closed whatever ends what is done inside: an error, Ctrl-C, SIGTERM or SIGHUP."""
    with signals_interrupt():
        stack = build_stack(file, state_dir)
        stack.open()
        try:
            yield stack
        finally:
            stack.close()


@contextmanager
def open_stage(
    file: StudyFile, state_dir: Path, *, changes: bool = True, measures: bool | None = None
) -> Iterator[Stage]:
    """Opens the targets (which changes nothing), reads their catalogues, and builds the space. Inside, signals that ask to stop
    do as Ctrl-C: a server that was started for this must not be left running.

    Args:
        file: the study file.
        state_dir: for locks and private servers.
        changes: whether settings are to be changed. Otherwise the space of a target that lets this user change nothing is that
            of one who may, and its knobs keep their lock in `states`.
        measures: whether the load is to run; None: where settings are to be changed. Otherwise no user of it is waited for, and
            `plan` is that of one whose users are there at once.

    Raises:
        UsageError: a table is wrong, or workload and target do not fit, or its users come after the warm-up has ended.
        SpaceError: a constraint is wrong, or nothing satisfies them.
        TargetError: a target cannot be reached or read, or lets this user change nothing although it is to be changed.
    """
    workload = build_workload(file)
    with opened(file, state_dir) as targets:
        stack = driving(file, targets, workload)
        states, tuned = stack.states(), stack if changes else stack.permitted()
        chosen = tuned.selection(workload.context)
        names = _felt(states, chosen)
        unfelt = {name: str(states[name].knob.condition) for name in chosen if name not in names}
        space, baseline = _space(file, stack, workload, states, names, unfelt)
        asked = baseline.replace(_advice(file, tuned, workload, space))
        advice = _brought_in(space, asked, baseline)
        yield Stage(
            file=file,
            stack=stack,
            workload=workload,
            states=states,
            space=space,
            baseline=baseline,
            advice=advice,
            machine=stack.machine(),
            plan=_plan(file, stack, arrivals_s(workload) if (changes if measures is None else measures) else 0.0),
            unfelt=unfelt,
            moved=_moved(space, asked, advice) if file.search.advice else "",
        )


def _plan(file: StudyFile, stack: Stack, coming_s: float) -> MeasurePlan:
    compiles = any(isinstance(tier.target, CompilingTarget) and tier.target.compiles for tier in stack.tiers)
    return plan_of(file, compiles=compiles, arrivals_s=coming_s)


def _felt(states: Mapping[str, KnobState], names: tuple[str, ...]) -> tuple[str, ...]:
    """`names` without those that have no effect whatever is tuned: their conditions speak of other knobs only, and are false.

    Raises:
        UsageError: none is left.
    """
    felt = names
    while off := [name for name in felt if _is_off(states, name, felt)]:
        felt = tuple(name for name in felt if name not in off)
        if not felt:
            condition = states[off[0]].knob.condition
            raise UsageError(
                f"the study has no knob to tune: {off[0]} has no effect here, where {condition} is false",
                hint="name the knobs of that condition in [target.NAME] as well",
            )
    return felt


def _is_off(states: Mapping[str, KnobState], name: str, tuned: Collection[str]) -> bool:
    condition = states[name].knob.condition
    if condition is None:
        return False
    rule = Constraint(condition, name=condition)
    if not set(rule.names) <= states.keys() - set(tuned):
        return False
    values = {each: states[each].running for each in rule.names}
    return not rule.is_met(values, {each: states[each].knob for each in rule.names})


def _space(
    file: StudyFile,
    stack: Stack,
    workload: Workload,
    states: Mapping[str, KnobState],
    names: tuple[str, ...],
    unfelt: Collection[str],
) -> tuple[Space, Config]:
    if not names:
        raise UsageError(
            f"the study has no knob to tune: {knob_line(states)[2]}",
            hint="name other knobs in [target.NAME], or do what opens these",
        )
    _require_tuned(file, states, {*names, *unfelt})
    running = {name: states[name].running for name in names}
    constraints = [
        *stack.constraints(names, workload.context),
        *(Constraint(text, name=f"search.constraints[{index}]") for index, text in enumerate(file.search.constraints)),
    ]
    ranged = {name: _ranged(states[name], file.search.ranges.get(name)) for name in names}
    # A canonical config has inactive knobs at their defaults: those must stay as they are on the server.
    is_round = file.search.round_values
    knobs = [
        replace(knob, default=running[name], is_round=is_round and knob.is_numeric) for name, knob in ranged.items()
    ]
    also_legal = {
        name: (states[name].knob.default, *_written(file, states[name], knob)) for name, knob in ranged.items()
    }
    space = Space(knobs, constraints, also_legal=also_legal, fixed=_fixed(states, names, unfelt))
    if not space.is_feasible(space.default()):  # else one is there, and need not be looked for
        space.require_feasible()
    return space, Config(running)


def _require_tuned(file: StudyFile, states: Mapping[str, KnobState], known: Collection[str]) -> None:
    """Raises UsageError when a range or an advice of the study file is for a knob that is none of `known`."""
    for table, keys in (("ranges", file.search.ranges), ("advice", file.search.advice)):
        for name in keys:
            if name not in known:
                reason = (
                    "there is no such knob" if name not in states else states[name].lock_reason or "it is not tuned"
                )
                raise UsageError(
                    f"search.{table} names {name!r}: {reason}", hint="name it under knobs in [target.NAME]"
                )


def _written(file: StudyFile, state: KnobState, knob: Knob) -> tuple[Value, ...]:
    """Values of `knob` that the study file itself names: legal as they stand, however odd, where the target accepts them."""
    named: dict[str, tuple[Value, ...]] = {"levels_of": _named_levels(file, knob), "advice": ()}
    if knob.name in file.search.advice:
        named["advice"] = (_advised(knob, file.search.advice[knob.name]),)
    for table, values in named.items():
        for value in values:
            _require_accepted(state, value, table)
    ends = (knob.low, knob.high) if knob.name in file.search.ranges else ()
    return (*named["advice"], *named["levels_of"], *(end for end in ends if end is not None))


def _named_levels(file: StudyFile, knob: Knob) -> tuple[Value, ...]:
    """The numbers of which a grid is to be made; whatever is none is the searcher's to refuse."""
    levels = file.search.options.get("levels_of")
    wish = levels.get(knob.name) if isinstance(levels, Mapping) else None
    found: list[Value] = []
    for each in wish if isinstance(wish, list) and knob.is_numeric else ():
        with suppress(SpaceError):
            value = knob.parse(each) if isinstance(each, str) else knob.cast(each)
            found += [] if value is None else [value]
    return tuple(found)


def _fixed(states: Mapping[str, KnobState], names: tuple[str, ...], unfelt: Collection[str]) -> dict[str, Any]:
    """Running values, in base units, of the knobs outside the space that a condition of one inside speaks of, and of those left
    out of it, of which the study's constraints may speak."""
    conditions = [condition for name in names if (condition := states[name].knob.condition) is not None]
    spoken_of = {each.name for text in conditions for each in names_in(parse(text))} & set(states) - set(names)
    return {name: base_value(states[name].knob, states[name].running) for name in {*spoken_of, *unfelt}}


def _ranged(state: KnobState, ends: tuple[str | int | float, str | int | float] | None) -> Knob:
    """The knob with the user's own range, which must lie within what the target accepts: special values (0, -1) outside go."""
    knob = state.knob
    if ends is None:
        return knob
    if not knob.is_numeric:
        raise UsageError(f"search.ranges names {knob.name!r}, which is a {knob.kind}", hint="only numbers have ranges")
    low, high = (_number(knob, end, "ranges") for end in ends)
    for value in (low, high):
        _require_accepted(state, value, "ranges")
    # The grid begins at `low`: where that is off the target's own, each value of it would be.
    step = knob.step if knob.kind is KnobKind.INTEGER and knob.step and low % knob.step == 0 else None
    return replace(knob, low=low, high=high, step=step, special=(), log=knob.log and low > 0)


def _require_accepted(state: KnobState, value: Value, table: str) -> None:
    """Raises UsageError when the target accepts no such number; special ones may lie outside of what it else accepts."""
    knob, ends = state.knob, (state.vendor_low, state.vendor_high)
    if isinstance(value, str) or (table != "ranges" and value in (*knob.special, knob.default, state.running)):
        return
    if (ends[0] is not None and value < ends[0]) or (ends[1] is not None and value > ends[1]):
        accepted = [format_value(end, "") for end in ends if end is not None]
        raise UsageError(
            f"search.{table} {knob.name}={knob.format(value)} is not accepted by the target",
            hint=f"it accepts {' to '.join(accepted)} {knob.unit}".rstrip(),
        )


def _number(knob: Knob, text: str | int | float, table: str) -> int | float:
    """A number in the knob's unit; where a text of another unit falls between two of its values, the nearest."""
    try:
        value = parse_value(str(text), knob.unit)
    except UsageError as error:
        raise UsageError(f"search.{table} {knob.name}={text!r}: {error.message}", hint=error.hint) from error
    return round(value) if knob.kind is KnobKind.INTEGER else value


def _advice(file: StudyFile, stack: Stack, workload: Workload, space: Space) -> Config:
    """The user's own advice when the study file has one, else the target's rules; over knobs of the space only."""
    if file.search.advice:
        told = {name: value for name, value in file.search.advice.items() if name in space.knobs}
        return Config({name: _advised(space.knobs[name], value) for name, value in told.items()})
    advice = stack.advise(workload.context)
    return Config({name: _nearest(space.knobs[name], value) for name, value in advice.items() if name in space.knobs})


def _brought_in(space: Space, asked: Config, baseline: Config) -> Config:
    """A feasible config near `asked`: where that breaks a constraint, numbers beyond their useful range come to its end first.

    As they are, the nearest ones in the unit cube would be those of the low end: values outside have their place beside it.
    """
    whole = space.canonical(asked)
    if space.is_feasible(whole):
        return whole
    beyond = {n: v for n, v in asked.items() if v != baseline[n] and not space.knobs[n].contains(v)}
    clipped = {n: space.knobs[n].clip(v) for n, v in beyond.items() if not isinstance(v, str | bool)}
    return space.repair(space.canonical(whole.replace(clipped)))


def _moved(space: Space, asked: Config, advice: Config) -> str:
    """Why the advice `asked` for is not used as it is, and what is used; "" where it is."""
    changed = asked.difference(advice)
    if not changed:
        return ""
    shown = ", ".join(f"{n}={space.knobs[n].format(advice[n])}, not {space.knobs[n].format(asked[n])}" for n in changed)
    broken = "; ".join(space.violations(asked))
    return f"search.advice {f'breaks a constraint ({broken})' if broken else 'has no effect in part'}; used: {shown}"


def _nearest(knob: Knob, value: Value) -> Value:
    """The legal value nearest to what the rules say: they know nothing of the user's own ranges."""
    return value if isinstance(value, str | bool) else knob.clip(value)


def _advised(knob: Knob, value: str | int | float | bool) -> Value:
    if isinstance(value, bool):
        return knob.parse("on" if value else "off")
    return _number(knob, value, "advice") if knob.is_numeric else knob.parse(str(value))
