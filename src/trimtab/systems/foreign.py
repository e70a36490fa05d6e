"""Foreign changes that look the same on every kind of server: another server, another role, other files, other settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trimtab.records import Fault
from trimtab.systems.forensic import Disturbance

__all__ = ["STOPPED", "Files", "Settings", "another_role", "another_server", "other_configuration", "restarted"]

Files = Mapping[str, str]
"""Path -> digest."""
Settings = Mapping[str, tuple[str, str]]
"""Knob -> (value as text, where it comes from)."""

_SHOWN = 5
STOPPED = "tuning was stopped, so as not to fight over the configuration; find out who changed it, then start again"


def another_server(text: str) -> Disturbance:
    """The address leads to another server than it did."""
    return _stop(text, "the wrong server is never tuned: check what the url leads to, then start again")


def another_role(text: str) -> Disturbance:
    """It is the same server, and does something else now."""
    return _stop(text, "the wrong node is never tuned: point the url at the server to tune, then start again")


def restarted(text: str) -> Disturbance:
    """It was restarted, which spoils no more than the trial."""
    return Disturbance(fault=Fault.ENVIRONMENT, text=text, stops=False)


def other_configuration(files: tuple[Files, Files], settings: tuple[Settings, Settings]) -> Iterator[Disturbance]:
    """What somebody else has changed in files, else in settings: each as it was left, and as it is now."""
    changed = list(_file_changes(*files))
    if changed:
        yield _stop("; ".join(changed), STOPPED)
        return
    set_anew = list(_setting_changes(*settings))
    if set_anew:
        more = f" and {len(set_anew) - _SHOWN} more" if len(set_anew) > _SHOWN else ""
        yield _stop(f"somebody else changed settings: {', '.join(set_anew[:_SHOWN])}{more}", STOPPED)


def _stop(text: str, hint: str) -> Disturbance:
    return Disturbance(fault=Fault.ENVIRONMENT, text=text, stops=True, hint=hint)


def _file_changes(left: Files, now: Files) -> Iterator[str]:
    for path in sorted({*left, *now}):
        before, after = left.get(path, "missing"), now.get(path, "missing")
        if before == after:
            continue
        what = "removed" if after == "missing" else "added" if before == "missing" else "changed"
        yield f"file={path!r} was {what} by somebody else"


def _setting_changes(left: Settings, now: Settings) -> Iterator[str]:
    for name, (value, where) in now.items():
        if name in left and left[name][0] != value:
            yield f"{name}={value} ({where}), it was {left[name][0]}"
