"""nginx as a target: a private one under the public suite, its catalogue on the real server, and files as people have them."""

from __future__ import annotations

import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.servers.run import free_port, made
from tests.systems.private import killed, with_line
from trimtab import plugins
from trimtab.errors import ApplyError, TargetError
from trimtab.space import Config, KnobKind, Value
from trimtab.systems.http_probe import http_get
from trimtab.testing.target_suite import Subject, TargetSuite

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("nginx")]

CHANGES = Config({"worker_processes": 3, "keepalive_timeout": 20, "sendfile": False})
OTHER = Config({"worker_connections": 1024, "multi_accept": True, "aio": "threads"})


def nginx(state_dir: Path, name: str = "web", **table: Any) -> Any:
    table = {"kind": "nginx", "memory": "1GiB", "knobs": "all", **table}
    return plugins.load("targets", "nginx").from_settings(name, table, state_dir=state_dir)


def private(state_dir: Path, name: str = "web", **table: Any) -> Any:
    return nginx(state_dir, name, embedded="1", **table)


@pytest.fixture(scope="module")
def opened(state_dir: Path) -> Iterator[Any]:
    target = private(state_dir, "tests", unlock=["semantics"])
    target.open()
    yield target
    target.close()


@pytest.fixture
def web(opened: Any) -> Iterator[Any]:
    """An open private nginx, as found after each test."""
    found = opened.snapshot()
    yield opened
    opened.restore(found)
    assert opened.snapshot().files == found.files


def conf(target: Any) -> Path:
    return Path(target._reach.folder) / "nginx.conf"


class TestPrivate(TargetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, state_dir: Path) -> Iterator[Subject]:
        target = private(state_dir)
        target.open()
        yield Subject(
            target=target,
            again=lambda: private(state_dir / "other"),
            reattach=lambda snapshot: type(target).from_snapshot(snapshot, state_dir=state_dir),
            changes=CHANGES,
            other=OTHER,
            refused=("keepalive_timeout", 100_000),
            locked=("gzip", True),
            crash=partial(killed, target),
            meddle=lambda: with_line(conf(target), b"# by hand\n"),
            state_dir=state_dir,
        )
        target.close()


def _ends(target: Any) -> Iterator[dict[str, Value]]:
    """Each knob at both ends of its range and at each special value and choice, all at once, as far as the rules let them."""
    knobs = {name: state.knob for name, state in target.states().items()}
    for nth in range(max(len(knob.choices) for knob in knobs.values())):
        config: dict[str, Value] = {"gzip": True, "sendfile": True}
        for name, knob in knobs.items():
            if knob.kind is KnobKind.BOOLEAN:
                values: tuple[Value, ...] = (True, False)
            else:
                values = knob.choices or (knob.low, knob.high, *knob.special)
            config.setdefault(name, values[nth % len(values)])
        if config["proxy_buffers"] in ("8 4k", "8 8k"):
            config["proxy_buffer_size"] = 4
        yield config


def test_nginx_takes_what_the_catalogue_offers(web: Any) -> None:
    for config in _ends(web):
        web.preflight(Config(config))
        effective = web.apply(Config(config)).effective
        assert effective == config
        assert http_get(web.endpoint().options["url"], timeout_s=10.0) == (200, "It works.\n")


def test_a_reload_is_over_when_the_processes_of_before_take_no_more_requests(web: Any) -> None:
    web.apply(Config({"worker_processes": 4}))
    shown = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(web._reach.pid)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines().count("nginx: worker process") == 4
    assert "worker_processes 4;" in conf(web).read_text()
    web.apply(Config({"worker_processes": 0}))
    assert "worker_processes auto;" in conf(web).read_text()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"proxy_buffer_size": 16}, "proxy_buffers hold twice proxy_buffer_size does not hold"),
        ({"proxy_buffer_size": 32, "proxy_buffers": "8 8k"}, "proxy_buffers hold twice proxy_buffer_size does not"),
        ({"worker_connections": 1_000_000, "worker_processes": 4}, "a single client at work would take memory="),
    ],
)
def test_what_nginx_would_refuse_or_cannot_hold_is_refused_before(
    web: Any, config: dict[str, Value], message: str
) -> None:
    with pytest.raises(ApplyError, match=message):
        web.preflight(Config(config))


def test_a_killed_parent_leaves_nobody_on_the_port(web: Any) -> None:
    killed(web)
    web._reach.ensure_up()
    web.health()
    assert http_get(web.endpoint().options["url"], timeout_s=10.0)[0] == 200


