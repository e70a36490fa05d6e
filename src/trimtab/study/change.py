"""apply and rollback: the only commands that change a target to stay, or undo what stayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from trimtab.errors import ApplyError, UsageError
from trimtab.study.first import lost_with_power, recover_first, require_free
from trimtab.study.rollback_point import RollbackPoint, above, applied_points, file_of, keep_point, point_of
from trimtab.study.unchanged import require_unchanged
from trimtab.trial import commit, take_back
from trimtab.trial.command_line import command_at
from trimtab.units import format_time

if TYPE_CHECKING:  # `trimtab recover` is the emergency command: it loads no study file, space or history
    from trimtab.history import StudyRecord
    from trimtab.space import Config, Space
    from trimtab.study.file import StudyFile
    from trimtab.study.stage import Stage
    from trimtab.systems import KnobState

__all__ = ["Change", "Proposal", "RolledBack", "apply_winner", "rollback", "winner_of"]


_ALL_OR_NOTHING = (
    "nothing was changed: a winner is applied as a whole; let the study file permit it, or tune again without it"
)
_CHANGED_SINCE = "the server was changed since the study; tune again from what it has now"
_MOST_SHOWN = 5
"""Differences of a server from what a study found, which are shown one by one."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """An applied study that was taken back: its targets, their files, and what was done, for people."""

    target: str
    files: tuple[str, ...]
    action: str


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that `apply_winner` is about to make: the running value and the new one, as text."""

    knob: str
    current: str
    proposed: str
    needs_restart: bool


def winner_of(record: StudyRecord) -> Config:
    """The changed knobs of a proven winner.

    Raises:
        UsageError: the study has none.
    """
    # One that is resumed, or was killed then, still has the winner that was proven before.
    if record.status not in ("proven", "running") or not record.verdict.is_better:
        is_bare = record.status == "proven"
        why = "the history does not hold its verdict" if is_bare else f"its status is {record.status!r}"
        raise UsageError(
            f"study={record.name!r} has no proven winner: {why}",
            hint=f"only a proven config is applied; see `trimtab report {quote(record.name)}`",
        )
    return record.verdict.config


@dataclass(frozen=True, slots=True)
class Proposal:
    """What `apply_winner` asks about: the settings, and where they go (server, files, restart command); on which host the winner
    was proven, where that is another one; what of the server is not as the study found it; and that a power cut would take
    the rollback point."""

    changes: tuple[Change, ...]
    where: Mapping[str, str]


def apply_winner(
    record: StudyRecord,
    file: StudyFile,
    state_dir: Path,
    *,
    agrees: Callable[[Proposal], bool] = lambda proposal: True,
    say: Callable[[str], None] = lambda text: None,
) -> Mapping[str, Any] | None:
    """Sets the winner to stay; returns what the target says is in effect. Undone by `rollback`.

    Which server that is, and what restarts it, is read from the user's own study file: the history, which may have come
    from somebody else, says no more than the settings. They must meet every constraint on the server of now. `agrees` sees
    what would change; None, and nothing done, when it says no. The journal is open while it happens: a death in the
    middle is undone by the dead-man, or by `recover`. What a killed Trimtab has left is taken back first, which `say` is told.

    Raises:
        UsageError: there is no proven winner, it is applied already, or the file's target is of another kind.
        ApplyError: a setting does not fit this server, or would not outlive its restart; nothing was changed.
        ForeignChangeError: somebody has changed the server while `agrees` was asked; nothing was changed.
        TargetError: the rollback point of another study cannot be read, or the server may hold what a killed Trimtab has set;
            nothing was changed.
    """
    from trimtab.study.stage import build_stack, open_stage

    config, point = winner_of(record), file_of(state_dir, record.name)
    _require_same_kind(record, file)
    recover_first(state_dir, say, build_stack(file, state_dir).folders)
    _require_not_applied(record.name, state_dir)
    with (
        open_stage(file, state_dir, measures=False) as stage,
        stage.stack.lock(f"trimtab apply {record.name}"),
    ):
        require_free(stage.stack, state_dir)
        _require_fit(stage, config)
        where = {**_proven_elsewhere(record, stage), **_differences(record, stage, config), **stage.stack.where()}
        for text in lost_with_power(stage.stack, state_dir):
            where["note"] = text
        if not agrees(Proposal(tuple(_changes(stage.states, config)), where)):
            return None
        require_unchanged(stage)  # whoever was asked may have taken minutes
        return commit(
            stage.stack,
            config,
            study=record.name,
            state_dir=state_dir,
            keep=lambda found, owns: keep_point(state_dir, record.name, found, owns),
            file=point,
            context=stage.workload.context,
        )


