"""The sentry of a program: what we left of it, what somebody else has done since, and what its log says of a failure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.host import machine_mark
from trimtab.records import Fault
from trimtab.systems.catalog import Catalog
from trimtab.systems.evidence import CRASH_SIGNALS, ServerForensics, classified
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.files import file_digest
from trimtab.systems.foreign import other_configuration, restarted
from trimtab.systems.forensic import Disturbance, Symptom
from trimtab.systems.program.reach import Reach
from trimtab.systems.sentry import ServerSentry

__all__ = ["Picture", "Sentry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A program as it was left.

    Attributes:
        instance: its run; "" when nothing runs.
        files: path -> digest.
        values: knob -> (value in use, where that was read); {} without a `read` command.
    """

    instance: str
    files: Mapping[str, str]
    values: Mapping[str, tuple[str, str]]

    def after_own_change(self, before: Picture | None) -> Picture:
        """All of its files are ours to write."""
        return self

    def kept(self) -> Mapping[str, Any]:
        """What the journal keeps of it."""
        return {"machine": machine_mark(), "instance": self.instance, "files": dict(self.files)}


class _Forensics(ServerForensics[Reach]):
    """What log, process and kernel show; the words are the catalogue's."""

    BY_STOP = re.compile(r"(?!)")

    def __init__(self, reach: Reach, catalog: Catalog) -> None:
        super().__init__(reach)
        self._lines = tuple((re.compile(line.log), line) for line in catalog.log.line)
        self._prefix = re.compile(catalog.log.prefix)

    def _classify(self, log: str) -> list[Symptom]:
        return classified(log, self._lines, self._prefix)

    def _is_up(self) -> bool:
        return self._reach.is_up()

    def _limit_text(self, n_kills: int) -> str:
        return "the kernel killed the program at its memory limit (cgroup)"

    def _suspects(self, log: str) -> Collection[int | None]:
        return () if self._start.pid is None else (self._start.pid,)

    def _death(self, log: str, *, is_up: bool) -> Iterator[Symptom]:
        code = self._reach.exit_code
        if is_up or code is None:
            return
        if -code in CRASH_SIGNALS:
            yield Symptom(fault=Fault.CONFIG, text=f"the program ended by signal {-code}", is_death=True)
        elif code < 0:
            text = f"the program ended by signal {-code}, sent by somebody else: the kernel killed nothing"
            yield Symptom(fault=Fault.ENVIRONMENT, text=text, is_death=True)
        else:
            yield Symptom(fault=Fault.CONFIG, text=f"the program ended by itself with exit_code={code}")


class Sentry(ServerSentry[Picture, _Forensics]):
    """Watches one program between our own changes.

    Args:
        reach: the way to it.
        channels: its files.
        values: reads the values in use; {} where they cannot be read.
    """

    def __init__(
        self,
        reach: Reach,
        catalog: Catalog,
        channels: Sequence[FileChannel],
        values: Callable[[], Mapping[str, tuple[str, str]]],
    ) -> None:
        super().__init__(_Forensics(reach, catalog))
        self._reach = reach
        self._channels = channels
        self._values = values

    def _look(self) -> Picture:
        files = {str(channel.path): file_digest(channel.read()) for channel in self._channels}
        return Picture(instance=self._reach.instance, files=files, values=self._values())

    def _differences(self, left: Picture, now: Picture) -> Iterable[Disturbance]:
        yield from other_configuration((left.files, now.files), (left.values, now.values))
        if left.instance != now.instance and left.instance:
            yield restarted("the program was restarted by somebody else, or crashed")

    @property
    def left_files(self) -> Mapping[str, str]:
        """Path -> digest, as we left them; {} before the first look."""
        return self._left.files if self._left is not None else {}
