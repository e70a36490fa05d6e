"""The docs are true: generated pages equal the code, links lead somewhere; commands, options, messages and examples exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from tests.servers.cache import own_cache
from tests.sources import PACKAGE, source_of_file
from trimtab.cli.group import COMMANDS, trimtab
from trimtab.search import SearcherBase
from trimtab.study import build_target, build_workload, load_study_file
from trimtab.systems.catalog_check import check_catalog
from trimtab.testing.searcher_suite import SearcherSuite
from trimtab.workload.site import SiteWorkload

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
_CODE = re.compile(r"`([^`\n]+)`|^    (.*)$|^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["reference/cli.md", "reference/study-file.md", "reference/postgresql.md", "reference/mysql.md"]
)
def test_generated_pages_are_up_to_date(page: str) -> None:
    """Else run: python docs/generate.py"""
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == _generator().PAGES[page]()


@cache
def _anchors(page: Path) -> frozenset[str]:
    """What links may name on a page: its headings, as GitHub makes anchors of them."""
    found: dict[str, int] = {}
    anchors = set()
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        n_before = found.get(anchor, 0)
        found[anchor] = n_before + 1
        anchors.add(f"{anchor}-{n_before}" if n_before else anchor)
    return frozenset(anchors)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        goal = page.parent / link if link else page
        assert goal.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in _anchors(goal), f"{page.name} links to {link}#{anchor}"


def test_every_example_is_in_the_list_of_examples() -> None:
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert [
        file.name for file in sorted(ROOT.glob("examples/*.toml")) if f"[{file.name}]({file.name})" not in text
    ] == []


def _shown(text: str) -> Iterator[list[str]]:
    """The words of each `trimtab ...` in the code of a page."""
    for code in _CODE.findall(text):
        for line in "".join(code).splitlines():
            for part in re.split(r"&&|\|(?!\S)|;", line):
                words = part.strip().removeprefix("$ ").partition(" #")[0].partition("   ")[0]
                if words.startswith("trimtab "):
                    yield shlex.split(words.replace("...", ""))[1:]


def _wrong(words: list[str]) -> str:
    """What `trimtab WORDS` has that the program has not; "" when all is there."""
    if not re.fullmatch(r"[a-z-]+", words[0]):
        return ""
    if words[0].startswith("-"):
        return "" if words[0] in ("--help", "--version") else words[0]
    if words[0] not in COMMANDS:
        return words[0]
    command = trimtab.get_command(click.Context(trimtab), words[0])
    rest = words[1:]
    while isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z-]+", rest[0]):
        sub, *rest = rest
        command = command.get_command(click.Context(command), sub)
        if command is None:
            return sub
    known = {"--help", "-h"} | {name for one in (command.params if command else []) for name in one.opts}
    rest = rest[: rest.index("--")] if "--" in rest else rest
    options = (word.partition("=")[0] for word in rest if word.startswith("-") and word != "-")
    return next((option for option in options if option not in known), "")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_in_the_docs_exist(page: Path) -> None:
    for words in _shown(page.read_text(encoding="utf-8")):
        assert _wrong(words) == "", f"{page.name} shows `trimtab {shlex.join(words)}`"


def test_commands_and_options_in_recipes_and_benchmarks_exist() -> None:
    texts = [(ROOT / "Makefile").read_text(encoding="utf-8").replace("$(BIN)/", "")]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").rglob("*.py")]
    lines = [f"    {line.strip()}" for line in texts[0].splitlines() if line.strip().startswith("trimtab ")]
    shown = [*_shown("\n".join(lines)), *(words for text in texts[1:] for words in _shown(text))]
    assert ["demo"] in shown
    for words in shown:
        assert _wrong(words) == "", f"`trimtab {shlex.join(words)}`"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`trimtab tune s.toml --html a.html`", ""),
        ("    trimtab tuna s.toml", "tuna"),
        ("    trimtab init && trimtab tune s.toml --htlm a.html   # a page", "--htlm"),
        ("`trimtab history exprot x`", "exprot"),
        ("```sh\ntrimtab history export x --to=- --form csv\n```", "--form"),
    ],
)
def test_a_wrong_command_or_option_is_seen(text: str, wrong: str) -> None:
    assert next(filter(None, map(_wrong, _shown(text))), "") == wrong


def test_a_wrong_anchor_is_seen() -> None:
    assert "exit-codes" in _anchors(ROOT / "docs" / "reference" / "cli.md")
    assert "exit-code" not in _anchors(ROOT / "docs" / "reference" / "cli.md")


@cache
def _messages() -> str:
    """Every text of the program, one a line; what is filled in reads …"""
    found = [text for file in sorted(PACKAGE.rglob("*.py")) for _, text in source_of_file(file).texts]
    found += [file.read_text(encoding="utf-8") for file in sorted((PACKAGE / "catalog").rglob("*.toml"))]
    return "\n".join(found)


_TROUBLE = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text(encoding="utf-8").partition("## By message")[2]


@pytest.mark.parametrize("message", re.findall(r"^\| `([^`]+)` \|", _TROUBLE, re.MULTILINE))
def test_a_message_in_troubleshooting_is_one_of_the_programs(message: str) -> None:
    assert message.strip("… ") in _messages()


def test_a_proxy_asks_a_server_that_was_away_again_at_once() -> None:
    """Else httpd answers 503 for a minute, and the next trial waits for it."""
    lines = [
        line
        for file in [*ROOT.glob("examples/*.toml"), *(ROOT / "docs").rglob("*.md")]
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search("ProxyPass.*http://", line)
    ]
    assert len(lines) >= 5
    assert [line for line in lines if "retry=0" not in line] == []


def _toml_of(page: str) -> list[str]:
    """The blocks of TOML on a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_catalogue_of_the_how_to_is_sound(tmp_path: Path) -> None:
    file = tmp_path / "redis.toml"
    file.write_text(_toml_of("how-to/add-a-system.md")[0], encoding="utf-8")
    report = check_catalog(file)
    assert (report.kind, report.faults) == ("redis", ())


