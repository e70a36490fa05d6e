"""Gate: what may never reach a target, whatever a study file, a history, an overlay or a searcher asks for.

Two checks, both without touching the target, both in code and not in a file that a user edits:

* `harm_of(name)` knows the names of settings that run code, read or write files, or open the system, in any of the
  systems that Trimtab speaks to, whatever stands before the name (a target, a section: `db.skip_grant_tables`). No
  unlocking opens them; the trial room asks before every change of every target.
* `check_config(config, states)` is an allow-list: each name exactly as the live catalogue spells it and open in it, each
  value of the knob's own type, inside the target's limits, and the same after being written out and read back.

A target's `preflight` and `apply` call `check_config`; a new kind of target inherits both.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping

from trimtab.errors import ApplyError, SpaceError
from trimtab.space import Knob, KnobKind, SafetyClass, Value
from trimtab.systems.base import KnobState
from trimtab.units import format_value

__all__ = [
    "check_config",
    "check_harmless",
    "check_value",
    "harm_of",
    "harm_of_address",
    "harm_of_file",
    "require_open",
]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", re.ASCII)
_MAX_TEXT = 256

_HARMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"(^|[._])include(_?(dir|if_exists|optional))?$", "reads further configuration files"),
        (r"(command|_cmd|_program|_script|_hook|_exec)$|^(set|add)handler$", "runs code"),
        (r"(^|[._])on_?(error|out_?of_?memory_?error)$", "runs code"),
        (r"librar(y|ies)$|_provider$|^plugin_(load|dir)|^(load(_?module|file|_?plugin)|malloc_lib)", "runs code"),
        (r"^exec(start|stop|reload|condition)\w*$|_by_lua\w*$|^(perl|js)_\w+$", "runs code"),
        (r"^java(agent|_tool_options|_opts)$|^agent(path|lib)$|jdwp|^(flags|vmoptionsfile)$", "runs code"),
        (r"(^|\.)on_(\w+_)?init$|start_proc$|^init_(connect|file|replica|slave)$", "runs code"),
        (r"^kernel\.(core_pattern|modprobe|hotplug|poweroff_cmd|usermodehelper)", "runs code"),
        (r"^kernel\.(randomize_va_space|[kd]\w+_restrict|yama|unprivileged|perf_event_paranoid)|^vm\.mmap_min_addr$|"
         r"^fs\.(protected_\w+|suid_dumpable)$|^net\.ipv[46]\.(ip_forward$|conf\.)", "opens the system"),
        (r"^vm\.(overcommit_\w+|panic_on_oom|min_free_kbytes|drop_caches)$|^fs\.(file_max|nr_open)$|"
         r"^kernel\.(panic\w*|\w+_panic|sysrq|pid_max|threads_max|sched_rt_\w+)$", "can stop the machine"),
        (r"(^|_)(class_?name|triggers?_dir|user_defined_functions\w*|scripted_\w+)$|^(seed_provider|endpoint_snitch)$",
         "runs code"),
        (r"((?<!send)file|filename|dir|directory|directories|path|_home)$|^(customlog|errorlog|transferlog)$", "names files"),
        (r"^((script)?alias(match)?|documentroot|serverroot|(proxy_?)?pass(match|reverse)?|proxypass\w*|cgi\w*)$",
         "names files"),
        (r"^(root|alias|(doc|app)base|(access|error)_log|(fastcgi|uwsgi|scgi|grpc)_pass)$", "names files"),
        (r"^(bind|port|unixsocket(perm)?|protected_mode|requirepass|master(auth|user)|(replica|slave)of|auth_basic\w*|allow|deny)$",
         "opens the system"),
        (r"^(skip_grant_tables|skip_networking|secure_file_priv|local_infile|allow_suspicious_udfs)$", "opens the system"),
        (r"^(enabletestcommands|javascriptenabled|security|bindip(all)?|bind_address|listen(_addresses?)?|"
         r"authorization|(rpc|listen|broadcast(_rpc)?)_address)$", "opens the system"),
        (r"^((internode_)?authenticator|(network_|cidr_)?authori[sz]er|role_manager|allow_all_\w+|clusterauthmode|"
         r"keyfile|transitiontoauth|authenticationmechanisms|require|satisfy|allowoverride|user|group)$",
         "opens the system"),
        (r"^((client|server)_encryption_options|native_transport_port_ssl|jmx\w*|tls|ssl)$", "opens the system"),
    )
)  # fmt: skip
_SECTIONS = re.compile(r"^(security|net\.tls|net\.ssl|(client|server)_encryption_options)\.|\.security\.")
"""Tables of a configuration file in which nothing at all is a matter of speed."""


def harm_of(name: str) -> str:
    """Why no target may ever be given a setting of that name; "" when nothing is known against it.

    Spelling does not matter: case, and hyphens for underscores, are looked through. The name is looked at as it stands and
    without each of its prefixes, for a stack and a configuration file both put words in front.
    """
    plain = name.casefold().replace("-", "_")
    words = plain.split(".")
    if any(_SECTIONS.search(".".join(words[start:])) for start in range(len(words))):
        return "forbidden: opens the system"
    tails = [".".join(words[start:]) for start in range(len(words))]
    return next((f"forbidden: {why}" for pattern, why in _HARMS if any(pattern.search(tail) for tail in tails)), "")


def harm_of_address(address: str) -> str:
    """Why no target may ever be given a value at that place of a file; "" when nothing is known against it.

    An address is a path with marks in it ("IfModule x.LoadModule", "Server/Listener@className", "-XX:OnError"): it is looked
    at as it stands, and so is each word of it.
    """
    words = [address, *re.split(r"[\s/@:\[\]=]+", address)]
    return next((harm for word in words if (harm := harm_of(word.lstrip("-")))), "")


def harm_of_file(path: str) -> str:
    """Why no target may ever write that file of the kernel; "" when nothing is known against it, and for other files."""
    plain = os.path.normpath(path)
    folder = next((each for each in ("/proc/", "/sys/") if plain.startswith(each)), "")
    return harm_of(plain.removeprefix(folder).replace("/", ".")) if folder else ""


def check_harmless(config: Mapping[str, Value]) -> None:
    """What can be said of a config without knowing the target: names that are words, none known to do harm, and texts
    without control characters.

    Raises:
        ApplyError: one is not; nothing was changed.
    """
    for name, value in config.items():
        if _NAME.fullmatch(name) is None:
            raise ApplyError(f"knob={_shown(name)} is not the name of a setting", hint="see `trimtab knobs`")
        harm = harm_of(name)
        if harm:
            raise ApplyError(f"knob={name!r} may not be changed: {harm}", hint="no option opens it")
        if isinstance(value, str) and (len(value) > _MAX_TEXT or not value.isprintable()):
            raise ApplyError(
                f"{name}={_shown(value)} holds control characters or is longer than {_MAX_TEXT} characters",
                hint="see `trimtab knobs`",
            )


def check_config(config: Mapping[str, Value], states: Mapping[str, KnobState]) -> None:
    """That `config` may be set on the target with this catalogue.

    Raises:
        ApplyError: a name is not the catalogue's, is locked or does harm, or a value is not legal.
    """
    check_harmless(config)
    for name, value in config.items():
        state = states.get(name)
        if state is None:
            raise ApplyError(f"the server has no knob={name!r}", hint="see `trimtab knobs`")
        reason = _closed(state)
        if reason:
            raise ApplyError(f"knob={name!r} may not be changed: {reason}", hint="see `trimtab knobs`")
        check_value(state.knob, value, state.vendor_low, state.vendor_high)


def _closed(state: KnobState) -> str:
    """Why this knob may not be changed here: the lock of the catalogue, and the class that no catalogue may open."""
    never = "forbidden: its safety class is never opened" if state.knob.safety is SafetyClass.FORBIDDEN else ""
    return state.lock_reason or never


def require_open(names: Iterable[str], states: Mapping[str, KnobState]) -> None:
    """That a study over `names` holds open knobs only: a second look at what the target's own selection returns.

    Raises:
        SpaceError: one is unknown to the catalogue, locked, or does harm.
    """
    for name in names:
        closed = "there is no such knob" if name not in states else _closed(states[name])
        reason = harm_of(name) or closed
        if reason:
            raise SpaceError(f"knob={name!r} cannot be tuned: {reason}", hint="see `trimtab knobs` for what may change")


def check_value(knob: Knob, value: Value, low: float | None, high: float | None) -> None:
    """That `value` has the type of `knob`, lies in the target's own range `[low, high]`, and survives being written out.

    Raises:
        ApplyError: it does not; nothing was changed.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        KnobKind.BOOLEAN: isinstance(value, bool),
        KnobKind.INTEGER: is_number and isinstance(value, int),
        KnobKind.REAL: is_number and _is_finite(value),
    }.get(knob.kind, isinstance(value, str))
    if not fits:
        raise ApplyError(f"{knob.name}={_shown(value)} is not of kind={knob.kind.value}", hint="see `trimtab knobs`")
    if isinstance(value, str) and value not in knob.choices:
        raise ApplyError(
            f"{knob.name}={_shown(value)} is none of its choices",
            hint=f"use one of: {', '.join(knob.choices) or 'none'}",
        )
    if is_number and low is not None and high is not None and not low <= value <= high:  # type: ignore[operator]
        raise ApplyError(
            f"{knob.name}={_shown(value)} is outside the server's range of {format_value(low, '')} to "
            f"{format_value(high, '')} (unit {knob.unit or 'none'})",
            hint="see `trimtab knobs`",
        )
    if not _survives(knob, value):
        raise ApplyError(f"{knob.name}={_shown(value)} changes when it is written out", hint="see `trimtab knobs`")


def _is_finite(value: Value) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _survives(knob: Knob, value: Value) -> bool:
    """Whether the text of the value means the value again, so that what is set is what was meant."""
    try:
        back = knob.parse(knob.format(value))
    except SpaceError:
        return False
    if isinstance(value, float) and isinstance(back, float | int):
        return math.isclose(value, back, rel_tol=1e-9, abs_tol=1e-15)
    return back == value


def _shown(value: object) -> str:
    """For a message: one line, not longer than a line."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
