"""The docs are true: generated pages equal the code, links lead somewhere, commands and examples exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from trimtab.cli.group import COMMANDS
from trimtab.study import build_target, build_workload, load_study_file

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"(?:^|[`\s])trimtab ([a-z]+)\b")


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["reference/cli.md", "reference/study-file.md"])
def test_generated_pages_are_up_to_date(page: str) -> None:
    """Else run: python docs/generate.py"""
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == _generator().PAGES[page]()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_docs_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"`[^`\n]+`|^    .*$|^```.*?^```", text, flags=re.MULTILINE | re.DOTALL))
    for name in _COMMAND.findall(code):
        assert name in COMMANDS, f"{page.name} shows `trimtab {name}`"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert f"## trimtab {command}" in (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "file", sorted([*ROOT.glob("examples/*.toml"), *ROOT.glob("benchmarks/*/*.toml")]), ids=lambda f: f.stem
)
def test_study_files_of_the_repository_are_read(file: Path, tmp_path: Path) -> None:
    study = load_study_file(file)
    assert build_target(study, tmp_path).kind == ("mysql" if "mariadb" in file.stem else "postgresql")
    assert build_workload(study).kind == study.workload["kind"]