def test_the_site_file_of_the_reference_is_read(tmp_path: Path) -> None:
    workload, site = _toml_of("reference/site.md")
    table = tomllib.loads(workload)["workload"]
    (tmp_path / table["site"]).write_text(site, encoding="utf-8")
    shop = SiteWorkload.from_settings(table, directory=tmp_path).browsers.site
    assert [state.name for state in shop.states] == ["Home", "Item", "Buy"]


def _searcher_of_the_reference() -> type[SearcherBase]:
    """The example below "Write a searcher"."""
    page = (ROOT / "docs" / "reference" / "searchers.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(from trimtab\.search import .*?)^```", page, re.MULTILINE | re.DOTALL)[0], names)
    found: type[SearcherBase] = names["NearTheBest"]
    return found


@pytest.mark.slow
class TestTheSearcherOfTheReference(SearcherSuite):
    searcher_class = _searcher_of_the_reference()


@pytest.mark.parametrize("kind", ["cassandra", "httpd", "linux", "mongodb", "nginx", "tomcat", "wiredtiger"])
def test_the_page_of_a_target_lists_its_sets(kind: str) -> None:
    """As study files and docs/how-to/tune-your-server.md say."""
    catalogue = tomllib.loads((PACKAGE / "catalog" / "kinds" / f"{kind}.toml").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "reference" / f"{kind}.md").read_text(encoding="utf-8")
    sets = {name for knob in catalogue["knob"].values() for name in knob.get("sets", ())} - {"performance"}
    assert len(sets) > 3
    assert [name for name in sorted(sets) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert f"## trimtab {command}" in (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


STUDY_FILES = sorted([*ROOT.glob("examples/*.toml"), *ROOT.glob("benchmarks/*/*.toml")])
BUILT = ("rubis", "tpcw")
"""Their applications are those that `make servers` has built."""
_MARKS = [pytest.mark.slow, pytest.mark.needs("applications")]


@pytest.fixture
def built(file: Path) -> Iterator[None]:
    with own_cache() if file.stem in BUILT else nullcontext():
        yield


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    "file", [pytest.param(f, id=f.stem, marks=_MARKS if f.stem in BUILT else ()) for f in STUDY_FILES]
)
def test_study_files_of_the_repository_are_read(file: Path, tmp_path: Path) -> None:
    study = load_study_file(file)
    kinds = {
        "redis": "redis",
        "zstd": "program",
        "httpd": "httpd",
        "nginx": "nginx",
        "httpd-tomcat": "httpd",
        "rubis": "httpd",
        "tpcw": "httpd",
        "ycsb-a-cassandra": "cassandra",
        "cassandra": "cassandra",
        "cassandra-live": "cassandra",
    }
    kinds |= dict.fromkeys(("ycsb-a-wiredtiger", "wiredtiger", "wiredtiger-linux"), "wiredtiger")
    assert build_target(study, tmp_path).kind == kinds.get(
        file.stem, "mysql" if "mariadb" in file.stem else "postgresql"
    )
    assert build_workload(study).kind == study.workload["kind"]
