"""The three tiers as one under emulated browsers: a trial that changes all of them, and what goes wrong on each.

The browsers do not think, so that no busy machine makes them late.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.apps.conftest import target
from tests.servers import free_port
from tests.servers.embedded import provide
from trimtab.errors import ApplyError, LoadError
from trimtab.host import is_running
from trimtab.records import Fault, Role, Status, Trial
from trimtab.study import load_study_file, open_stage
from trimtab.study.stage import Stage
from trimtab.systems.capabilities import RestartableTarget
from trimtab.trial import MeasurePlan, TrialRoom
from trimtab.workload import Frame
from trimtab.workload.webapp import require_page

pytestmark = [
    pytest.mark.service, pytest.mark.slow, pytest.mark.needs("httpd", "tomcat", "java", "applications", "postgresql-embedded"),
]  # fmt: skip

STUDY = """
[study]
name = "site"
objective = "latency_mean"

[target.web]
kind = "httpd"
embedded = "2.4"
names = {{ directives = 'ProxyPass "/" "http://127.0.0.1:{port}/" retry=0' }}
knobs = ["ThreadsPerChild", "KeepAliveTimeout"]

[target.app]
kind = "tomcat"
embedded = "10.1"
port = {port}
knobs = ["maxThreads", "maxTotal", "initialSize"]

[target.db]
kind = "postgresql"
embedded = "18"
knobs = ["work_mem", "max_connections"]
unlock = ["replication"]

[stack]
clients = {{ db = "app.maxTotal" }}

[workload]
kind = "rubis"
target = "web"
scale = 0.002
description_length = 200
think_scale = 0

