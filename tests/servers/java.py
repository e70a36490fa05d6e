"""Private Java programs of tests: what their machine compiles at a start costs more than all else that a test does with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from trimtab import plugins

__all__ = ["quick_java"]

_FIRST = "# Options of the Java machine, one a line\n"
_QUICK = "-XX:TieredStopAtLevel=1\n"


@contextmanager
def quick_java() -> Iterator[None]:
    """Those that are made inside have a machine that compiles quickly and once. For this process alone: to a dead-man such a
    file was made of another text."""
    with ExitStack() as changed:
        for name in ("tomcat", "cassandra"):
            kind = plugins.load("targets", name)
            text = kind.catalogue_text("")
            if _QUICK not in text:  # several folders of tests ask for it
                text = text.replace(_FIRST, _FIRST + _QUICK)
            assert _QUICK in text, f"{name} has no such file"
            changed.enter_context(mock.patch.object(kind, "catalogue_text", lambda _where, text=text: text))
        yield
