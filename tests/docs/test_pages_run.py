"""The tutorial and the how-to pages do what they say: their marked blocks run on real servers, in a short form.

A page marks what is run: `<!-- run -->` before a block of commands, `<!-- file NAME -->` before one with the content of a file.
The short form changes study files only (small data, short windows, few trials), and says which server `trimtab init` takes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import needs
from tests.commands import start_trimtab
from tests.faults.server import Server, copy_server, make_template

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("postgresql-embedded")]

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^<!-- (run|file \S+) -->\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)

_MORE = {
    # and not a server that runs on the test's machine; TPC-H is on the first page
    "trimtab init study.toml": "--embedded --target postgresql --workload sql",
    "trimtab tune study.toml": "--budget '1 trials'",
    "trimtab bench study.toml": "--runs 2",
    "trimtab bench first.toml": "--runs 2",
}
"""What the short form adds to a command, by its beginning."""

_NEGATIVE_IS_FINE = ("trimtab tune", "trimtab rank", "trimtab demo", "trimtab bench-search")
"""Whose answer may be no: exit code 1 is as good as 0."""

_PLAIN = re.compile(r"trimtab ([^|&;<>$`]*?)(?: > (\S+))?$")
"""A command without more of the shell than words in quotes and, at its end, a file for its output."""

_SHORT = (
    (r"^(window|window_max) = .*$", r'\1 = "1s"'),
    (r"^(warmup_floor|warmup_cap) = .*\n", ""),
    (r"^scale = 0\.1\b", "scale = 0.01"),
    (r"^scale = 10\b", "scale = 1"),
    (r"^mix = \{[^}]*\}", "mix = { q6 = 1 }"),
)
SLEEP = "SELECT pg_sleep(CASE WHEN current_setting('work_mem') = '4MB' THEN 0.1 ELSE 0.11 END);\n"
"""Slower with another `work_mem` than found: a config that has one needs no proof."""
_PROOF = "\n[proof]\nmin_pairs = 2\nmax_pairs = 2\nadvice = false\nablate = false\n"
_MEASURE = 'warmup_floor = "0s"\nwarmup_cap = "0s"\n'


def blocks(page: str) -> list[tuple[str, str]]:
    """(kind, text) of every marked block of a page, in order."""
    return [(match[1], match[2]) for match in _BLOCK.finditer((DOCS / page).read_text(encoding="utf-8"))]


def shortened(study: str) -> str:
    """A study file in its short form."""
    for pattern, text in _SHORT:
        study = re.sub(pattern, text, study, flags=re.MULTILINE)
    if "[measure]\n" not in study:
        study += "\n[measure]\n"
    return study.replace("[measure]\n", f"[measure]\n{_MEASURE}") + _PROOF


@dataclass
class Reader:
    """Somebody who follows the pages in one folder.

    Attributes:
        folder: where the commands run.
        words: text of the pages -> what it is here (host and port).
        is_first: whether no command ran yet.
    """

    folder: Path
    words: Mapping[str, str]
    is_first: bool = True

    def follow(self, page: str) -> str:
        """Does what the page says; what the commands printed."""
        printed = []
        for kind, text in blocks(page):
            for old, new in self.words.items():
                text = text.replace(old, new)
            if kind == "run":
                printed += [self._run(line.partition("  #")[0].rstrip()) for line in text.splitlines() if line.strip()]
            else:
                (self.folder / kind.removeprefix("file ")).write_text(shortened(text), encoding="utf-8")
        assert printed, f"{page} runs nothing"
        return "\n".join(printed)

    def _run(self, command: str) -> str:
        if command == "trimtab demo" and not needs.IS_FULL:  # a study of the same name and file, of seconds
            self._run("trimtab demo --show > demo.toml")
            self._let_sleep("demo.toml")
            command = "trimtab tune demo.toml --budget '1 trials'"
        before = {path: path.stat().st_mtime_ns for path in self.folder.glob("*.toml")}
        goal, more = next(((start, more) for start, more in _MORE.items() if command.startswith(start)), ("", ""))
        command = command.replace(goal, f"{goal} {more}", 1) if goal and "--runs" not in command else command
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TRIMTAB_CACHE": str(self.folder.parent / "cache"),
            "NO_COLOR": "1",
        }
        code, out, err = self._done(command, environment)
        fine = (0, 1) if command.startswith(_NEGATIVE_IS_FINE) else (0,)
        assert code in fine, f"{command}: exit code {code}\n{out}\n{err}"
        for path in self.folder.glob("*.toml"):
            if path.stat().st_mtime_ns != before.get(path):
                path.write_text(shortened(path.read_text(encoding="utf-8")), encoding="utf-8")
        return out + err

    def _let_sleep(self, name: str) -> None:
        """Gives the study a load that leaves the processor to others; the page's bench runs one of TPC-H."""
        path = self.folder / name
        workload = '[workload]\nkind = "sql"\ndatabase = "postgres"\nfiles = ["sleep.sql"]\nread_only = true\n\n'
        text, n_found = re.subn(r"\[workload\]\n(?:[^\[\n].*\n)+\n", workload, path.read_text(encoding="utf-8"))
        assert n_found == 1
        path.write_text(text + "[workload.load]\nusers = 2\n", encoding="utf-8")
        (self.folder / "sleep.sql").write_text(SLEEP, encoding="utf-8")

    def _done(self, command: str, environment: Mapping[str, str]) -> tuple[int, str, str]:
        """Exit code and output. The reader's first command and what is no plain `trimtab` goes through a shell; the others are
        forked (tests/commands.py), for that they start is shown."""
        plain = _PLAIN.match(command)
        if self.is_first or plain is None:
            self.is_first = False
            ran = subprocess.run(
                ["bash", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600,
                check=False,
            )  # fmt: skip
            return ran.returncode, ran.stdout, ran.stderr
        pipe = subprocess.PIPE
        process = start_trimtab(shlex.split(plain[1]), cwd=self.folder, env=environment, stdout=pipe, stderr=pipe)
        out, err = process.communicate(timeout=600)
        if plain[2]:
            (self.folder / plain[2]).write_text(out, encoding="utf-8")
            out = ""
        return process.returncode, out, err


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Outside pytest's private folders: the server's own user must be able to enter it."""
    folder = Path(tempfile.mkdtemp(prefix="tt-pages-"))
    folder.chmod(0o755)
    (folder / "cache").mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def reader(home: Path, request: pytest.FixtureRequest) -> Reader:
    folder = home / request.node.name
    folder.mkdir()
    return Reader(folder, {})


@pytest.fixture
def server(home: Path) -> Iterator[Server]:
    """One that the pages' `url` leads to."""
    own = copy_server(make_template("18"), home / "server", "18", is_embedded=False)
    (own.data_dir / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
    own.control("start")
    with own.admin() as connection:
        connection.execute("CREATE ROLE trimtab LOGIN SUPERUSER")
    yield own
    own.destroy()


def test_the_first_study(reader: Reader) -> None:
    printed = reader.follow("tutorial/first-study.md")
    assert "work_mem" in printed
    assert (reader.folder / "first.toml").exists()


def test_tune_your_server_and_what_follows(reader: Reader) -> None:
    reader.words = {"--workload tpch": "--workload sql"}
    (reader.folder / "queries").mkdir()
    (reader.folder / "queries" / "sleep.sql").write_text(SLEEP, encoding="utf-8")
    printed = reader.follow("how-to/tune-your-server.md")
    assert "measuring the baseline" in printed
    assert "<svg" in (reader.folder / "report.html").read_text(encoding="utf-8")
    assert "study" in reader.follow("how-to/share-a-history.md")
    assert "nothing to recover" in reader.follow("how-to/troubleshooting.md")


def test_your_own_server(home: Path, server: Server, reader: Reader) -> None:
    printed = Reader(reader.folder, {"127.0.0.1:5432": f"127.0.0.1:{server.port}"}).follow("how-to/your-own-server.md")
    assert "PostgreSQL 18" in printed
    assert "GRANT ALTER SYSTEM ON PARAMETER" in (reader.folder / "role.sql").read_text(encoding="utf-8")


def test_the_short_form_changes_what_a_page_runs() -> None:
    assert 'window = "1s"\n' in shortened('[measure]\nwindow = "15s"\n')
    assert shortened("[study]\n").endswith(_PROOF)
