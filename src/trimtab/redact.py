"""Redact: passwords and the values in queries are taken out of every text before it is shown or stored; the one place for it.

* `remember(secret)` registers a password wherever one enters the program (an endpoint, the environment); `redact(text)` takes
  out every registered one, and whatever stands where a URL or a connection string has its password.
* `hide_literals(text)` is for words of a database: messages and log lines may quote the statement and its values, which may
  be personal data. Names of tables, columns and settings stay.

Errors redact their messages themselves, the trial room its reasons, the history its settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["MASK", "digest", "forget_all", "hide_literals", "hide_values", "redact", "redact_settings", "remember",
           "without_password"]  # fmt: skip

_SHORTEST = 4
_ORDINARY = frozenset(
    {
        *("admin", "database", "default", "localhost", "mariadb", "mysql", "password", "postgres", "postgresql"),
        *("public", "root", "secret", "server", "test", "trimtab", "user"),
    }
)
"""Such a password, or a shorter one, would tear holes into every message; it is found by its place only."""

_VARIABLES = ("PGPASSWORD", "MYSQL_PWD", "REDISCLI_AUTH", "MONGO_PASSWORD")
MASK = "***"

# Patterns are text: `re` compiles (and keeps) those that a process meets; all of them at import would cost every command 7 ms.
# A quote ends a URL where what stands between quotes ends; else it is the password's. No password is longer: hostile text is.
_URL = (
    r"(?i)(?P<head>\b[a-z][a-z0-9+.-]*://[^\s/@:'\"]*):"
    r"(?P<password>(?:[^\s'\"]|['\"](?![\s,;:)\]}])){0,4000})@(?=[^\s@]*)"
)
_WORDS = r"passw(?:or)?d|passphrase|pwd|secret|(?:api|access|secret)[_-]?key|rediscli_auth"
# A number behind a word that may mean something else (`max_token=256`) is none, nor are the dots of a hint (`TOKEN=...`).
# An option and its value may be words of a list.
# A bare value ends at a blank, & or ;, and at a comma or a quote behind which nothing follows at once.
_PAIR = (
    rf"(?i)(?P<key>\b\w*(?:{_WORDS})(?:\s*=\s*|[\"']\s*:\s*)"
    r"|\b(?:\w*_)?(?:token|(?:ssh)?pass)(?:\s*=\s*|[\"']\s*:\s*)(?!\d{1,6}\b|\.{3}(?!\S))"
    rf"|(?<![^\s'\"])--[\w-]*(?:{_WORDS})(?:[ \t]+|['\"],[ \t]*['\"])(?!-))"
    r"(?P<value>\*{3}(?!\w)|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&,;'\"]+(?:[,'\"]+[^\s&,;'\"]+)*)"
)
# A short option is a password only behind the program that takes it for one: `psql -p5432` and `cp -pr` are none.
_OPTIONS = (
    r"(?i)(?P<key>\b(?:{program})\b[^\n;|&]{{0,500}}?[\s'\"`]{option})"
    r"(?P<value>\*{{3}}(?!\w)|'[^']*'|\"[^\"]*\"|[^\s'\"]+)"
)
_CLIENTS = {
    "-p": (r"(?:mysql|mariadb)(?:-?(?:admin|check|dump|import|show|slap|binlog|backup|upgrade))?", "-p"),
    "sshpass": ("sshpass", r"-p\s*"),
    "mongo": (r"mongo(?:sh|dump|restore|export|import|stat|top)?", r"-p[\s'\",]+"),
    "-cli": (r"(?:redis|valkey)-cli", r"(?:-a|--pass)[\s'\",]+"),
    "curl": ("curl", r"(?:-u|--user)[\s'\",]*[^\s:'\"]*:"),
    "cqlsh": ("cqlsh", r"-p[\s'\",]+"),
    "nodetool": ("nodetool", r"-pw[\s'\",]+"),
}
"""Word without which there is nothing to look for -> the programs, and the option up to its password."""
_HEADERS = ("authorization", "cookie", "api-key", "-token")
_HEADER = r"(?i)(?P<key>(?:\b(?:authorization|cookie|api-key)|(?<![\w-])\w[\w-]*-token)\s*:\s*)[^'\"\n]+"
_SECRET_KEY = rf"(?i){_WORDS}|token|authorization|cookie"

_secrets: set[str] = set()


def remember(secret: str | None) -> None:
    """From now on `redact` takes `secret` out of every text, as it is and as a URL writes it."""
    if secret is not None and _can_be_found(secret):
        from urllib.parse import quote

        _secrets.update((secret, quote(secret, safe="")))


def _can_be_found(secret: str) -> bool:
    return len(secret) >= _SHORTEST and secret.casefold() not in _ORDINARY


def forget_all() -> None:
    """Empties the register, for tests."""
    _secrets.clear()


def redact(text: str) -> str:
    """`text` without any password that is known, or that stands in the place of one."""
    known = {*_secrets, *filter(_can_be_found, (os.environ.get(name, "") for name in _VARIABLES))}
    for secret in sorted(known, key=len, reverse=True):
        if secret in text:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", MASK, text)
    if "://" in text:
        text = re.sub(_URL, rf"\g<head>:{MASK}@", text)
    for word, (program, option) in _CLIENTS.items():
        if word in text:
            text = re.sub(_OPTIONS.format(program=program, option=option), rf"\g<key>{MASK}", text)
    if any(map(text.lower().__contains__, _HEADERS)):
        text = re.sub(_HEADER, rf"\g<key>{MASK}", text)
    return re.sub(_PAIR, rf"\g<key>{MASK}", text)


def without_password(url: str) -> str:
    """A URL as it may be kept to be used again: whoever uses it must know the password from elsewhere."""
    place, sign, query = re.sub(_URL, r"\g<head>@", url).partition("?")
    kept = [pair for pair in query.split("&") if re.search(_SECRET_KEY, pair.partition("=")[0]) is None]
    return f"{place}?{'&'.join(kept)}" if sign and any(kept) else place


def redact_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they may be stored: every text redacted, and no text under a key that names a secret."""
    return {key: _hidden(value) if re.search(_SECRET_KEY, key) else _redacted(value) for key, value in settings.items()}


