"""docs/reference/postgresql.md says what the overlay and the settings say; `python -m tests.target.test_docs` rewrites it."""

from __future__ import annotations

import re
from pathlib import Path

from trimtab.target.postgresql.classes import FORBIDDEN
from trimtab.target.postgresql.overlay import OverlayKnob, load_overlay
from trimtab.target.postgresql.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "postgresql.md"


def _range(knob: OverlayKnob) -> str:
    special = f"; {', '.join(f'{value:g}' for value in knob.special)}" if knob.special else ""
    if knob.low is None:
        return ", ".join(knob.choices) or "on, off"
    scale = ", log" if knob.log else ""
    return f"{knob.low} … {knob.high}{scale}{special}"


def _versions(knob: OverlayKnob) -> str:
    return f"{knob.since}+" if knob.since > 13 else ""


def knob_table() -> str:
    lines = [
        "| knob | unit | useful range; special values | change | versions | sets | what it is |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, knob in load_overlay().knob.items():
        change = knob.restart if not knob.restart_until else f"restart to {knob.restart_until}, then reload"
        sets = ", ".join(knob.sets)
        cells = [f"`{name}`", knob.unit, _range(knob), change, _versions(knob), sets, knob.doc]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def settings_table() -> str:
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = (
            ""
            if field.default in (None, ()) or name == "kind"
            else f"`{field.default}`".replace("True", "true").replace("False", "false")
        )
        lines.append(f"| `{name}` | {default} | {field.description or 'the kind of target: `postgresql`'} |")
    return "\n".join(lines)


def forbidden_list() -> str:
    return ", ".join(f"`{name}`" for name in sorted(FORBIDDEN))


def filled(text: str) -> str:
    for mark, table in (("knobs", knob_table()), ("settings", settings_table()), ("forbidden", forbidden_list())):
        pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.S)
        text = pattern.sub(lambda match, table=table: match[1] + table + "\n" + match[2], text)  # type: ignore[misc]
    return text


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("<!-- end -->") == 3
    assert filled(text) == text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
