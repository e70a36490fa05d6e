"""trimtab exec: tunes the command line of any program by running it."""

from __future__ import annotations

import math
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.options import (
    GivenText,
    history_option,
    in_history,
    json_option,
    print_json,
    require_one_of,
    say,
    state_option,
)
from trimtab.errors import LoadError, UsageError
from trimtab.redact import redact
from trimtab.units import format_duration, format_figure, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trimtab.session.program import Program

__all__ = ["command"]

_EXIT = {"better": 0, "no_improvement": 1}
_STOPPED = 130

_LONGEST_NAME = 64
"""Of a session."""

_LONGEST_WORKLOAD = 200
"""As the API takes it."""

_QUIET_S = 5.0
"""How long a server may have no point for us before that is worth a line."""

_FIRST_S = 10.0
"""How long a server that is not there yet is waited for; once it has begun the session, as long as a client waits by default."""

_SHORTEST_LEASE_S, _LONGEST_LEASE_S = 600.0, 7 * 86400.0
_REPORT_S = 60.0
"""What a lease is longer than a run may take: the client tries for so long to report it."""


@click.command("exec", context_settings={"ignore_unknown_options": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- PROGRAM [ARGUMENT]...")
@state_option
@history_option
@json_option
@click.option(
    "--int", "integers", multiple=True, metavar="NAME=LOW:HIGH[:STEP|:log]", help="A whole number; may be repeated."
)
@click.option("--real", "reals", multiple=True, metavar="NAME=LOW:HIGH[:STEP|:log]", help="A number; may be repeated.")
@click.option("--choice", "choices", multiple=True, metavar="NAME=A,B,...", help="One of some texts; may be repeated.")
@click.option(
    "--start", "starts", multiple=True, metavar="NAME=VALUE", help="Value to begin from; else the middle, or the first."
)
@click.option("--name", metavar="NAME", help="Name of the session; default: the program's.")
@click.option(
    "--measure",
    type=click.Choice(["wall", "user", "system", "output"]),
    default="wall",
    show_default=True,
    help="Seconds on the clock, or of the processor; or the last number that the program prints.",
)
@click.option("--maximise", is_flag=True, help="More is better (with --measure output).")
@click.option(
    "--budget",
    default="25 trials",
    show_default=True,
    metavar="TIME|TRIALS",
    help='Trials of the search (the proof comes on top), or a time such as "10m" that includes the proof.',
)
@click.option("--searcher", default="", metavar="NAME", help="Short name of a searcher; default: auto.")
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), metavar="N", default=1, show_default=True, help="Seed of the search."
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=1,
    show_default=True,
    help="Runs of each config; their median counts.",
)
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="CONDITION",
    help='What must hold: "a + b <= 100"; may be repeated.',
)
@click.option(
    "--timeout",
    default="1h",
    show_default=True,
    metavar="TIME",
    help="After which a run is killed and counts as failed.",
)
@click.option("--no-proof", is_flag=True, help="End with the search: the best config is not proven.")
@click.option(
    "--again",
    is_flag=True,
    help="Begin a new session even if this one has ended, was interrupted, or is of another host; one that runs at a --server"
    " goes on.",
)
@click.option(
    "--server",
    metavar="URL",
    type=GivenText(),
    help="Be one of the clients of a `trimtab serve`; its token is taken from TRIMTAB_TOKEN.",
)
def command(words: tuple[str, ...], state_dir: Path, history_url: str | None, as_json: bool, **options: Any) -> int:
    """Tune the options of any program by running it: {name} in its arguments stands for the value of a knob.

    Example: trimtab exec --int level=1:9 -- gzip --keep --force -{level} data

    The same command resumes. Exit code 0: a better config was proven, or with --no-proof the search has ended; 1: no
    improvement was found.
    """
    from trimtab.session.program import Program
    from trimtab.trial.command_line import command_at
    from trimtab.trial.signals import signals_interrupt

    require_one_of({"--server": options["server"], "--history": history_url})
    body = _body(words, options)
    program = Program(command=words, measure=options["measure"], timeout_s=_timeout_s(options))
    program.check([knob["name"] for knob in body["knobs"]])
    is_remote = bool(options["server"])
    with signals_interrupt():  # the measured program is killed, and what was measured is kept
        found = _remote(body, program, options) if is_remote else _local(body, program, state_dir, history_url, options)
    report = in_history(f"trimtab report {found['name']}", history_url)
    report = (
        f"{options['server']}, or `{report}` where that server runs" if is_remote else command_at(state_dir, report)
    )
    _show(found, program, as_json, report=report)
    return _exit_code(found)


