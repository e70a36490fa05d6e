"""Evidence: what a system's log, its process and the kernel say of a failure, by the words of its catalogue, from a mark on."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from trimtab.host import kernel_oom_kills, process_state
from trimtab.records import Fault
from trimtab.redact import hide_literals
from trimtab.systems.capabilities import Evidence, Symptom
from trimtab.systems.log import log_bytes, log_text
from trimtab.systems.overlay import LogWords
from trimtab.systems.process import await_end
from trimtab.systems.reach import JournalledReach, ServerReach

__all__ = ["CRASH_SIGNALS", "Forensics", "Marked", "classified"]

_LINES = 20
"""Of the log, in evidence."""

CRASH_SIGNALS = (4, 6, 7, 8, 11)
"""Of a process that went wrong by itself."""

_REASON_S = 3.0
_POLL_S = 0.02
_RANK = {Fault.CONFIG: 1, Fault.RESOURCE: 2, Fault.ENVIRONMENT: 3}


def classified(log: str, words: LogWords) -> list[Symptom]:
    """The lines of `log` that say why something failed, in their order; lines that say nothing of it are left out."""
    found = []
    for text in log.splitlines():
        known = next((line for line in words.line if line.pattern.search(text)), None)
        known = known or next((line for line in words.line if line.code.search(text)), None)
        if known is not None:
            plain = re.sub(words.prefix, "", text, count=1).strip() if words.prefix else text.strip()
            found.append(Symptom(fault=Fault(known.fault), text=plain, is_own_demand=known.own, is_death=known.death))
    return found


@dataclass(slots=True)
class Marked:
    """From where on lines, kills and processes count: what an earlier config did is not held against a later.

    Attributes:
        at: time.monotonic().
        log: the log's file then, None when unknown.
        log_bytes: its size.
        n_kills: of the server's processes at its own memory limit, so far.
        pid: of the server.
    """

    at: float = 0.0
    log: Path | None = None
    log_bytes: int = 0
    n_kills: int = 0
    pid: int | None = None

    @classmethod
    def now(cls, reach: ServerReach) -> Marked:
        """Evidence counts from here."""
        log = reach.log_file
        return cls(time.monotonic(), log, log_bytes(log), reach.n_oom_kills, reach.pid)

    def log_since(self, reach: ServerReach) -> str:
        """The server's lines since the mark; where its file cannot be read, what its way to it has to say."""
        log = reach.log_file
        if log is None:
            return reach.log_excerpt(_LINES)
        try:
            return log_text(log, self.log_bytes if log == self.log else 0)
        except OSError:
            return reach.log_excerpt(_LINES)


R = TypeVar("R", bound=ServerReach)


