"""Forensics: who is to blame when a trial gave no measurement, and whether it is made once more.

    diagnosis = diagnose("the server did not start: exit_code=1", evidence)
    diagnosis.fault, diagnosis.status      # what failed; whether the config is blamed

Four classes (`Fault`) by what was seen, most telling first: the target ran out of its own memory limit; its words name a
setting; memory or disk of the machine ran out; somebody else killed, stopped or disturbed it. The **control** is the start
with the last good config, which every failure is followed by: a config is blamed only after the target ran well with that
one; when it does not, the environment is at fault and the study stops. What is not the config's fault is tried once more
and teaches nothing. A death that left no word counts as the environment's once, and as the config's when it comes again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from trimtab.errors import ApplyError, ForeignChangeError, RestoreError, TargetError
from trimtab.records import Fault, Status, Trial
from trimtab.systems import Disturbance, Evidence, Stack, Undone
from trimtab.systems.undo import InForceError

__all__ = ["Diagnosis", "Sentinel", "cleared", "diagnose", "retried", "stuck", "told", "with_log"]

_SHOWN_SYMPTOMS = 2
_UNKNOWN = "it left no word of why"
_TWICE = "twice, and not with the last good config: "


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What failed, and what becomes of the trial.

    Attributes:
        fault: the class.
        status: CRASHED blames the config and teaches; INFRASTRUCTURE does not.
        reason: message, signs and the target's own lines, for the trial.
    """

    fault: Fault
    status: Status
    reason: str


def diagnose(message: str, evidence: Evidence, *, known: str = "") -> Diagnosis:
    """The diagnosis of a target that failed under a config, and that runs again with the last good one.

    Args:
        message: what failed.
        evidence: as gathered before anything was repaired.
        known: class that the target itself is sure of, "" when it is not.
    """
    if known:
        fault = Fault(known)
        return _told(fault, _blame(fault, is_own_demand=False), message, evidence, ())
    if evidence.is_stopped:
        return _told(
            Fault.ENVIRONMENT, Status.INFRASTRUCTURE, message, evidence, ("its process was stopped (SIGSTOP)",)
        )
    own = [symptom for symptom in evidence.symptoms if symptom.is_own_demand]
    chosen = own or [s for s in evidence.symptoms if s.fault is evidence.symptoms[0].fault]
    words = tuple(dict.fromkeys(symptom.text for symptom in chosen))[:_SHOWN_SYMPTOMS]
    if chosen:
        return _told(chosen[0].fault, _blame(chosen[0].fault, is_own_demand=bool(own)), message, evidence, words)
    if not evidence.is_up:
        return _told(Fault.ENVIRONMENT, Status.INFRASTRUCTURE, message, evidence, (_UNKNOWN,))
    return _told(Fault.CONFIG, Status.CRASHED, message, evidence, ())


def _blame(fault: Fault, *, is_own_demand: bool) -> Status:
    return Status.CRASHED if fault is Fault.CONFIG or is_own_demand else Status.INFRASTRUCTURE


def _told(fault: Fault, status: Status, message: str, evidence: Evidence, words: tuple[str, ...]) -> Diagnosis:
    head = message + (f" ({'; '.join(words)})" if words else "")
    return Diagnosis(fault, status, f"{head}\n{evidence.log}" if evidence.log.strip() else head)


def retried(once: Callable[[], Trial], say: Callable[[str], None]) -> Trial:
    """A trial that failed through no fault of its config is made once more; never a third time."""
    first = once()
    if not _is_foreign(first):
        return first
    say(f"trial {first.number}: {first.fault} fault: {first.reason.partition(chr(10))[0]}; it is repeated once")
    second = _judge_again(first, once())
    lost_s = sum(first.cost_s.values()) + second.cost_s.get("failed", 0.0)
    return replace(second, cost_s={**second.cost_s, "failed": lost_s})


def _is_foreign(trial: Trial) -> bool:
    return trial.status is Status.INFRASTRUCTURE and trial.fault in (Fault.RESOURCE, Fault.ENVIRONMENT)


def _judge_again(first: Trial, second: Trial) -> Trial:
    """Two failures alike blame the config where nobody else is known to have caused them."""
    if not _is_foreign(second) or second.fault is not first.fault:
        return second
    was_applied = bool(first.effective) and bool(second.effective)
    if second.fault is Fault.RESOURCE and was_applied:
        return replace(second, status=Status.CRASHED, reason=f"{_TWICE}{second.reason}")
    if _UNKNOWN in first.reason and _UNKNOWN in second.reason:
        return replace(second, status=Status.CRASHED, fault=Fault.CONFIG, reason=f"{_TWICE}{second.reason}")
    return replace(second, reason=f"twice: {second.reason}")


