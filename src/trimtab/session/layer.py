"""Layer: what stands between a searcher and the clients; a point passes each on its way out, its result on the way back.

The first layer of a session is the nearest to the searcher. Going out, a layer lets a point pass (None), answers at once
(`Answer`: no client sees it) or rejects it (`Reject`: it counts as infeasible and teaches the searcher). Coming back, it passes a
result on, changed or not, or asks for the point again (`AGAIN`).

    class Doubling(Layer):
        NAME = "doubling"
        OPTIONS = {"factor": (2.0, "what each cost is multiplied by")}

        def incoming(self, point, result):
            return scaled(result, self.options["factor"])

Own ones are found by the entry-point group `trimtab.layers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from trimtab import plugins
from trimtab.errors import InternalError, TrimtabError, UsageError
from trimtab.flow import Task
from trimtab.session.point import Point, Result

__all__ = ["AGAIN", "Again", "Answer", "Back", "Layer", "Reject", "Setting", "Stack"]


class Again:
    """The type of AGAIN."""


AGAIN: Final = Again()
"""The point is to be measured once more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the point comes to, without a client."""

    result: Result


@dataclass(frozen=True, slots=True)
class Reject:
    """Why the point is not measured."""

    reason: str


@dataclass(frozen=True, slots=True)
class Setting:
    """What a layer may know of its session.

    Attributes:
        name: of the session.
        study_id: of its study in the history.
        task: of its study.
        folder: for files of the server's own.
    """

    name: str
    study_id: int
    task: Task
    folder: Path


class Layer:
    """Lets everything pass; own ones derive from it.

    Every method is called by one thread at a time. After a restart of the server a layer is made again and told of everything
    once more, in order and as it was reported, with `point.is_replayed`: what it holds in memory is then as it was, and nothing
    outside is done twice. A point that another layer answers comes back as often as this one asks for it again.

    Class attribute `OPTIONS` maps each option's name to (default, one line of help).
    """

    NAME: ClassVar[str] = ""
    OPTIONS: ClassVar[Mapping[str, tuple[Any, str]]] = {}

    def __init__(self, options: Mapping[str, Any], setting: Setting) -> None:
        self.setting = setting
        self.options = self._read(options)

    def outgoing(self, point: Point) -> Answer | Reject | None:
        """What becomes of `point` on its way to a client."""
        return None

    def incoming(self, point: Point, result: Result) -> Result | Again:
        """What becomes of `result` on its way back."""
        return result

    def wants(self, client: str) -> bool:
        """Whether that client is to run the baseline for this layer before it gets another point."""
        return False

    def repeated(self, client: str, result: Result) -> None:
        """Learns from such a run; no run that failed. After a restart of the server it is told again, in order."""

    def says(self) -> Mapping[str, float]:
        """How fast the machine of each client is, by the client's id, against a reference of the layer's own."""
        return {}

    def _read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every option of `OPTIONS` with its value.

        Raises:
            UsageError: one that is unknown, or of another type than its default.
        """
        values = {name: default for name, (default, _) in self.OPTIONS.items()}
        for name, value in given.items():
            if name not in values:
                hint = f"use one of: {', '.join(self.OPTIONS)}" if self.OPTIONS else "it has no options"
                raise UsageError(f"unknown option {name!r} of layer {self.NAME!r}", hint=hint)
            kind = type(values[name])
            value = float(value) if kind is float and type(value) is int else value
            if type(value) is not kind:
                raise UsageError(
                    f"option {name!r} of layer {self.NAME!r} is not of type {kind.__name__}",
                    hint=f"write it like its default, {values[name]!r}",
                )
            values[name] = value
        return values

    def _require(self, name: str, is_met: bool, rule: str) -> None:
        """Raises UsageError when the option `name` breaks its rule."""
        if not is_met:
            raise UsageError(f"{name}={self.options[name]!r} of layer {self.NAME!r}", hint=f"{name} must be {rule}")


@dataclass(slots=True)
class Back:
    """A result on its way back: as the layers that it has passed have left it, and how many are still before it."""

    result: Result
    left: int


class Stack:
    """The layers of a session, in order."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = tuple(layers)

    @classmethod
    def of(cls, named: Sequence[tuple[str, Mapping[str, Any]]], setting: Setting) -> Stack:
        """Made from their short names and options.

        Raises:
            UsageError: no such layer, or an option that it does not take.
            InternalError: a layer raised something by mistake.
        """

        def made(name: str, options: Mapping[str, Any]) -> Layer:
            kind = plugins.load("layers", name)
            layer: Layer = _named(name, lambda: kind(options, setting))
            return layer

        return cls([made(name, options) for name, options in named])

    @property
    def is_empty(self) -> bool:
        """Whether points pass none."""
        return not self._layers

    def outgoing(self, point: Point) -> tuple[Answer | Reject | None, int]:
        """What becomes of the point, and how many layers it has passed by then.

        Raises:
            InternalError: a layer raised something by mistake.
        """
        for passed, layer in enumerate(self._layers):
            found = _guarded(layer, lambda at=layer: at.outgoing(point))
            if found is not None:
                return found, passed
        return None, len(self._layers)

    def incoming(self, point: Point, result: Result, passed: int | None = None) -> Result | Again:
        """What becomes of the result on its way back through the first `passed` layers (all: None).

        Raises:
            InternalError: a layer raised something by mistake.
        """
        return self.onward(point, self.back(result, passed))

    def back(self, result: Result, passed: int | None = None) -> Back:
        """The result before its way back through the first `passed` layers (all: None)."""
        return Back(result, len(self._layers[:passed]))

    def onward(self, point: Point, back: Back) -> Result | Again:
        """What becomes of the result on the rest of its way; if a layer raises something, it stands before that layer then.

        Raises:
            InternalError: a layer raised something by mistake.
        """
        while back.left:
            layer = self._layers[back.left - 1]
            found = _guarded(layer, lambda at=layer, seen=back.result: at.incoming(point, seen))
            back.left -= 1
            if isinstance(found, Again):
                return found
            back.result = found
        return back.result

    def wants(self, client: str) -> bool:
        """Whether a layer wants that client to run the baseline."""
        return any(_guarded(layer, lambda at=layer: at.wants(client)) for layer in self._layers)

    def repeated(self, client: str, result: Result) -> None:
        """Tells every layer of such a run."""
        for layer in self._layers:
            _guarded(layer, lambda at=layer: at.repeated(client, result))

    def says(self) -> dict[str, float]:
        """The speeds of the clients' machines, of the first layer that knows one."""
        found: dict[str, float] = {}
        for layer in self._layers:
            found = {**_guarded(layer, lambda at=layer: at.says()), **found}
        return found


def _guarded(layer: Layer, call: Any) -> Any:
    return _named(layer.NAME or type(layer).__name__, call)


def _named(name: str, call: Any) -> Any:
    """What `call` gives; what it raises by mistake names the layer."""
    try:
        return call()
    except TrimtabError:
        raise
    except Exception as error:
        raise InternalError(
            f"layer {name!r} failed: {type(error).__name__}: {error}",
            hint="it is a plug-in: tell its author, or leave it out",
        ) from error
