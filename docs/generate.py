"""Writes the parts of docs/reference that come from the code; a test fails when they differ.

cli.md and study-file.md are written whole; in postgresql.md and mysql.md what stands between `<!-- NAME -->` and
`<!-- end -->`.

Run: python docs/generate.py
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from trimtab import plugins
from trimtab.cli.group import COMMANDS, trimtab
from trimtab.cli.options import toml_text
from trimtab.study.stack_table import StackTable
from trimtab.study.tables import GuardTable, MeasureTable, ProofTable, SearchTable, StudyTable
from trimtab.systems.mysql.settings import Settings as MysqlSettings
from trimtab.systems.overlay import OverlayKnob
from trimtab.systems.postgresql.settings import Settings as PostgresSettings
from trimtab.systems.server_catalog import server_catalog

DOCS = Path(__file__).parent

EXIT_CODES = """## Exit codes

| code | meaning |
| --- | --- |
| 0 | done; for `tune`: a better config was proven |
| 1 | ran, and the verdict is negative (no improvement, or a check failed) |
| 2 | the command line, the study file or the history is wrong; nothing was changed |
| 3 | the target cannot be reached, read, changed or restored; or Trimtab has no disk, memory or open files left |
| 4 | the workload could not be prepared or run, or its measurement is invalid |
| 70 | a bug in Trimtab; the message names a file with the details |
| 130 | interrupted, by Ctrl-C or the stop file, or because the program that reads its output through a pipe has ended |