def test_lines_of_the_study_file_are_in_its_blocks(web: Any, state_dir: Path) -> None:
    back = urlsplit(web.endpoint().options["url"]).netloc
    with made("pages") as pages:
        pages.chmod(0o755)
        (pages / "page.html").write_text("mine\n")
        names = {
            "documents": str(pages),
            "directives": f"upstream back {{ server {back}; keepalive 8; }}",
            "locations": "location /back/ { proxy_pass http://back/; }",
        }
        front = private(state_dir / "front", "front", names=names)
        front.open()
        try:
            url = front.endpoint().options["url"]
            assert http_get(f"{url}page.html", timeout_s=10.0) == (200, "mine\n")
            found = front.snapshot()
            front.apply(Config({"proxy_buffer_size": 16, "proxy_buffers": "16 16k"}))
            assert http_get(f"{url}back/", timeout_s=10.0) == (200, "It works.\n")
            front.restore(found)
        finally:
            front.close()


@pytest.mark.full  # 50 s: so is the way back
def test_a_reload_that_the_running_nginx_refuses_is_an_error(web: Any) -> None:
    """`nginx -t` and `nginx -s reload` find nothing wrong with a port that another program has."""
    site = conf(web).with_name("site.conf")
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        before = site.read_text()
        site.write_text(f"{before}server {{ listen 127.0.0.1:{other.getsockname()[1]}; }}\n")
        with pytest.raises(TargetError, match="the processes of before still take requests: nginx refused the reload"):
            web.apply(Config({"keepalive_timeout": 33}))
        site.write_text(before)


CONF = """# by hand
worker_processes 2; pid nginx.pid;
error_log error.log;
events {{ worker_connections 100; }}
http {{
    include conf.d/*.conf;
    access_log off;
    keepalive_timeout 65 60;
    client_body_buffer_size 1m;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hi"; }} }}
}}
"""
TWICE = "another file that the program reads has it, and the program refuses a second one"
MORE = "sendfile on;\ngzip_min_length 1000;\n"


@pytest.fixture
def administered(opened: Any, state_dir: Path) -> Iterator[tuple[Any, Path]]:
    """One that an administrator runs with files by hand, and its folder."""
    program = opened._reach.filled(opened._reach.filled("{control}")).partition(" -p ")[0]
    with made("nginx") as folder:
        (folder / "conf.d").mkdir()
        (folder / "conf.d" / "more.conf").write_text(MORE)
        (folder / "nginx.conf").write_text(CONF.format(port=(port := free_port())))
        control = f"{program} -p {folder} -e {folder}/error.log"
        command = f"{control} -c {folder}/nginx.conf"
        target = nginx(
            state_dir / "administered",
            start=command,
            stop=f"{command} -s quit",
            pid_file=str(folder / "nginx.pid"),
            files={"conf": str(folder / "nginx.conf")},
            names={"control": control},
            url=f"http://127.0.0.1:{port}/",
            health=f"http://127.0.0.1:{port}/",
            log_file=str(folder / "error.log"),
        )
        subprocess.run(shlex.split(command), check=True)
        try:
            target.open()
            yield target, folder
        finally:
            target.close()
            subprocess.run([*shlex.split(command), "-s", "stop"], check=True)
            while (folder / "nginx.pid").exists():
                time.sleep(0.01)


def test_an_nginx_with_files_by_hand(administered: tuple[Any, Path]) -> None:
    """Paths that begin at the file, a value that no knob says, and settings that another file has."""
    target, folder = administered
    states, found, text = target.states(), target.snapshot(), (folder / "nginx.conf").read_text()
    assert states["keepalive_timeout"].lock_reason == "its value as found, 65 60, is not one that the catalogue knows"
    for name, value in (("sendfile", True), ("gzip_min_length", 1000)):
        assert states[name].running == value
        assert states[name].lock_reason == TWICE
    assert (states["client_body_buffer_size"].running, states["worker_connections"].running) == (1024, 100)
    config = Config({"worker_connections": 512, "keepalive_requests": 5000})
    target.preflight(config)
    assert target.apply(config).effective == dict(config)
    target.restore(found)
    assert (folder / "nginx.conf").read_text() == text


def test_other_files_of_an_nginx_are_read_too(administered: tuple[Any, Path]) -> None:
    target, folder = administered
    more = folder / "conf.d" / "more.conf"
    more.write_text(MORE + "tcp_nopush on;\n")
    assert any("more.conf' was written after the program had read its files" in text for _, _, text in target.doctor())
    more.write_text(MORE + "nonsense on;\n")
    with pytest.raises(TargetError, match=f'unknown directive "nonsense" in {more}:3'):
        target.preflight(Config({"worker_connections": 512}))
    more.write_text(MORE)
