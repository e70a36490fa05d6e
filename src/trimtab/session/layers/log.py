"""log: every point and what it gave, as lines of JSON in a file of the server's own folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from trimtab.errors import HistoryError
from trimtab.jsonable import strict
from trimtab.session.layer import Answer, Layer, Reject
from trimtab.session.point import Point, Result

__all__ = ["LogLayer"]


class LogLayer(Layer):
    """Writes points and results, as its place among the layers sees them, to STATE/logs/NAME.STUDY.jsonl: a line of JSON each."""

    NAME: ClassVar[str] = "log"
    OPTIONS: ClassVar[Mapping[str, tuple[Any, str]]] = {"points": (True, "whether points are written, too")}

    def outgoing(self, point: Point) -> Answer | Reject | None:
        if self.options["points"]:
            self._write(point, {"kind": "point", "config": dict(point.config), "role": str(point.role)})
        return None

    def incoming(self, point: Point, result: Result) -> Result:
        figures = {name: interval.estimate for name, interval in result.figures.items()}
        said = {"status": str(result.status), "reason": result.reason, "figures": figures, "cost_s": result.cost_s}
        self._write(point, {"kind": "result", **said})
        return result

    def _write(self, point: Point, values: dict[str, Any]) -> None:
        if point.is_replayed:
            return
        # The name is the session's, which holds no slash, and the study's number: no path comes from a client.
        path = self.setting.folder / f"{self.setting.name}.{self.setting.study_id}.jsonl"
        line = json.dumps(strict({"number": point.number, "run": point.run, **values})) + "\n"
        try:
            self.setting.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                _append(handle, line.encode())
            finally:
                os.close(handle)
        except OSError as error:
            raise HistoryError(
                f"layer 'log' cannot write path={str(path)!r}: {error.strerror}",
                hint="free some space, or leave the layer out",
            ) from error


def _append(handle: int, line: bytes) -> None:
    """Writes the whole line or nothing: what a full disk has taken of it would become a part of the next one."""
    size = os.fstat(handle).st_size
    try:
        while line:
            line = line[os.write(handle, line) :]
    except OSError:
        os.ftruncate(handle, size)
        raise