Data goes to stdout; progress and messages go to stderr, errors also with `--json`. `--json` output carries `schema_version`.
"""


def _parameters(command: click.Command) -> list[str]:
    rows = ["| argument or option | meaning |", "| --- | --- |"]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            value = "" if parameter.is_flag else f" {parameter.make_metavar(click.Context(command))}"
            name = ", ".join(f"`{option}{_in_table(value)}`" for option in parameter.opts)
            # The declared default only: a run-time one would depend on the machine.
            known = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
            default = f" Default: `{known}`." if parameter.show_default else ""
            rows.append(f"| {name} | {(parameter.help or '').rstrip()}{default} |")
        else:
            rows.append(f"| `{_in_table(parameter.make_metavar(click.Context(command)))}` | |")
    return rows


def _in_table(text: str) -> str:
    return text.replace("|", "\\|")


def _command(command: click.Command, name: str) -> list[str]:
    lines = [f"## trimtab {name}", "", inspect.cleandoc(command.help or ""), ""]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub_name in command.list_commands(context):
            sub = command.get_command(context, sub_name)
            if sub is None:
                raise LookupError(sub_name)
            lines += _command(sub, f"{name} {sub_name}")
        return lines
    return [*lines, *_parameters(command), ""]


def cli_page() -> str:
    """docs/reference/cli.md."""
    lines = ["# Commands", "", "This page is generated from the code by `docs/generate.py`.", ""]
    context = click.Context(trimtab)
    for name in COMMANDS:
        command = trimtab.get_command(context, name)
        if command is None:
            raise LookupError(name)
        lines += _command(command, name)
    return "\n".join([*lines, EXIT_CODES])


def _markdown(head: str, rows: Iterable[Iterable[str]]) -> list[str]:
    return [head, "| --- " * (head.count("|") - 1) + "|", *(f"| {' | '.join(cells)} |" for cells in rows)]


def _value(default: Any) -> str:
    """A default as it is written in a study file; nothing where there is none."""
    text = toml_text(default)
    return f"`{text}`" if text else ""


def _settings(model: type[BaseModel], skip: tuple[str, ...] = ()) -> list[str]:
    """The keys of a table of the study file, their defaults as TOML."""
    rows = []
    for name, field in model.model_fields.items():
        if name in skip:
            continue
        is_required = field.default is PydanticUndefined and field.default_factory is None
        default = "required" if is_required else _value(field.get_default(call_default_factory=True))
        rows.append([f"`{field.alias or name}`", default, field.description or ""])
    return _markdown("| key | default | meaning |", rows)


def _table(title: str, model: type[BaseModel], *, skip: tuple[str, ...] = ()) -> list[str]:
    doc = (model.__doc__ or "").partition("\n\n")[0].replace("\n", " ").strip()
    return [f"## {title}", "", doc, "", *_settings(model, skip), ""]


def _targets() -> dict[Any, list[str]]:
    """Model of the table -> the kinds of target that have it."""
    found: dict[Any, list[str]] = {}
    for name in plugins.names("targets"):
        found.setdefault(plugins.load("targets", name).SETTINGS, []).append(name)
    return found


def study_file_page() -> str:
    """docs/reference/study-file.md."""
    lines = [
        "# The study file",
        "",
        "This page is generated from the code by `docs/generate.py`. `trimtab init` writes an explained file to start from.",
        "",
        *_table("[study]", StudyTable),
    ]
    for model, names in _targets().items():
        kinds = " or ".join(f'"{name}"' for name in names)
        lines += _table(f"[target.NAME] with kind = {kinds}", model, skip=("kind",))
    lines += [
        "## Several targets",
        "",
        "A study may have several `[target.NAME]` tables: a stack, tuned as one ([how to](../how-to/tune-a-stack.md)).",
        "Their settings are called `NAME.setting` everywhere. Each of these tables takes two more keys, and `memory` is written",
        "once, in `[stack]`.",
        "",
        *_markdown(
            "| key | default | meaning |",
            [
                [
                    "`needs`",
                    "the tables below it in the file",
                    "names of the targets that must serve before this one does; changes go from the bottom of the stack up",
                ],
                [
                    "`follows`",
                    "`false`",
                    "restart this target after a target that it needs was restarted, instead of only checking its health",
                ],
            ],
        ),
        "",
    ]
    lines += _table("[stack]", StackTable)
    lines += ["## [workload]", "", "| kind | keys |", "| --- | --- |"]
    pages = {"rubis": "web-applications", "tpcw": "web-applications"}
    lines += [f"| `{name}` | see [its page]({pages.get(name, name)}.md) |" for name in plugins.names("workloads")] + [
        ""
    ]
    lines += [
        'In a study with several targets, `target = "NAME"` says which of them the load drives;',
        "it is required where the load could drive more than one.",
        "",
    ]
    lines += _table("[search]", SearchTable)
    for name in plugins.names("searchers"):
        if options := plugins.load("searchers", name).OPTIONS:
            rows = [[f"`{key}`", _value(default), text] for key, (default, text) in options.items()]
            lines += [f'### Options of searcher = "{name}"', "", *_markdown("| key | default | meaning |", rows), ""]
    lines += _table("[measure]", MeasureTable) + _table("[proof]", ProofTable) + _table("[guard]", GuardTable)
    return "\n".join(lines)


def _range(knob: OverlayKnob) -> str:
    special = f"; {', '.join(f'{value:g}' for value in knob.special)}" if knob.special else ""
    if knob.low is None:
        return ", ".join(knob.choices) or "on, off"
    scale = ", log" if knob.log else ""
    return f"{knob.low} … {knob.high}{scale}{special}"


def _postgresql_knobs() -> list[str]:
    rows = []
    for name, knob in server_catalog("postgresql").knob.items():
        change = knob.restart if not knob.restart_until else f"restart to {knob.restart_until}, then reload"
        versions = f"{knob.since}+" if knob.since > 13 else ""
        rows.append([f"`{name}`", knob.unit, _range(knob), change, versions, ", ".join(knob.sets), knob.doc])
    return _markdown("| knob | unit | useful range; special values | change | versions | sets | what it is |", rows)


def _mysql_knobs() -> list[str]:
    names = {"": "", "mariadb": "MariaDB", "mysql": "MySQL"}
    rows = [
        [f"`{name}`", knob.unit, _range(knob), knob.safety.value, names[knob.only], ", ".join(knob.sets), knob.doc]
        for name, knob in server_catalog("mysql").knob.items()
    ]
    return _markdown("| knob | unit | useful range; special values | safety class | only | sets | what it is |", rows)


def _listed(names: Iterable[str]) -> list[str]:
    return [", ".join(f"`{name}`" for name in sorted(names))]


def parts(page: str) -> Mapping[str, list[str]]:
    """The generated parts of a page that people write otherwise, by their mark."""
    if page == "reference/postgresql.md":
        return {
            "knobs": _postgresql_knobs(),
            "settings": _settings(PostgresSettings, ("kind",)),
            "forbidden": _listed(server_catalog("postgresql").forbidden),
        }
    return {
        "knobs": _mysql_knobs(),
        "settings": _settings(MysqlSettings, ("kind",)),
        "forbidden": _listed(server_catalog("mysql").forbidden),
    }


def _filled(page: str) -> str:
    """The page with its generated parts written anew.

    Raises:
        LookupError: a part has no place in it, or a place no part.
    """
    text, found = (DOCS / page).read_text(encoding="utf-8"), parts(page)
    for mark, lines in found.items():
        pattern = re.compile(rf"(?<=<!-- {mark} -->\n).*?(?=<!-- end -->)", re.S)
        text, n_places = pattern.subn(lambda _, lines=lines: "\n".join(lines) + "\n", text)
        if n_places != 1:
            raise LookupError(f"{page} has {n_places} places for {mark!r}")
    if text.count("<!-- end -->") != len(found):
        raise LookupError(f"{page} has a place that nothing fills")
    return text


PAGES = {
    "reference/cli.md": cli_page,
    "reference/study-file.md": study_file_page,
    "reference/postgresql.md": lambda: _filled("reference/postgresql.md"),
    "reference/mysql.md": lambda: _filled("reference/mysql.md"),
}


if __name__ == "__main__":
    for path, page in PAGES.items():
        (DOCS / path).write_text(page(), encoding="utf-8")