def _hidden(value: Any) -> Any:
    """What stands under the key of a secret: no text of it is kept; a number or a switch is no secret."""
    if isinstance(value, Mapping):
        return {key: _hidden(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(item) for item in value]
    return MASK if isinstance(value, str) else value


def _redacted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return redact_settings(value)
    if isinstance(value, list | tuple):
        return [_redacted(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def digest(text: str) -> str:
    """What stands for a text that is not kept: the same for the same text, and nothing can be read from it."""
    import hashlib

    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


# What the statement and its values look like in a server's words. Lines of a statement that go over several begin with a tab.
# `(?>...)` keeps the first of what it finds: a hostile text that says it a thousand times takes no long.
_LINES: tuple[tuple[str, str], ...] = (
    # a text that begins with such lines, other than those of a trace of Java, begins within a statement
    (r"\A(?:\t(?!at |\.\.\. ).*(?:\n|\Z))+", "(hidden)\n"),
    (r"(?m)^(.*?\b(?:STATEMENT|QUERY|CONTEXT|DETAIL: +(?:Failed process was running|prepare)):).*(?:\n\t.*)*", r"\1 (hidden)"),
    # MySQL and MariaDB: what a session ran when the server crashed, and what a replica might run otherwise
    (r"(?ms)^(Query \((?:0x)?[0-9a-f]+\): ).*?(?=(?<!\n)\n+Connection ID|\Z)", r"\1(hidden)"),
    (r"(Unsafe statement written to the binary log\b.*? Statement: ).*(?:\n(?!\d{4}-\d\d-\d\d).*)*", r"\1(hidden)"),
    (r"(?m)^((?>.*?\bLOG: ).*?\b(?:statement|execute [^:]*|parse [^:]*|bind [^:]*|plan):).*(?:\n\t.*)*", r"\1 (hidden)"),
    # of a deadlock, what each of the processes was doing
    (r"(?m)^(.*?\bProcess \d+: ).*(?:\n\t(?!Process \d).*)*", r"\1(hidden)"),
    (r"(?im)^((?>.*?\bDETAIL:).*?\bparameters:).*(?:\n\t.*)*", r"\1 (hidden)"),
    (r"(?m)^LINE \d+:.*(?:\n[ \t]*\^)?", "LINE: (hidden)"),
    (r"(\)=)\(.*\)", r"\1(hidden)"),
    (r"(Failing row contains )\(.*\)", r"\1(hidden)"),
    (r"(\bdup key: )\{.*\}", r"\1{ (hidden) }"),
    (r"\b(Token|JSON data, line \d+:|Expected .* but found) .*", r"\1 (hidden)"),
    # at a line's end, unless it is the value of a setting
    (r"(?m)^((?!.*parameter \").*: )\"(?:[^\"]|\"\")*\"(?=[^\"]*$)", r'\1"(hidden)"'),
    # a bare word is SQL's own or a name: a text would have its quotes here
    (r"(\bat or near )\"(?![A-Za-z_]\w*\")(?:[^\"]|\"\")*\"", r'\1"(hidden)"'),
    (r"(\b(?:value|syntax|input|literal|string|for type \w+) )\"(?:[^\"]|\"\")*\"", r'\1"(hidden)"'),
    (r"(?m)((?:right syntax to use near|Duplicate entry|(?:Incorrect|Truncated incorrect) \w+ value:) )'.*?'(?= |$)",
     r"\1'(hidden)'"),
)  # fmt: skip


_NUMBER = r"(?<![\w$])\d[\w.]*"
_ESCAPED = r"'(?:[^'\\]|\\.|'')*(?:'|$)"
_VALUE = rf"(?s)\$(\w*)\$.*?\$\1\$|(?<=\b[eE]){_ESCAPED}|'(?:[^']|'')*(?:'|$)|{_NUMBER}"
_VALUE_OF_MYSQL = rf"(?s){_ESCAPED}|\"(?:[^\"\\]|\\.|\"\")*(?:\"|$)|{_NUMBER}"


def hide_values(statement: str, dialect: str) -> str:
    """A statement with ? for every text and number in it.

    Args:
        statement: its text.
        dialect: whose it is: texts of "mysql" may stand in double quotes and have backslashes before a quote, those of SQL and
            of "cql" do not.
    """
    return re.sub(_VALUE_OF_MYSQL if dialect == "mysql" else _VALUE, "?", statement)


def hide_literals(text: str) -> str:
    """A database's message or log lines without the statements in them and the values that they quote."""
    for pattern, mask in _LINES:
        text = re.sub(pattern, mask, text)
    return redact(text)
