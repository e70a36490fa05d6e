"""`python -m trimtab.systems.mongodb URL OPTION`: what the catalogue asks of a mongod, one option a question.

The password of the user in the URL comes from MONGO_PASSWORD: everyone can read the words of a command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.systems.mongodb.client import Mongod
from trimtab.systems.mongodb.values import RUNTIME, as_conf, commands_of, counters_of, names_of, options_of, values_of

_PASSWORD = "MONGO_PASSWORD"
_WAIT_S, _PING_S = 10.0, 5.0
"""For a server that cannot be reached: a health command that takes 10 s is ended, and nobody would hear what it has to say."""
_USAGE = (
    "usage: python -m trimtab.systems.mongodb URL --ping | --values | --counters | --parameters"
    " | --reload FILE [ADDRESS | ADDRESS=VALUE ...]"
)


def main(argv: list[str]) -> int:
    """The exit code: 0 done, 1 the server refuses, 2 it was not meant."""
    if len(argv) < 2 or argv[1] not in ("--ping", "--values", "--counters", "--parameters", "--reload"):
        print(_USAGE, file=sys.stderr)
        return 2
    try:
        wait_s = _PING_S if argv[1] == "--ping" else _WAIT_S
        server = Mongod(argv[0], os.environ.get(_PASSWORD), wait_s=wait_s)
        try:
            _answer(server, argv[1], argv[2:])
        finally:
            server.close()
    except (TargetError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _answer(server: Mongod, option: str, rest: list[str]) -> None:
    if option == "--ping":
        _require_primary(server)
    elif option == "--counters":
        for name, count in counters_of(server.run({"serverStatus": 1})).items():
            print(f"{count:.17g} {name}")
    elif option == "--parameters":
        version = str(server.run({"buildInfo": 1}).get("version", ""))
        for name in [*names_of(server.run({"getParameter": "*"})), *options_of(version)]:
            print(f"[{name}]")
    elif option == "--values":
        print(as_conf(_values(server, server.run({"getParameter": "*"}), _profile(server))), end="")
    else:
        # Every byte is a character, whatever a comment is written in.
        _reload(server, Path(rest[0]).read_text(encoding="latin-1"), rest[1:])


def _require_primary(server: Mongod) -> None:
    """That it answers; a member of a replica set takes no load after its start until a primary is elected, be it the only one.

    Raises:
        TargetError: it does not, or none is.
    """
    hello = server.run({"hello": 1})
    if hello.get("isWritablePrimary") is False and "primary" not in hello:
        raise TargetError(
            f"the mongod waits for a primary of its replica set, setName={hello.get('setName', '')!r}",
            hint="rs.status() in mongosh says why there is none",
        )


def _reload(server: Mongod, conf: str, words: list[str]) -> None:
    """`words`: addresses that are read from the file, all of it where none is named, and those that get a value again."""
    parameters, profile = server.run({"getParameter": "*"}), _profile(server)
    pairs = {address: value for address, sign, value in (text.partition("=") for text in words) if sign}
    only = [word for word in words if "=" not in word]
    now, level = _values(server, parameters, profile), int(profile.get("was", -1))
    for command in commands_of(conf, now, pairs, str(parameters.get(RUNTIME, "")), level=level, only=only):
        server.run(command)


def _profile(server: Mongod) -> Mapping[str, Any]:
    """How the profiler is set; {} where this user may not see it."""
    try:
        return server.run({"profile": -1})
    except TargetError:
        return {}


def _values(server: Mongod, parameters: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, str]:
    return values_of(parameters, server.run({"getCmdLineOpts": 1}), server.run({"serverStatus": 1}), profile)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
