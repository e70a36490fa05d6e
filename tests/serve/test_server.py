"""A real server in a process of its own: clients of Python and C, the command line, the dashboard in a browser, and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.browser import Browser
from tests.commands import start_trimtab
from tests.history.samples import study_values
from tests.serve.asking import TOKEN
from tests.servers import template
from trimtab.client import Server, ServerError, choice, integer
from trimtab.client.wire import begin_body
from trimtab.history import History
from trimtab.records import Verdict

pytestmark = [pytest.mark.service, pytest.mark.slow]

CLIENT = Path(__file__).parents[2] / "clients" / "c"


def client_programs() -> Path:
    """The folder of the C client and its examples, made once in a test run by the command that the tutorial names."""

    def make(folder: Path) -> None:
        words = ["make", "-s", "-C", str(CLIENT), f"OUT={folder / 'build'}"]
        made = subprocess.run(words, check=True, capture_output=True, timeout=600)
        assert made.stderr == b""

    return template("c-client", make) / "build"


KNOBS = [integer("x", 0, 20, default=2), choice("mode", ["slow", "fast"])]


def seconds(config: Any) -> float:
    return float((10 + (config["x"] - 14) ** 2 / 20) * (2 if config["mode"] == "slow" else 1))


class Serving:
    """`trimtab serve` in `folder`."""

    def __init__(self, folder: Path, *more: str, port: int = 0, token: str = TOKEN) -> None:
        self.env = {**os.environ, "TRIMTAB_TOKEN": token, "TRIMTAB_STATE": str(folder / "state")}
        self.process = start_trimtab(
            ["serve", "--port", str(port), *more],
            env=self.env,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"https?://\S+:(\d+)", line)
        assert found is not None, line + self.process.stderr.read()
        self.url, self.port = found[0], int(found[1])
        self.env["TRIMTAB_SERVER"] = self.url

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        with self.process:
            try:
                return self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()  # leaving the block waits for it for ever
                raise


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    made = Serving(tmp_path)
    yield made
    if made.process.poll() is None:
        made.end()


def test_a_function_is_tuned_by_two_clients_over_a_killed_server(serving: Serving, tmp_path: Path) -> None:
    numbers, ready, killed = count(1), threading.Event(), threading.Event()

    def work(name: str) -> None:
        with Server(serving.url, TOKEN) as server:
            session = server.session("f", KNOBS, budget="12 trials", searcher="pro", clients=2, client=name)
            for point in session:
                if next(numbers) == 6:  # one of the two sees it, however they take turns
                    ready.set()
                    killed.wait(120)
                point.report(seconds(point.config))

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    assert ready.wait(120)
    serving.end(signal.SIGKILL)
    again = Serving(tmp_path, port=serving.port)
    killed.set()
    for thread in threads:
        thread.join()
    with Server(again.url, TOKEN) as server:
        found = server.request("GET", "/sessions/f")
        assert found["state"] == "ended"
        trials = server.request("GET", f"/studies/{found['study_id']}")["rows"]
    assert [row["number"] for row in trials] == list(range(len(trials)))
    assert again.end() == 0


def test_a_server_says_what_is_wrong(tmp_path: Path, serving: Serving) -> None:
    for arguments, said in (
        (["--host", "0.0.0.0"], "host='0.0.0.0' can be reached from other machines, and there is no TLS"),
        (
            ["--port", str(serving.port)],
            f"cannot listen at host='127.0.0.1' port={serving.port}: Address already in use",
        ),
        (["--port", "0"], "another Trimtab serves sessions from state="),
    ):
        process = start_trimtab(
            ["serve", *arguments], env=serving.env, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        _, told = process.communicate()
        assert process.returncode in (2, 3)
        assert said in told
    with (
        Server(serving.url, "wrong-token-of-16-letters") as server,
        pytest.raises(
            ServerError, match="bears no token, or a wrong one\nhint: set TRIMTAB_TOKEN to the server's token"
        ),
    ):
        server.join("f")
    with (
        Server("http://127.0.0.1:9", TOKEN, patience_s=0) as server,
        pytest.raises(ServerError, match="cannot be reached"),
    ):
        server.join("f")


def test_tls_and_a_token_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.require("openssl")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem",
         "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    made = Serving(
        tmp_path, "--host", "0.0.0.0", "--name", "localhost", "--cert", "cert.pem", "--key", "key.pem", token=""
    )
    assert made.process.stderr is not None
    shown = made.process.stderr.readline()
    token = (tmp_path / "state" / "serve.token").read_text().strip()
    assert f"token: {token} " in shown
    context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    request = urllib.request.Request(
        f"https://localhost:{made.port}/api/v1/sessions", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, context=context) as answer:
        assert json.load(answer) == {"sessions": []}
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with Server(f"https://localhost:{made.port}", token) as server:
        assert server.request("GET", "/sessions") == {"sessions": []}
    assert made.end(signal.SIGTERM) == 0


def test_exec_tunes_a_command_line(tmp_path: Path, serving: Serving) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys\nx = int(sys.argv[1])\nassert x != 19\nprint('took', 10 + (x - 14) ** 2 / 5)\n")
    words = [
        "exec",
        "--name",
        "line",
        "--int",
        "x=0:20",
        "--start",
        "x=2",
        "--measure",
        "output",
        "--budget",
        "10 trials",
        "--json",
    ]
    command = ["--", sys.executable, str(program), "{x}"]
    for more in ([], ["--server", serving.url]):
        env = {**serving.env, "TRIMTAB_STATE": str(tmp_path / "local")} if not more else serving.env
        process = start_trimtab(
            [*words, *more, *command], env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        printed, said = process.communicate()
        assert process.returncode == 0, said
        found = json.loads(printed)
        assert found["is_proven"]
        assert found["gain"] > 1.5
        assert found["command"].endswith(f" {found['config']['x']}")
        assert "run 1 (baseline) x=2: 38.8" in said


@pytest.mark.needs("c-compiler", "libcurl")
def test_c_clients_share_a_search_and_leak_nothing(tmp_path: Path, serving: Serving) -> None:
    out = tmp_path / "build"
    subprocess.run(
        ["make", "-s", "-C", str(CLIENT), "check", f"OUT={out}"], check=True, capture_output=True, timeout=600
    )
    clients = [
        subprocess.Popen(
            [out / "sanitized" / "blocks"], env=serving.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for client in clients:
        printed, said = client.communicate()
        assert (client.returncode, said) == (0, "")
        assert re.match(r"best: block=\d+ way=(by-rows|transposed), [\d.]+ times as fast as the start", printed)
    wrong = subprocess.run(
        [out / "sanitized" / "blocks"], env={**serving.env, "TRIMTAB_TOKEN": "x" * 20}, capture_output=True, text=True
    )
    assert (
        wrong.stderr == "error: the request bears no token, or a wrong one\nhint: send `Authorization: Bearer TOKEN`\n"
    )


@pytest.mark.needs("c-compiler", "libcurl", "postgresql-embedded")
def test_a_c_client_tunes_a_postgresql(tmp_path: Path, serving: Serving) -> None:
    """As in seed 000: fetch, ALTER SYSTEM, run, report; a layer keeps memory within its budget; the server is reset."""
    from tests.servers.postgresql import programs, started

    out = client_programs()
    sizes = subprocess.run(["size", "-t", out / "libtrimtab.a"], capture_output=True, text=True, check=True).stdout
    assert int(sizes.splitlines()[-1].split()[0]) <= 60_000, "bytes of code of its own"
    with started() as server:
        before = server.query("select pg_read_file('postgresql.auto.conf')")
        env = {
            **serving.env, "PSQL": str(programs("18") / "psql"), "PGHOST": str(server.sockets), "PGUSER": "postgres",
            "PGDATABASE": "postgres", "PGPORT": str(server.port), "BUDGET": "4 trials",
            "PROOF": "false",  # how many runs a proof takes depends on how busy the machine is
        }  # fmt: skip
        query = "select pg_sleep(0.03 + 0.05 / ln(setting::float)) from pg_settings where name = 'work_mem'"
        client = subprocess.run([out / "postgresql", query], env=env, capture_output=True, text=True, timeout=600)
        assert (client.returncode, client.stderr) == (0, "")
        assert re.search(
            r"work_mem = \d+kB\ntemp_buffers = \d+kB\nenable_hashjoin = (on|off)\n[\d.e+]+ times as fast", client.stdout
        )
        after = server.query("select pg_read_file('postgresql.auto.conf')")
        assert [line for line in str(after).split("\\n") if "=" in line] == [
            line for line in str(before).split("\\n") if "=" in line
        ]
    with Server(serving.url, TOKEN) as api:
        rows = api.request("GET", f"/studies/{api.request('GET', '/sessions/postgresql')['study_id']}")["rows"]
    assert {row["status"] for row in rows} <= {"ok", "infeasible"}


@pytest.mark.needs("chromium")
def test_the_dashboard_in_a_browser(tmp_path: Path, serving: Serving) -> None:
    with Server(serving.url, TOKEN) as server:
        session = server.session("blocks", KNOBS, budget="12 trials", searcher="nelder-mead", client="one")
        for number in range(8):
            point = session.fetch()
            assert point is not None
            _ = point.fail("out of memory\nlast words") if number == 5 else point.report(seconds(point.config))
        point = session.fetch()
        assert point is not None
        with Browser(tmp_path) as page:
            page.open(f"{serving.url}/")
            page.wait("document.querySelector('#token')")  # nothing is shown without the token
            page.open(f"{serving.url}/#token={TOKEN}")
            page.wait("document.querySelector('table a')?.innerText == 'blocks'")
            assert page.value("location.hash") == ""
            assert page.value("document.querySelectorAll('tbody tr').length") == 1
            shown = page.value("document.body.innerText")  # once it is read that there are none, and not before
            assert "1 session, the newest first" in shown
            assert "None yet. `trimtab tune` makes them." in shown
            page.value("document.querySelector('table a').click()")
            page.wait("document.querySelector('#chart-progress svg')")
            assert "12 trials" in page.value("document.body.innerText")
            assert "once in trial 5: crashed: out of memory\nlast words" in page.value("document.body.innerText")
            page.wait("document.querySelector('#now tbody tr')")  # what is measured now
            point.report(seconds(point.config))
            page.wait("document.querySelector('.facts').innerText.includes('9')")  # it follows without a reload
            page.value("[...document.querySelectorAll('button')].find((each) => each.innerText == 'Pause').click()")
            page.wait("[...document.querySelectorAll('button')].some((each) => each.innerText == 'Resume')")
            assert server.request("GET", "/sessions/blocks")["state"] == "paused"
            page.wait("document.querySelector('#state').innerText == 'paused'")
            assert page.errors == []
            assert "null" not in page.value("document.body.innerText")
            assert {url.split("/")[2] for url in page.requested if url.startswith("http")} == {
                f"127.0.0.1:{serving.port}"
            }
            assert page.value("[...document.querySelectorAll('th')].every((each) => each.scope)")
            # The token is asked for, and what failed for want of it does not hide that.
            page.value("(async () => { state.token = 'of-another-server-1'; await showStudy(1); })()")
            page.wait("document.querySelector('#token')")
        with Browser(tmp_path / "phone", width=390, height=800, is_dark=True) as page:
            page.open(f"{serving.url}/#token={TOKEN}")
            page.wait("document.querySelector('table a')")
            assert page.value("document.documentElement.scrollWidth") <= 390
            assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"


@pytest.mark.needs("chromium")
def test_who_looks_at_a_session_does_not_take_it_over(tmp_path: Path, serving: Serving) -> None:
    """Whoever has measured it, on another machine with the same history, goes on with it then."""
    with Server(serving.url, TOKEN) as server:
        server.request("POST", "/sessions", begin_body("blocks", KNOBS, {}))
    serving.end()
    again = Serving(tmp_path)
    with Browser(tmp_path) as page:
        page.open(f"{again.url}/#token={TOKEN};/study/1")
        page.wait("document.querySelector('#charts').innerText == 'No trial was measured yet.'")
        assert "Pause" in page.value("document.body.innerText")
        # What a proxy answers while the server is away is no problem as the server tells one.
        page.value("window.fetch = async () => new Response('<p>Bad Gateway', {status: 502})")
        page.value("[...document.querySelectorAll('button')].find((each) => each.innerText == 'Pause').click()")
        page.wait("document.querySelector('#link').innerText == 'Pause: the server answered with status=502'")
    with Server(again.url, TOKEN) as server:
        (row,) = server.request("GET", "/sessions")["sessions"]
    assert (row["name"], row["state"]) == ("blocks", "running")
    assert "n_clients" not in row, "what is in memory here shows it"
    assert again.end() == 0


@pytest.mark.needs("chromium")
def test_the_page_of_a_running_study_has_its_button_when_it_is_opened_first(tmp_path: Path) -> None:
    """Before the server has told which studies there are, and without another trial: one may take an hour."""
    with History.open(tmp_path / "state" / "history.db") as history:
        study = history.create_study(**study_values())
        others = [history.create_study(**study_values(name=name)).id for name in ("one", "two")]
        serving = Serving(tmp_path)
        with Browser(tmp_path) as page:
            page.open(f"{serving.url}/#token={TOKEN};/study/{study.id}")
            page.wait("document.querySelector('#buttons button')?.innerText == 'Stop'")
            page.wait("document.querySelectorAll('#other option').length == 3")  # as if it had been opened last
            # A page that a server which was away has left with an error is there again when the server is.
            page.value(
                "window.away = window.fetch; window.fetch = () => Promise.reject(new TypeError('it is away')); 0"
            )
            page.value(f"(async () => {{ await showStudy({study.id}); window.fetch = window.away; }})(); 0")
            page.wait("document.querySelector('main').innerText == 'it is away'")
            history.update_study(study.id, status="interrupted")
            page.wait("document.querySelector('#state')?.innerText == 'interrupted'")
            assert page.value("document.querySelector('#buttons').innerText") == ""
            history.update_study(study.id, status="no_improvement", verdict=Verdict(result="no_improvement"))
            page.wait("document.querySelector('h2 + p').innerText.startsWith('No improvement found')")
            # Of two that are chosen one after the other the newer one is compared with, whichever answer comes first.
            page.value("window.answers = []; window.api = () => new Promise((done) => answers.push(done)); 0")
            for other in others:
                choose = "document.getElementById('other').dispatchEvent(new Event('change'))"
                page.value(f"document.getElementById('other').value = '{other}'; {choose}")
            page.value("answers[1]({ knobs: [], n_same: 5 }); answers[0]({ knobs: [], n_same: 4 }); 0")
            page.wait("document.querySelector('#compared').innerText.includes('5 agree')")
            assert page.errors == []
    assert serving.end() == 0