[workload.load]
users = 1
"""
PLAN = MeasurePlan(window_s=2, window_max_s=2, warmup_floor_s=0, warmup_cap_s=0)
ALL = {"web.ThreadsPerChild": 50, "app.maxThreads": 50, "app.maxTotal": 20, "db.work_mem": 8192}


@dataclass
class Watcher:
    """Does something once, when the first page of a run has come."""

    then: Any = None

    def step(self, name: str) -> None:
        """Does not matter."""

    def second(self, frame: Frame) -> None:
        """A second of the load."""
        if self.then is not None and frame.n_ok > 0:
            then, self.then = self.then, None
            then()


@dataclass(frozen=True)
class Running:
    """The open stage in a folder."""

    stage: Stage
    state: Path
    cache: Path
    watcher: Watcher
    said: list[str] = field(default_factory=list)

    def trial(self, *, users: int = 1, **changes: Any) -> Trial:
        """One trial; afterwards everything is as it was found."""
        stage, before = self.stage, self.values()
        workload: Any = stage.workload
        browsers = replace(workload.browsers, load=replace(workload.browsers.load, users=users))
        self.said.clear()
        config = stage.baseline.replace({name.replace("__", "."): value for name, value in changes.items()})
        with TrialRoom(
            stage.stack, type(workload)(workload.data, browsers), stage.space, stage.baseline, objective=stage.objective,
            state_dir=self.state, study="site", listener=self.watcher, say=self.said.append,
        ) as room:  # fmt: skip
            trial = room.run(config, number=0, role=Role.SEARCH, plan=PLAN, seed=1)
        assert self.values() == before
        stage.stack.health()
        return trial

    def values(self) -> dict[str, Any]:
        """What all tiers use now of what may be tuned, and their files."""
        states, files = self.stage.stack.states(), ("trimtab.conf", "context.xml", "server.xml", "postgresql.auto.conf")
        running = {name: states[name].running for name in self.stage.space.knobs}
        return running | {str(path): path.read_bytes() for name in files for path in self.cache.rglob(name)}

    @property
    def web(self) -> Path:
        """Folder of the web server."""
        return self.cache / "httpd/2.4-web"

    def pid(self, kind: str) -> int:
        """Of the process of a private program."""
        (record,) = self.cache.glob(f"{kind}/*/program.pid") or self.cache.glob(f"{kind}/**/program.pid")
        return int(record.read_text().split()[0])


@pytest.fixture(scope="module")
def running(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "site.toml").write_text(STUDY.format(port=free_port()))
    state = folder / "state"
    provide(cache, "18")
    with open_stage(load_study_file(folder / "site.toml"), state) as stage, stage.stack.lock("a test"):
        stage.workload.prepare(stage.stack.endpoint(), lambda line: None)
        yield Running(stage, state, cache, Watcher())


def test_a_trial_changes_all_tiers(running: Running) -> None:
    trial = running.trial(**ALL)
    assert trial.status is Status.OK, trial.reason
    assert dict(trial.effective) == ALL
    assert {"apply.web", "apply.app", "apply.db", "reset"} <= set(trial.cost_s)
    assert trial.measurement is not None
    assert trial.measurement.n_error == 0
    assert "Home" in trial.measurement.by_label
    pids = [running.pid(kind) for kind in ("httpd", "tomcat")]
    trial = running.trial(web__KeepAliveTimeout=10, db__work_mem=8192)
    assert trial.status is Status.OK, trial.reason
    assert [running.pid(kind) for kind in ("httpd", "tomcat")] == pids, "what reloads restarts no tier"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("OldPLABSize", 1 << 20, r"^app: the program would refuse file='.*/jvm\.options': .*OldPLABSize"),
        ("MaxHeapSize", 64 << 40, r"^app: MaxHeapSize=70368744177664 is outside the server's range"),
    ],
)
def test_what_java_would_refuse_is_refused_before_any_tier_is_changed(
    running: Running, name: str, value: int, words: str
) -> None:
    before, pids = running.values(), [running.pid(kind) for kind in ("httpd", "tomcat")]
    with pytest.raises(ApplyError, match=words):
        running.stage.stack.preflight({"web.KeepAliveTimeout": 10, f"app.{name}": value})
    assert running.values() == before
    assert [running.pid(kind) for kind in ("httpd", "tomcat")] == pids, "nothing was restarted"


# The quick form of errors that are counted by kind: tests/workload/test_site.py.
@pytest.mark.full
def test_error_pages_fail_a_trial_and_no_tier_is_blamed(running: Running) -> None:
    refusing, web = running.web / "conf.d/refusing.conf", running.stage.stack.tier("web").target
    refusing.write_text('<LocationMatch "^/rubis/(?!categories|renew)">\n  Require all denied\n</LocationMatch>\n')
    assert isinstance(web, RestartableTarget)
    web.restart(web.snapshot())
    try:
        trial = running.trial(web__KeepAliveTimeout=10)
    finally:
        refusing.unlink()
        web.restart(web.snapshot())
    assert trial.status is Status.FAILED_LOAD, trial.reason
    assert "403" in trial.reason


# The quick form of "a tier says no": tests/trial/test_stack_room.py.
@pytest.mark.full
def test_a_pool_larger_than_the_database_allows_blames_the_database(running: Running) -> None:
    trial = running.trial(app__maxTotal=64, app__initialSize=64, db__max_connections=20)
    assert (trial.status, trial.fault) == (Status.CRASHED, Fault.CONFIG), trial.reason
    assert "application=rubis failed: kind=refused" in trial.reason
    assert "db: " in trial.reason
    assert "too many clients" in trial.reason


def test_a_tier_that_dies_under_load_is_named_and_brought_back(running: Running) -> None:
    victim = running.pid("tomcat")
    running.watcher.then = lambda: os.kill(victim, signal.SIGKILL)
    trial = running.trial(web__KeepAliveTimeout=10)
    assert not is_running(victim)
    assert trial.status is Status.OK, trial.reason
    assert trial.cost_s["failed"] > 0, "the first run counts for nothing"
    (told,) = (line for line in running.said if line.endswith("; it is repeated once"))
    assert "app: " in told
    assert running.pid("tomcat") != victim


# The quick form: a tier that dies under load, above, and for an httpd without retry=0 tests/trial/test_stack_follow.py.
@pytest.mark.full
def test_the_trial_after_a_death_is_not_blamed_for_it(running: Running) -> None:
    """httpd is not reloaded on the way back: it must ask a Tomcat that was away at once. One browser may miss that it was."""
    victim = running.pid("tomcat")
    running.watcher.then = lambda: os.kill(victim, signal.SIGKILL)
    for trial in (running.trial(users=8, db__work_mem=8192), running.trial(app__maxTotal=20)):
        assert trial.status is Status.OK, trial.reason
        assert trial.cost_s.get("restore", 0.0) + trial.cost_s.get("failed", 0.0) < 60, (
            "nothing waits for httpd's minute"
        )
    assert not is_running(victim)


# The quick form of "not deployed": tests/apps/test_parts.py.
@pytest.mark.full
def test_an_application_that_does_not_deploy(state_dir: Path, cache: Path) -> None:
    applications = cache / "broken"
    for name in ("rubis/WEB-INF", "ROOT"):
        (applications / name).mkdir(parents=True)
    (applications / "rubis/WEB-INF/web.xml").write_text("<web-app><servlet></web-app>")
    (applications / "ROOT/index.html").write_text("It works.\n")
    for path in (applications, *applications.rglob("*")):
        path.chmod(0o755)
    app = target("tomcat", "broken", state_dir, embedded="10.1", names={"applications": str(applications)})
    app.open()
    try:
        with pytest.raises(LoadError, match="application=rubis is not deployed at 127.0.0.1:") as caught:
            require_page(app.endpoint(), "rubis", "/rubis/categories")
        assert "/rubis/categories has status=404" in caught.value.message
        assert "WebXmlParser" in app.log_excerpt()
    finally:
        app.close()