def _require_not_applied(name: str, state_dir: Path) -> None:
    """Reads the points of all studies, as the new one must, which is kept when the server is changed already."""
    for point in applied_points(state_dir):
        if point.study == name:
            raise UsageError(
                f"study={name!r} is already applied, since {format_time(point.applied_at)}",
                hint=f"take it back first: {command_at(state_dir, f'trimtab rollback {name}')}",
            )


def _require_same_kind(record: StudyRecord, file: StudyFile) -> None:
    hint = "give the file of the study whose winner is to be applied"
    given, then = file.target, _tables(record)
    kinds, kinds_then = (sorted(str(table.get("kind")) for table in each.values()) for each in (given, then))
    if kinds != kinds_then:
        raise UsageError(
            f"the study file's target is of kind={', '.join(kinds)}, and the study's was {', '.join(kinds_then)}",
            hint=hint,
        )
    if len(given) > 1 and sorted(given) != sorted(then):
        raise UsageError(
            f"the study file's targets are {', '.join(sorted(given))}, and the study's were {', '.join(sorted(then))}",
            hint=hint,
        )


def _proven_elsewhere(record: StudyRecord, stage: Stage) -> Mapping[str, str]:
    """On which other host the winner was proven: that says less of this one, and whoever applies it must know."""
    from trimtab.history import host_of, is_same_host

    here = host_of(stage.machine)
    if is_same_host(record.machine.hostname, here):
        return {}
    return {"proven on": f"host {record.machine.hostname}, and not on this one ({here})"}


def _differences(record: StudyRecord, stage: Stage, config: Config) -> Mapping[str, str]:
    """What of the server is not as the study found it: the winner was proven beside that, and may gain another amount here."""
    from trimtab.study.as_begun import version_then

    then = version_then(record, stage)
    found = [f"version={stage.machine.server_version} ({then} there)"] if then else []
    for name, value in record.baseline.items():
        state = stage.states.get(name)
        if state is not None and state.running not in (value, config.get(name)):
            found.append(f"{name}={state.knob.format(state.running)} ({state.knob.format(value)} there)")
    more = len(found) - _MOST_SHOWN
    shown = ", ".join(found[:_MOST_SHOWN]) + (f", and {more} more" if more > 0 else "")
    return {"differs from the study": shown} if found else {}


def _tables(record: StudyRecord) -> Mapping[str, Mapping[str, Any]]:
    found = record.settings.get("target")
    return found if isinstance(found, Mapping) else {}


def _require_fit(stage: Stage, config: Config) -> None:
    """That the winner meets what must hold on the server as it is now: it may have changed since the study.

    Raises:
        ApplyError: it does not; nothing was changed.
    """
    strange = sorted(set(config) - set(stage.space.knobs))
    _require_felt({name: stage.unfelt[name] for name in strange if name in stage.unfelt})
    if missing := [name for name in strange if name not in stage.states]:
        raise ApplyError(
            f"the winner sets {', '.join(missing)}, which the target of now does not have",
            hint="nothing was changed; it is another version than the study's, or another [target] table: tune again on this one",
        )
    for name in strange:
        if why := stage.states[name].lock_reason:
            raise ApplyError(f"the winner sets {name}, which may not be changed here: {why}", hint=_ALL_OR_NOTHING)
    if strange:
        raise ApplyError(
            f"the study file does not tune {', '.join(strange)}, which the winner sets", hint="name them under knobs"
        )
    space, whole = _with_values(stage.space, config), stage.baseline.replace(config)
    _require_felt(_switched_off(space, whole, config))
    violations = space.violations(whole)
    if violations:
        raise ApplyError(f"the winner does not fit the server of now: {'; '.join(violations)}", hint=_CHANGED_SINCE)


