"""The values in use of a mongod, and the commands that change them, as plain documents; nothing is connected here.

Addresses are those of the catalogue: keys of mongod.conf with dots between, `setParameter.NAME` for parameters, and for settings
of the storage engine the key of their text, "#", and their names there (see `trimtab.systems.codec.mongod_conf`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from trimtab.systems.codec.mongod_conf import MongodConf

__all__ = ["ENGINE", "RUNTIME", "as_conf", "commands_of", "counters_of", "names_of", "options_of", "values_of"]

ENGINE = "storage.wiredTiger.engineConfig.configString#"
RUNTIME = "wiredTigerEngineRuntimeConfig"
"""The parameter with the settings of the engine that were set last at run time, as one text."""

_PARAMETER = "setParameter."
_AT_RUN_TIME = {
    "storage.syncPeriodSecs": "syncdelay",
    "storage.journal.commitIntervalMs": "journalCommitInterval",
}
"""Keys of the file -> the parameter that changes the same thing in a server that runs."""

_SLOW = "operationProfiling.slowOpThresholdMs"
"""No parameter: the command `profile` shows and changes it, for the whole server
(https://www.mongodb.com/docs/manual/reference/command/profile/)."""

_OLD_OPTIONS = {"storage.journal.enabled": (6, 1)}
"""Keys of the file -> the first version that refuses to start with them
(https://www.mongodb.com/docs/manual/reference/configuration-file-settings-command-line-options-mapping/)."""

_AT_THE_START = {
    f"{ENGINE}file_manager.close_{name}": f"wiredTigerFileHandleClose{parameter}"
    for name, parameter in (("idle_time", "IdleTime"), ("handle_minimum", "Minimum"), ("scan_interval", "ScanInterval"))
}
"""Settings of the engine -> the parameters of which a mongod makes them at its start (`WiredTigerKVEngine`); what its own text
says comes after them, and counts. Their defaults are not the same in all versions."""

_RENAMED = {
    f"wiredTigerConcurrent{kind}Transactions": f"storageEngineConcurrent{kind}Transactions"
    for kind in ("Read", "Write")
}
"""Names of parameters -> those that 7.0 gave them. It still knows and lists the old ones, and warns of each in its log
("Use of deprecated server parameter name"): one setting, and not two."""

_COUNTED = re.compile(
    r"opcounters\.|metrics\.(document|getLastError|operation|query\.(planCache|sort)|queryExecutor|record|ttl)\.|"
    r"network\.(bytes(In|Out)|numRequests)|wiredTiger\.(block-manager\.(blocks|bytes) (read|written)|"
    r"cache\.(bytes (read into|written from)|modified pages evicted|unmodified pages evicted|"
    r"pages (read into|written from|requested from))"
    r"|connection\.total (read|write|fsync) I/Os|log\.log (bytes|operations|records|sync|write)|"
    r"transaction\.(transaction begins|transactions (committed|rolled back)))"
)
"""What of serverStatus only grows; the rest are states, maxima and averages."""

_CACHE = "storage.wiredTiger.engineConfig.cacheSizeGB"
_MB, _GB = 1 << 20, 1 << 30


@cache
def _at_run_time() -> frozenset[str]:
    """The addresses of the catalogue that a server takes while it runs. It refuses others, and may show them in another way."""
    text = (files("trimtab.catalog") / "kinds" / "mongodb.toml").read_text(encoding="utf-8")
    knobs = tomllib.loads(text)["knob"].values()
    return frozenset(knob["address"] for knob in knobs if knob.get("restart") != "restart")


def names_of(parameters: Mapping[str, Any]) -> list[str]:
    """The parameters that a server has, each by the newest of its names."""
    return [name for name in parameters if _RENAMED.get(name) not in parameters]


def options_of(version: str) -> list[str]:
    """The keys of the file that only some versions have, this one among them; none of a version that is not understood."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    return [key for key, end in _OLD_OPTIONS.items() if numbers and numbers < end]


def values_of(
    parameters: Mapping[str, Any],
    options: Mapping[str, Any],
    status: Mapping[str, Any],
    profile: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Every value that a server shows, by address.

    Args:
        parameters: the answer to {getParameter: "*"}.
        options: the answer to {getCmdLineOpts: 1}.
        status: the answer to {serverStatus: 1}.
        profile: the answer to {profile: -1}.
    """
    found = {path: _text(value) for path, value in _leaves(options.get("parsed", {}), "") if _is_plain(value)}
    # What the file says of a parameter counts at the start only.
    found |= {f"{_PARAMETER}{name}": _text(value) for name, value in parameters.items() if _is_plain(value)}
    for path, name in _AT_RUN_TIME.items():
        if name in parameters:
            found[path] = _text(parameters[name])
    if "slowms" in profile:
        found[_SLOW] = _text(profile["slowms"])
    if "sampleRate" in profile:
        found["operationProfiling.slowOpSampleRate"] = _text(profile["sampleRate"])
    cache_bytes = status.get("wiredTiger", {}).get("cache", {}).get("maximum bytes configured")
    if cache_bytes is not None:
        found[_CACHE] = _cache_gb(found.get(_CACHE), float(cache_bytes))
    found |= {address: _text(parameters[name]) for address, name in _AT_THE_START.items() if name in parameters}
    for text in (str(options.get("parsed", {}).get("storage", {}).get("wiredTiger", {}).get("engineConfig", {})
                     .get("configString", "")), str(parameters.get(RUNTIME, ""))):  # fmt: skip
        # Later settings count; what was set at run time comes last.
        found |= _engine_values(text)
    found.pop("storage.wiredTiger.engineConfig.configString", None)
    return found


def _cache_gb(asked: str | None, used_bytes: float) -> str:
    """The size of the cache in use: as it was asked for at the start, where it is what a mongod makes of that. It takes whole
    megabytes (`WiredTigerUtil::getCacheSizeMB` in its source): 0.35 GB of a file would be 0.3496 GB for ever."""
    if asked is not None and abs(float(asked) * _GB - used_bytes) < _MB:
        return f"{float(asked):.12g}"
    return f"{used_bytes / _GB:.4g}"


def _engine_values(text: str) -> dict[str, str]:
    read = MongodConf().read(f'configString: "{text}"\n') if text else {}
    return {f"{ENGINE}{address.partition('#')[2]}": located.value for address, located in read.items()}


def _leaves(document: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def as_conf(values: Mapping[str, str]) -> str:
    """Values by address as text of a mongod.conf; those that it cannot hold on one line are left out."""
    tree: dict[str, Any] = {}
    engine = ""
    for address, value in values.items():
        if address.startswith(ENGINE):
            engine = MongodConf().write(engine, {f"configString#{address.removeprefix(ENGINE)}": value})
            continue
        if "'" in value or not value.isprintable():
            continue
        *path, name = address.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {}) if isinstance(branch.get(part, {}), dict) else {}
        branch[name] = f"'{value}'"
    text = engine.partition(" ")[2].strip()
    if text:
        own = tree.setdefault("storage", {}).setdefault("wiredTiger", {}).setdefault("engineConfig", {})
        own["configString"] = text
    return "".join(_lines(tree, ""))


def _lines(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:\n"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {value}\n"


def commands_of(
    conf: str,
    now: Mapping[str, str],
    back: Mapping[str, str] = MappingProxyType({}),
    at_run_time: str = "",
    *,
    level: int = -1,
    only: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The commands that make a running server use what its file says, where it can without a restart.

    Args:
        conf: text of mongod.conf; of what the catalogue does not know, and of what counts at the start only, nothing is sent.
        now: the values in use.
        back: address -> value of what is to have that again, whatever the file says: no command of a mongod unsets anything.
        at_run_time: the settings of the engine that were set last.
        level: of the profiler as it is; -1 leaves it too.
        only: addresses to read from the file; none: all. What else differs from it is somebody else's doing.

    Returns:
        One document for each parameter that differs; the settings of the engine go in one, which is a text.
    """
    known = _at_run_time()
    wanted = {
        address: located.value for address, located in MongodConf().read(conf).items() if address in only or not only
    }
    wanted = {address: value for address, value in (wanted | dict(back)).items() if address in known}
    commands: list[dict[str, Any]] = []
    for address, value in wanted.items():
        if address.startswith(ENGINE) or _is_same(now.get(address), value):
            continue
        if address == _SLOW:
            commands.append({"profile": level, "slowms": _typed(value)})
        else:
            name = _AT_RUN_TIME.get(address) or address.removeprefix(_PARAMETER)
            commands.append({"setParameter": 1, name: _typed(value)})
    # The server shows the last text only: one of ours that a later one hides is not among the values in use.
    engine = {a: v for a, v in wanted.items() if a.startswith(ENGINE) and (now.get(a) != v or a in back)}
    if engine:
        commands.append({"setParameter": 1, RUNTIME: _engine_text({**_engine_values(at_run_time), **engine})})
    return commands


def _is_same(now: str | None, value: str) -> bool:
    """As a number, too: the server shows 60.0 as 60."""
    return now is not None and _typed(now) == _typed(value)


def _engine_text(values: Mapping[str, str]) -> str:
    codec, text = MongodConf(), ""
    for address, value in values.items():
        text = codec.write(text, {f"{RUNTIME}#{address.removeprefix(ENGINE)}": value})
    return text.partition('"')[2].rpartition('"')[0]


def _typed(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def counters_of(status: Mapping[str, Any]) -> dict[str, float]:
    """What serverStatus counts, by its own path."""
    return {
        path: float(value)
        for path, value in _leaves(status, "")
        if _COUNTED.match(path) and isinstance(value, int | float) and not isinstance(value, bool)
    }