class Forensics(Generic[R]):
    """Gathers the evidence about one system; its words are the catalogue's.

    Args:
        reach: the way to it.
        words: of its log.
        noun: what messages call it: "server", "program".
    """

    def __init__(self, reach: R, words: LogWords, noun: str) -> None:
        self._reach = reach
        self._words = words
        self._noun = noun
        self._by_stop, self._by_kill = re.compile(words.by_stop), re.compile(words.by_kill)
        self._start = Marked()

    def _is_up(self) -> bool:
        """Whether it runs: by its process, and asked itself only where that cannot be seen."""
        return self._reach.pid is not None or (self._reach.data_dir is None and self._reach.is_up())

    def _suspects(self, log: str) -> Collection[int]:
        """Processes whose kills, by this machine's kernel, are the system's; none when it is on another machine."""
        if self._start.pid is None and self._reach.data_dir is None:
            return ()
        dead = re.findall(self._words.dead_process, log) if self._words.dead_process else []
        return {*(int(number) for number in dead), *(() if self._start.pid is None else (self._start.pid,))}

    def mark(self) -> None:
        """Evidence counts from here."""
        self._start = Marked.now(self._reach)

    def gather(self, *, was_restarting: bool = False) -> Evidence:
        """What is seen now, once a process that is ending has ended; changes nothing, asks the system nothing, never raises.

        Args:
            was_restarting: whether it failed in a change of ours, which stops the system itself.
        """
        await_end(lambda: self._reach.pid)
        pid, log = self._reach.pid, self._start.log_since(self._reach)
        if (said := _said_at_start(self._reach)) not in log:
            log = f"{log.rstrip()}\n{said}"
        state = process_state(pid) if pid is not None else ""
        own = list(self._kills(log))
        spoken = [
            one for one in classified(log, self._words) if not (was_restarting and self._by_stop.search(one.text))
        ]
        if own:
            spoken = [one for one in spoken if not self._by_kill.search(one.text)]
        is_up = self._is_up()
        return Evidence(
            symptoms=(*own, *_by_rank(spoken), *([] if own or spoken or is_up else self._death(log))),
            is_up=is_up,
            is_stopped=state in ("T", "t"),
            # Hidden while whole: of a long statement, the last lines alone do not say what they are.
            log="\n".join(hide_literals(log).splitlines()[-_LINES:]),
        )

    def await_reason(self) -> None:
        """After a session was cut off: waits until the log since the mark says of what it ended.

        A server reaps a dead process, and writes of it, a moment after the connection is gone. Ends at once when no log can be
        read, the catalogue knows no such words, or the server itself is gone, and after `_REASON_S` in any case (words in
        another language).
        """
        until = time.monotonic() + _REASON_S
        while self._words.session_end and self._reach.log_file is not None and time.monotonic() < until:
            is_gone = self._start.pid is not None and self._reach.pid is None
            if is_gone or re.search(self._words.session_end, self._start.log_since(self._reach)):
                return
            time.sleep(_POLL_S)

    def _kills(self, log: str) -> Iterator[Symptom]:
        """Kills because memory ran out: by the system's own limit, then those that the kernel's log tells of."""
        n_kills = self._reach.n_oom_kills - self._start.n_kills
        if n_kills > 0:
            text = f"the kernel killed {n_kills} of the {self._noun}'s processes at its memory limit (cgroup)"
            yield Symptom(fault=Fault.RESOURCE, text=text, is_own_demand=True, is_death=True)
            return
        suspects = self._suspects(log)
        for kill in kernel_oom_kills(self._start.at) if suspects else ():
            if kill.pid in suspects:
                limit = "a memory limit (cgroup)" if kill.is_limited else "the machine's memory"
                text = f"the kernel killed the {self._noun}'s process pid={kill.pid} at {limit}"
                yield Symptom(fault=Fault.RESOURCE, text=text, is_own_demand=kill.is_limited, is_death=True)

    def _death(self, log: str) -> Iterator[Symptom]:
        """How a process ended that said nothing that is known here."""
        code, last = self._reach.exit_code, self._last_words(log)
        if code is not None and -code in CRASH_SIGNALS:
            yield Symptom(fault=Fault.CONFIG, text=f"the {self._noun}'s process ended by signal {-code}", is_death=True)
        elif code is not None and code < 0:
            text = (
                f"the {self._noun}'s process ended by signal {-code}, sent by somebody else: the kernel killed nothing"
            )
            yield Symptom(fault=Fault.ENVIRONMENT, text=text, is_death=True)
        elif last:
            yield Symptom(fault=Fault.CONFIG, text=last)
        elif code is not None:
            yield Symptom(fault=Fault.CONFIG, text=f"the {self._noun} ended by itself with exit_code={code}")

    def _last_words(self, log: str) -> str:
        words = self._words
        marked = words.first_words or words.last_words
        lines = [line for line in log.splitlines() if re.search(marked, line)] if marked else []
        if not lines:
            return ""
        if words.first_words:
            return re.split(words.first_words, lines[0], maxsplit=1)[-1]
        return re.sub(words.prefix, "", lines[-1], count=1).strip()


def _said_at_start(reach: object) -> str:
    return reach.said_at_start(_LINES) if isinstance(reach, JournalledReach) else ""


def _by_rank(symptoms: Sequence[Symptom]) -> list[Symptom]:
    """The config's own first, then those of resources, then those of the environment."""
    return sorted(symptoms, key=lambda symptom: _RANK[symptom.fault])