def _switched_off(space: Space, whole: Config, config: Config) -> dict[str, str]:
    """The knobs of `config` that have no effect in `whole`, with their conditions; not those that `config` itself switches off:
    of such it sets the defaults, and there may be others now."""
    from trimtab.space.expression import names_in, parse

    felt = space.canonical(whole)
    conditions = {name: space.knobs[name].condition for name in config if felt[name] != whole[name]}
    return {
        name: condition
        for name, condition in conditions.items()
        if condition is not None and any(each.name not in config for each in names_in(parse(condition)))
    }


def _require_felt(conditions: Mapping[str, str]) -> None:
    """Raises ApplyError for knobs that the winner sets and that have no effect on the server of now, each with its condition."""
    if conditions:
        unfelt = ", ".join(f"{name} (felt only where {condition})" for name, condition in conditions.items())
        raise ApplyError(f"the winner sets what has no effect on the server of now: {unfelt}", hint=_CHANGED_SINCE)


def _with_values(space: Space, config: Config) -> Space:
    """`space` with the values of `config` legal as well: useful ranges depend on the memory of now, and what was proven may lie a
    little beyond them; whether the server takes it, its own limits say."""
    from trimtab.space import Space

    also_legal = {name: (*space.also_legal.get(name, ()), value) for name, value in config.items()}
    return Space(
        list(space.knobs.values()),
        space.constraints,
        also_legal={**space.also_legal, **also_legal},
        fixed=space.fixed,
    )


def _changes(states: Mapping[str, KnobState], config: Config) -> list[Change]:
    from trimtab.space import RestartClass

    found = []
    for name, value in config.items():
        if name in states:
            knob = states[name].knob
            late = knob.restart is not RestartClass.RELOAD
            found.append(Change(name, knob.format(states[name].running), knob.format(value), late))
    return found


def rollback(name: str, state_dir: Path, *, say: Callable[[str], None] = lambda text: None) -> RolledBack:
    """Takes back what `apply_winner` set and still stands; what somebody else has changed since is left, and told.

    What a killed Trimtab has left is taken back first, which `say` is told; a rollback that was killed is finished by that.

    Raises:
        UsageError: nothing of that study is applied, or another one was applied on top of it.
        TargetError: the rollback point cannot be read, or something of ours still stands.
    """
    for found in recover_first(state_dir, say):
        # One that died before it took anything back has left the point: this one does its work.
        if (found.study, found.purpose) == (name, "rollback") and point_of(state_dir, name) is None:
            return RolledBack(found.target, found.files, found.action)
    point = point_of(state_dir, name)
    if point is None:
        applied = [each.study for each in applied_points(state_dir)]
        raise UsageError(
            f"nothing of study={name!r} is applied",
            hint=f"applied: {', '.join(applied)}"
            if applied
            else "never applied from this state directory, or taken back already",
        )
    _require_top(point, state_dir)
    done = take_back(
        point.snapshots,
        point.owns,
        study=name,
        state_dir=state_dir,
        file=point.path,
        require=lambda: _require_top(point, state_dir),
    )
    files = tuple(file for snapshot in point.snapshots for file in snapshot.files)
    return RolledBack(", ".join(snapshot.target for snapshot in point.snapshots), files, done)


def _require_top(point: RollbackPoint, state_dir: Path) -> None:
    """Raises UsageError when `point` is not what is to be rolled back next on its server."""
    if point_of(state_dir, point.study) != point:
        raise UsageError(
            f"study={point.study!r} is not applied any more as it was when this command began",
            hint="another process has just taken it back; `trimtab recover --show` lists what is applied",
        )
    later = above(point, state_dir)
    if later:
        top = later[0].study
        rollback_top = command_at(state_dir, f"trimtab rollback {top}")
        raise UsageError(
            f"study={top!r} was applied to the same server after study={point.study!r}"
            f" ({format_time(later[0].applied_at)})",
            hint=f"take that back first ({rollback_top}), or keep it for good ({rollback_top} --leave)",
        )
