"""The pages of the targets say what overlay and settings say; `python -m tests.target.test_docs` rewrites them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel

from trimtab.target.mysql import classes as mysql_classes
from trimtab.target.mysql import overlay as mysql_overlay
from trimtab.target.mysql.settings import Settings as MysqlSettings
from trimtab.target.overlay import OverlayKnob
from trimtab.target.postgresql import classes as postgresql_classes
from trimtab.target.postgresql import overlay as postgresql_overlay
from trimtab.target.postgresql.settings import Settings as PostgresSettings

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def _range(knob: OverlayKnob) -> str:
    special = f"; {', '.join(f'{value:g}' for value in knob.special)}" if knob.special else ""
    if knob.low is None:
        return ", ".join(knob.choices) or "on, off"
    scale = ", log" if knob.log else ""
    return f"{knob.low} … {knob.high}{scale}{special}"


def _table(head: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def _postgresql_knobs() -> str:
    rows = []
    for name, knob in postgresql_overlay.load_overlay().knob.items():
        change = knob.restart if not knob.restart_until else f"restart to {knob.restart_until}, then reload"
        versions = f"{knob.since}+" if knob.since > 13 else ""
        rows.append([f"`{name}`", knob.unit, _range(knob), change, versions, ", ".join(knob.sets), knob.doc])
    return _table("| knob | unit | useful range; special values | change | versions | sets | what it is |", rows)


def _mysql_knobs() -> str:
    names = {None: "", "mariadb": "MariaDB", "mysql": "MySQL"}
    rows = [
        [f"`{name}`", knob.unit, _range(knob), knob.safety.value, names[knob.only], ", ".join(knob.sets), knob.doc]
        for name, knob in mysql_overlay.load_overlay().knob.items()
    ]
    return _table("| knob | unit | useful range; special values | safety class | only | sets | what it is |", rows)


def _settings(model: type[BaseModel], kinds: str) -> str:
    rows = []
    for name, field in model.model_fields.items():
        shown = f"`{field.default}`".replace("True", "true").replace("False", "false")
        default = "" if field.default in (None, ()) or name == "kind" else shown
        rows.append([f"`{name}`", default, field.description or f"the kind of target: {kinds}"])
    return _table("| key | default | meaning |", rows)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


PAGES: Mapping[str, Mapping[str, str]] = {
    "postgresql.md": {
        "knobs": _postgresql_knobs(),
        "settings": _settings(PostgresSettings, "`postgresql`"),
        "forbidden": _listed(postgresql_classes.FORBIDDEN),
    },
    "mysql.md": {
        "knobs": _mysql_knobs(),
        "settings": _settings(MysqlSettings, "`mysql` or `mariadb`"),
        "forbidden": _listed(mysql_classes.FORBIDDEN),
    },
}


def filled(text: str, parts: Mapping[str, str]) -> str:
    for mark, part in parts.items():
        pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.S)
        text = pattern.sub(lambda match, part=part: match[1] + part + "\n" + match[2], text)  # type: ignore[misc]
    return text


@pytest.mark.parametrize("page", list(PAGES))
def test_the_page_is_up_to_date(page: str) -> None:
    text = (FOLDER / page).read_text(encoding="utf-8")
    assert text.count("<!-- end -->") == len(PAGES[page])
    assert filled(text, PAGES[page]) == text


if __name__ == "__main__":
    for page, parts in PAGES.items():
        (FOLDER / page).write_text(filled((FOLDER / page).read_text(encoding="utf-8"), parts), encoding="utf-8")
