"""Texts for users are in plain English: none of the phrases of docs/phrases.toml is in them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.sources import FILLED, PACKAGE, source_of, source_of_file
from trimtab.cli.group import COMMANDS, trimtab

ROOT = Path(__file__).parents[2]
PHRASES = [
    (re.compile(row["avoid"], re.IGNORECASE), row["write"])
    for row in tomllib.loads((ROOT / "docs" / "phrases.toml").read_text(encoding="utf-8"))["phrase"]
]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`|<!--.*?-->", re.MULTILINE | re.DOTALL)


def found(text: str) -> list[str]:
    """Each phrase to avoid in `text`, with its line and what to write instead; code is left out."""
    prose = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    return [
        f"line {prose.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: write {write}"
        for avoid, write in PHRASES
        for match in avoid.finditer(prose)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_avoids_the_phrases(page: Path) -> None:
    assert found(page.read_text(encoding="utf-8")) == []


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub_name in command.list_commands(context):
            sub = command.get_command(context, sub_name)
            assert sub is not None
            yield from _commands(sub, f"{name} {sub_name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_text_avoids_the_phrases(name: str) -> None:
    command = trimtab.get_command(click.Context(trimtab), name)
    assert command is not None
    wrong = {}
    for full_name, one in _commands(command, name):
        texts = [one.help or "", *(getattr(option, "help", None) or "" for option in one.params)]
        wrong[full_name] = [line for text in [*texts, COMMANDS[name]] for line in found(text)]
    assert {full_name: lines for full_name, lines in wrong.items() if lines} == {}


def _is_prose(text: str) -> bool:
    """Else it is a name or a key."""
    return FILLED in text or re.search(r"[a-z] [a-z]", text) is not None


ROOMS = sorted(path for path in PACKAGE.iterdir() if path.is_dir() and path.name not in ("testing", "__pycache__"))


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_messages_avoid_the_phrases(room: Path) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {text!r}: {', '.join(phrase.partition(': ')[2] for phrase in phrases)}"
        for file in sorted(room.rglob("*.py"))
        for line, text in source_of_file(file).texts
        if _is_prose(text) and (phrases := found(text))
    ]
    assert wrong == []


def _sayings(value: object) -> Iterator[str]:
    """What a catalogue says to people."""
    if isinstance(value, list):
        for each in value:
            yield from _sayings(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key in ("doc", "says", "hint", "reason") and isinstance(each, str):
                yield each
            yield from _sayings(each)


CATALOGUES = sorted(file for file in (PACKAGE / "catalog").rglob("*.toml") if file.name != "demo.toml")  # a study


@pytest.mark.parametrize("file", CATALOGUES, ids=lambda file: file.stem)
def test_messages_of_the_catalogues_avoid_the_phrases(file: Path) -> None:
    said = list(_sayings(tomllib.loads(file.read_text(encoding="utf-8"))))
    assert len(said) > 10
    assert {text: wrong for text in said if (wrong := found(text))} == {}


def test_a_message_is_looked_at_and_a_docstring_is_not() -> None:
    source = 'def f(x):\n    """It stands in a file."""\n    raise ValueError(f"{x} stands in a file")\n'
    assert source_of(source).texts == ((3, f"{FILLED} stands in a file"),)


def test_a_phrase_is_found_in_prose_and_not_in_code() -> None:
    assert found("The server\nstands in a file.\n") == ["line 2: 'stands in': write is in, is listed in, see"]
    assert found("`stands in`\n\n    stands in\n\n```\nstands in\n```\n") == []
