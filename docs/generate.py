"""Writes docs/reference/cli.md and docs/reference/study-file.md from the code; a test fails when they differ.

Run: python docs/generate.py
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from trimtab import plugins
from trimtab.cli.group import COMMANDS, trimtab
from trimtab.study.file import GuardTable, MeasureTable, ProofTable, SearchTable, StudyTable

DOCS = Path(__file__).parent

EXIT_CODES = """## Exit codes

| code | meaning |
| --- | --- |
| 0 | done; for `tune`: a better config was proven |
| 1 | ran, and the verdict is negative (no improvement; something is not fine) |
| 2 | the command line, the study file or the history is wrong; nothing was touched |
| 3 | the target cannot be reached, read, changed or restored |
| 4 | the workload could not be prepared or run, or its measurement is invalid |
| 70 | a bug in Trimtab; the message names a file with the details |
| 130 | interrupted |

Data goes to stdout, progress and messages to stderr. `--json` output carries `schema_version`.
"""


def _parameters(command: click.Command) -> list[str]:
    rows = ["| argument or option | meaning |", "| --- | --- |"]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            value = "" if parameter.is_flag else f" {parameter.make_metavar(click.Context(command))}"
            name = ", ".join(f"`{option}{_in_table(value)}`" for option in parameter.opts)
            # The declared default only: a run-time one would depend on the machine.
            default = f" Default: `{parameter.default}`." if parameter.show_default else ""
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


def _table(title: str, model: type[BaseModel], *, skip: tuple[str, ...] = ()) -> list[str]:
    lines = [f"## {title}", ""]
    doc = (model.__doc__ or "").partition("\n\n")[0].replace("\n", " ").strip()
    lines += [doc, "", "| key | default | meaning |", "| --- | --- | --- |"]
    for name, field in model.model_fields.items():
        if name in skip:
            continue
        default = (
            "required"
            if field.default is PydanticUndefined and field.default_factory is None
            else f"`{field.get_default(call_default_factory=True)!r}`"
        )
        lines.append(f"| `{field.alias or name}` | {default} | {field.description or ''} |")
    return [*lines, ""]


def _targets() -> dict[Any, list[str]]:
    """Target class -> the names it is registered under."""
    found: dict[Any, list[str]] = {}
    for name in plugins.names("targets"):
        found.setdefault(plugins.load("targets", name), []).append(name)
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
    for target, names in _targets().items():
        kinds = " or ".join(f'"{name}"' for name in names)
        lines += _table(f"[target.NAME] with kind = {kinds}", target.SETTINGS)
    lines += ["## [workload]", "", "| kind | keys |", "| --- | --- |"]
    lines += [f"| `{name}` | see [its page]({name}.md) |" for name in plugins.names("workloads")] + [""]
    lines += _table("[search]", SearchTable)
    for name in plugins.names("searchers"):
        options = plugins.load("searchers", name).OPTIONS
        lines += [f'### options of searcher = "{name}"', "", "| key | default | meaning |", "| --- | --- | --- |"]
        lines += [f"| `{key}` | `{default!r}` | {text} |" for key, (default, text) in options.items()]
        lines += [""]
    lines += _table("[measure]", MeasureTable) + _table("[proof]", ProofTable) + _table("[guard]", GuardTable)
    return "\n".join(lines)


PAGES = {"reference/cli.md": cli_page, "reference/study-file.md": study_file_page}


if __name__ == "__main__":
    for path, page in PAGES.items():
        (DOCS / path).write_text(page(), encoding="utf-8")
