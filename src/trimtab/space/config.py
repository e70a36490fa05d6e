"""Config: one immutable, hashable assignment of values to knobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trimtab.space.knob import Value

__all__ = ["Config"]


class Config(Mapping[str, Value]):
    """One assignment of values to knob names; immutable and hashable, ordered by name.

    A config says nothing of which knobs exist: `Space.validate` does. `True` and `1` are told apart.
    """

    __slots__ = ("_hash", "_values")

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values: dict[str, Value] = {name: values[name] for name in sorted(values)}
        self._hash = hash(tuple(self._values.items()))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        if self is other:
            return True
        mine, others = self._values, other._values
        return (
            self._hash == other._hash
            and mine == others
            and [*map(type, mine.values())] == [*map(type, others.values())]
        )

    def __repr__(self) -> str:
        return f"Config({self._values!r})"

    def replace(self, changes: Mapping[str, Value]) -> Config:
        """A new config with `changes` over this one."""
        return Config({**self._values, **changes})

    def difference(self, other: Config) -> tuple[str, ...]:
        """Names whose values differ from `other`'s, and names that only one of the two has; sorted."""
        every = sorted(set(self) | set(other))
        return tuple(n for n in every if n not in self or n not in other or self[n] != other[n])
