"""What `options` in the url of a PostgreSQL server sets, for connections that libpq does not make."""

from __future__ import annotations

import re

from trimtab.errors import LoadError

__all__ = ["settings_of"]

_WORD = re.compile(r"(?:[^\s\\]|\\.)+", re.DOTALL)
"""As the server divides the text: a backslash takes what follows it as it is."""


def settings_of(options: str) -> list[list[str]]:
    """The settings of a text like "-c search_path=app -c work_mem=8MB" as names and values, in their order.

    Raises:
        LoadError: it holds something else.
    """
    words = [re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) for word in _WORD.findall(options)]
    settings: list[list[str]] = []
    while words:
        word = words.pop(0)
        text = words.pop(0) if word == "-c" and words else _attached(word)
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise LoadError(
                f"the load cannot do what options={options!r} in the target's url asks for: {word!r} sets nothing",
                hint="write each as -c NAME=VALUE",
            )
        settings.append([name.replace("-", "_"), value])
    return settings


def _attached(word: str) -> str:
    """What stands behind the sign of a setting in the same word; "" without such a sign."""
    return word[2:] if word.startswith(("-c", "--")) else ""
