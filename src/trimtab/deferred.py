"""Public names of a room that are imported on first use, so that a command loads only what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["deferred"]


def deferred(room: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` (PEP 562) of the package `room`: submodule -> the public names that it
    defines, separated by blanks.

    No name may equal the name of a submodule: importing the submodule would put the module in its place. The package
    repeats the same imports under `if TYPE_CHECKING`, where type checkers and editors read them.

    Raises:
        ValueError: a name is also the name of a submodule in `names`.
    """
    homes = {name: f"{room}.{module}" for module, found in names.items() for name in found.split()}
    if clash := set(homes) & set(names):
        raise ValueError(f"{room}: names={sorted(clash)} are names of submodules, too")

    def find(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[room], name, value)  # the next use finds it without this call
        return value

    return find