def _exit_code(found: Mapping[str, Any]) -> int:
    """That of the verdict: no command that waits for this one shall follow a session that somebody has stopped."""
    if found["stop_kind"] == "unproven":
        return 0
    return _STOPPED if found["stop_kind"] == "asked" else _EXIT.get(found["result"], _STOPPED)


def _timeout_s(options: Mapping[str, Any]) -> float:
    """Raises UsageError where no run can end in time, or where slow runs would be looked for."""
    if options["maximise"] and options["measure"] != "output":
        raise UsageError(
            f"--maximise with --measure={options['measure']} looks for the slowest config",
            hint="add --measure output if the program prints the figure; else leave --maximise out",
        )
    seconds = parse_duration(options["timeout"])
    if seconds <= 0:
        raise UsageError(f"--timeout={options['timeout']!r} is not above 0", hint='write a duration such as "30s"')
    return seconds


def _body(words: tuple[str, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """The session as the API takes it."""
    knobs = [_numeric("integer", text) for text in options["integers"]]
    knobs += [_numeric("real", text) for text in options["reals"]]
    for text in options["choices"]:
        name, values = _parted(text, "--choice mode=fast,small")
        knobs.append({"name": name, "kind": "choice", "choices": values.split(",")})
    if not knobs:
        raise UsageError("nothing is to be tuned", hint="define a knob, as in --int level=1:9")
    by_name = {knob["name"]: knob for knob in knobs}
    for text in options["starts"]:
        name, value = _parted(text, "--start level=6")
        if name not in by_name:
            raise UsageError(f"--start names unknown knob={name!r}", hint=f"use some of: {', '.join(by_name)}")
        by_name[name]["default"] = _start(by_name[name], value, text)
    repeat = options["repeat"]
    return {
        "name": options["name"] or _name_of(words[0] if words else ""), "knobs": knobs,
        "objective": "maximise" if options["maximise"] else "minimise",
        "budget": options["budget"], "searcher": options["searcher"], "seed": options["seed"],
        "constraints": list(options["constraints"]), "proof": not options["no_proof"],
        "layers": [{"kind": "repeat", "options": {"times": repeat}}] if repeat > 1 else [],
        "workload": _workload(words, options["measure"]),
    }  # fmt: skip


def _workload(words: tuple[str, ...], measure: str) -> str:
    """What is run, and how it is measured, without passwords: it is kept, and shown in reports.

    Of a long one the beginning, and a digest, so that it is the session of no other.
    """
    import hashlib

    text = redact(f"exec {shlex.join(words)} by {measure}")
    text = os.fsencode(text).decode("utf-8", "backslashreplace")  # the name of a file need be no text
    if len(text) <= _LONGEST_WORKLOAD:
        return text
    mark = f"… {hashlib.sha256(os.fsencode(text)).hexdigest()[:16]} by {measure}"
    return text[: _LONGEST_WORKLOAD - len(mark)] + mark


def _name_of(program: str) -> str:
    """The program's name as far as a session may have it."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in Path(program).name)
    return name.lstrip("._-")[:_LONGEST_NAME] or "program"


def _parted(text: str, example: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not name or not equals or not rest:
        raise UsageError(f"cannot read {text!r}", hint=f"write it as in {example}")
    return name, rest


def _numeric(kind: str, text: str) -> dict[str, Any]:
    name, rest = _parted(text, "--int level=1:9")
    parts = rest.split(":")
    if not 2 <= len(parts) <= 3:
        raise UsageError(f"cannot read {text!r}", hint="write NAME=LOW:HIGH, NAME=LOW:HIGH:STEP or NAME=LOW:HIGH:log")
    knob = {"name": name, "kind": kind, "low": _value(kind, parts[0], text), "high": _value(kind, parts[1], text)}
    if len(parts) == 3:
        knob |= {"log": True} if parts[2] == "log" else {"step": _value(kind, parts[2], text)}
    return knob


def _start(knob: Mapping[str, Any], text: str, whole: str) -> Any:
    """A value of the knob: a default elsewhere may lie outside the range, but what is searched from here is inside.

    Raises:
        UsageError: it is none, or the knob's definition contradicts itself.
    """
    from trimtab.space import Knob

    value = _value(knob["kind"], text, whole)
    known = Knob(**{**knob, "default": value})
    if not known.contains(value):
        raise UsageError(f"--start {whole}: {text!r} is not a value of {knob['name']}", hint=known.legal())
    return value


def _value(kind: str, text: str, whole: str) -> Any:
    if kind == "choice":
        return text
    try:
        number = int(text) if kind == "integer" else float(text)
        if isinstance(number, float) and not math.isfinite(number):
            raise ValueError("no number")
    except ValueError as error:
        raise UsageError(f"{text!r} in {whole!r} is not of type {kind}", hint="write it as in level=1:9") from error
    return number


def _measure(points: Any, program: Program) -> None:
    """Runs every point of a session, local or not."""
    from trimtab.session.program import OneUnit

    unit = OneUnit()
    for number, point in enumerate(points, start=1):
        outcome = unit.checked(program.run(point.config))
        changed = " ".join(f"{name}={value}" for name, value in point.config.items())
        if outcome.value is None:
            point.fail(outcome.reason, outcome.status)
            say(f"run {number} ({point.role}) {changed}: {outcome.status}: {outcome.reason.splitlines()[0]}")
        else:
            point.report(outcome.value)
            say(f"run {number} ({point.role}) {changed}: {format_figure(outcome.value)}")


def _local(
    body: dict[str, Any], program: Program, state_dir: Path, history_url: str | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    import json

    from trimtab.session.local import LocalSession
    from trimtab.session.spec import read_spec

    with LocalSession(read_spec(json.dumps(body)), state_dir, history_url, again=options["again"]) as session:
        if not session.is_new:
            say(f"going on with session {body['name']} (--again begins a new one)")
        _measure(session, program)
        _require_measured(session.session.error)
        config, gain = session.session.best()
        verdict = session.session.verdict
        return {
            "name": body["name"], "result": verdict.result, "config": dict(config), "gain": gain,
            "is_proven": session.session.is_proven, "stop_reason": verdict.stop_reason or session.session.error,
            "stop_kind": str(verdict.stop_kind),
        }  # fmt: skip


def _remote(body: dict[str, Any], program: Program, options: Mapping[str, Any]) -> dict[str, Any]:
    from trimtab.client import Server, ServerError

    rest = {key: value for key, value in body.items() if key not in ("name", "knobs")}
    rest |= {"lease": _lease(program.timeout_s), "again": options["again"]}
    with Server(options["server"], on_wait=_say_waiting) as server:
        session = server.session(body["name"], body["knobs"], client="exec", patience_s=_FIRST_S, **rest)
        try:
            _measure(_points(session), program)
        finally:
            with suppress(ServerError):
                session.leave(patience_s=0)
        shown = server.request("GET", f"/sessions/{body['name']}")
        _require_measured(shown["error"])
        return {
            "name": body["name"], "result": session.result, "config": dict(session.best.config), "gain": session.best.gain,
            "is_proven": session.best.is_proven, "stop_reason": shown["stop_reason"], "stop_kind": shown["stop_kind"],
        }  # fmt: skip


def _say_waiting(why: str, most_s: float) -> None:
    say(f"{why}; trying again for up to {format_duration(round(most_s))}")


def _points(session: Any) -> Iterator[Any]:
    """Those of a session of a server; says so where the first one is waited for."""
    first = session.fetch(wait_s=_QUIET_S)
    if first is not None:
        yield first
    elif not session.result:
        say(f"session {session.name} has no point ready (other clients have them, or it is paused): waiting")
    yield from session


def _lease(timeout_s: float) -> str:
    """For a server: so long that no run is handed to another client while it goes on."""
    return f"{min(max(timeout_s + _REPORT_S, _SHORTEST_LEASE_S), _LONGEST_LEASE_S):.0f}s"


def _require_measured(error: str) -> None:
    """Raises LoadError where the session could not go on: there is no best config then."""
    if error:
        message = error.partition("\nhint:")[0]  # its own hint speaks of a server under load
        raise LoadError(
            message, hint="run the program by itself; when it works, the same command with --again begins a new session"
        )


def _show(found: Mapping[str, Any], program: Program, as_json: bool, *, report: str) -> None:
    from trimtab.space import Config

    words = shlex.join(program.words(Config(found["config"])))
    if as_json:
        print_json({**found, "command": words})
        return
    if found["is_proven"]:
        click.echo(f"proven {format_figure(found['gain'], 3)} times as good as the start:")
    elif found["result"] == "no_improvement":
        click.echo("nothing better than the start was proven; the start:")
    else:
        click.echo(f"best so far, not proven ({found['stop_reason'] or 'the session has ended'}):")
    click.echo(f"    {words}")
    say(f"report: {report}")