def told(error: ForeignChangeError, done: Undone) -> ForeignChangeError:
    """The error with what became of our own changes."""
    back = f"; our own changes were taken back: {', '.join(done.put_back)}" if done.put_back else ""
    left = f"; left as it is: {'; '.join(done.left)}" if done.left else ""
    return ForeignChangeError(f"{error.message}{back}{left}", hint=error.hint)


def stuck(error: ForeignChangeError, trouble: RestoreError) -> ForeignChangeError:
    """The error when our own changes could not be taken back: the journal entry stays open."""
    return ForeignChangeError(
        f"{error.message}; our own changes are still there: {trouble.message}",
        hint="; ".join(filter(None, (error.hint, trouble.hint))),
    )


def cleared(error: RestoreError) -> RestoreError:
    """The error of a restore that failed after a config had: the config is not to blame."""
    is_reload = isinstance(error, InForceError)
    what = "the reload fails" if is_reload else "the target does not run"
    text = f"{what} with the last good config either, so that the environment is at fault and not the config"
    return error if text in error.message else RestoreError(f"{text}: {error.message}", hint=error.hint)


def with_log(message: str, log_excerpt: str) -> str:
    """The message, and below it what the target's log says."""
    return f"{message}\n{log_excerpt}" if log_excerpt else message


class Sentinel:
    """Asks a stack for evidence and for what others did to it; one that cannot tell has neither."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack if stack.is_forensic else None

    def refused(self, error: ApplyError) -> Diagnosis:
        """Of a config that could not be applied; the target is back with its last good one."""
        evidence = self._stack.evidence() if self._stack is not None else Evidence(log=error.log_excerpt)
        return diagnose(error.message, evidence, known=error.fault)

    def examine(self, status: Status, reason: str, *, known: Fault = Fault.NONE) -> Diagnosis:
        """Of a load run: whether what it showed is the config's, somebody else's, or nobody's.

        Args:
            status: as the run alone shows it.
            reason: of that.
            known: class that the guard is sure of, having seen it; the target's log only says that it was gone.

        Raises:
            ForeignChangeError: somebody else changed the target meanwhile.
        """
        found = self._examined(status, reason)
        return found if known is Fault.NONE else replace(found, status=status, fault=known)

    def _examined(self, status: Status, reason: str) -> Diagnosis:
        if status is not Status.CRASHED:
            spoilt = self.after()
            if spoilt is not None:
                return Diagnosis(spoilt.fault, Status.INFRASTRUCTURE, spoilt.text)
        if self._stack is None:
            fault = Fault.CONFIG if status is Status.CRASHED else Fault.NONE if status.is_measured else Fault.LOAD
            return Diagnosis(fault, status, reason)
        evidence = self._stack.evidence()
        if status.is_measured:
            has_died = any(symptom.is_death for symptom in evidence.symptoms)
            return (
                diagnose("the target died during the run", evidence)
                if has_died
                else Diagnosis(Fault.NONE, status, reason)
            )
        if status is Status.CRASHED or (status is not Status.INFRASTRUCTURE and evidence.symptoms):
            return diagnose(reason.partition("\n")[0], evidence)
        return Diagnosis(Fault.LOAD, status, reason)

    def before(self, disturbed: Callable[[], None]) -> Disturbance | None:
        """What stands in the way of a trial now; what is over already is none.

        Args:
            disturbed: called when there was anything, over or not: a restart, say, has left nothing warm.

        Raises:
            ForeignChangeError: somebody else changed the target.
            TargetError: it cannot be reached.
        """
        if self._first() is None:
            return None
        disturbed()
        return self._first()

    def after(self) -> Disturbance | None:
        """What happened to the target during a trial and spoils its measurement; None too when it does not answer.

        Raises:
            ForeignChangeError: somebody else changed the target.
        """
        try:
            return self._first(but=Fault.RESOURCE)
        except ForeignChangeError:
            raise
        except TargetError:
            return None

    def look(self) -> None:
        """Before a restore, which would overwrite what somebody else has written.

        Raises:
            ForeignChangeError: somebody has.
        """
        self.after()

    def _first(self, but: Fault | None = None) -> Disturbance | None:
        found = self._stack.disturbances() if self._stack is not None else ()
        for disturbance in found:
            if disturbance.stops:
                raise ForeignChangeError(disturbance.text, hint=disturbance.hint or None)
        return next((disturbance for disturbance in found if disturbance.fault is not but), None)
