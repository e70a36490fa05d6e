"""Special values that are words in the file, and what a catalogue may say of them; files that a program reads besides its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.systems.program.conftest import CATALOG, CONF, cache, conf, folder, made
from trimtab.errors import ApplyError
from trimtab.space import Config
from trimtab.systems.catalog_file import catalog_faults
from trimtab.systems.dump import printed_values

__all__ = ["cache", "folder"]

SPELLED = CATALOG.replace("hard = [1, 22]", "hard = [0, 22]\nspecial = [0]\nspelled = { auto = 0 }")


def test_a_special_value_may_be_a_word(folder: Path) -> None:
    (folder / "catalog.toml").write_text(SPELLED)
    for text, value in (("auto", 0), ("0", 0), ("3", 3)):
        (folder / "squeeze.conf").write_text(written := CONF.replace("level = 3 ", f"level = {text} "))
        target = made(folder)
        state = target.states()["level"]
        assert (state.running, state.lock_reason) == (value, "")
        found = target.snapshot()
        assert target.apply(Config({"level": 9})).effective == {"level": 9}
        assert "level = 9 " in conf(folder)
        assert target.apply(Config({"level": 0})).effective == {"level": 0}
        assert "level = auto " in conf(folder)
        target.restore(found)
        assert conf(folder) == written


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("spelled = { auto = 0 }", "spelled = { auto = 1 }", "spelled 'auto' means 1, which is not special"),
        ("hard = [0, 22]", "hard = [1, 22]", "[knob.level] special=0 lies outside hard=[1, 22]: it would be refused"),
        (
            'path = "squeeze.conf"',
            'path = "squeeze.conf"\nrefuses_twice = true',
            "shows_files and refuses_twice need them",
        ),
    ],
)
def test_a_catalogue_that_contradicts_itself_has_a_fault(old: str, new: str, message: str) -> None:
    assert not catalog_faults(SPELLED)[1]
    _, faults = catalog_faults(SPELLED.replace(old, new))
    assert len(faults) == 1
    assert message in faults[0][0]
    assert faults[0][1]


CHECK = """check = '''sh -c 'echo "bad value in $(dirname "$1")/conf.d/more.conf:3, of $1:4"; exit 1' sh {file}'''"""


def test_a_refusal_names_the_file_that_it_speaks_of(folder: Path) -> None:
    """A check reads a copy, in another folder, and may read further files from there."""
    text = CATALOG.replace('path = "squeeze.conf"\n', f'path = "squeeze.conf"\n{CHECK}\n')
    (folder / "catalog.toml").write_text(text)
    said = f"bad value in {folder}/conf.d/more.conf:3, of {folder}/squeeze.conf:4"
    with pytest.raises(ApplyError, match=re.escape(f"would refuse file='{folder}/squeeze.conf': {said}")):
        made(folder).preflight(Config({"level": 9}))


DUMP = """# configuration file /etc/nginx/nginx.conf:
worker_processes auto;
include /etc/nginx/modules-enabled/*.conf;
events { worker_connections 768; }
http {
    #include conf.d/never.conf;
    include conf.d/*.conf;
    gzip on;
    server {
        include 'snippets/quiet.conf';
    }
}

# configuration file /etc/nginx/modules-enabled/50-stream.conf:
load_module modules/ngx_stream_module.so;

# configuration file /etc/nginx/conf.d/one.conf:
sendfile on;
include more/two.conf;

# configuration file /etc/nginx/more/two.conf:
tcp_nopush on;

# configuration file /etc/nginx/snippets/quiet.conf:
gzip off;

# configuration file /etc/nginx/conf.d/never/deep.conf:
aio threads;
"""


def test_what_nginx_prints_counts_where_its_files_are_included() -> None:
    addresses = ["worker_processes", "events.worker_connections", *(f"http.{each}" for each in NAMES)]
    assert printed_values("nginx", DUMP, addresses) == {
        "worker_processes": "auto",
        "events.worker_connections": "768",
        "http.gzip": "on",
        "http.sendfile": "on",
        "http.tcp_nopush": "on",
    }
    assert printed_values("nginx", "http { gzip on; }", ["http.gzip"]) == {"http.gzip": "on"}
    loop = "# configuration file /a.conf:\ngzip on;\ninclude a.conf;\n"
    assert printed_values("nginx", loop, ["gzip"]) == {"gzip": "on"}


NAMES = ("gzip", "sendfile", "tcp_nopush", "aio")


def test_a_setting_that_another_file_has_is_locked_where_the_program_refuses_two(folder: Path) -> None:
    """Else each trial of it is refused, and the value in use is not the one that the study takes for it."""
    asks = 'path = "squeeze.conf"\nread = "cat squeeze.conf more.conf"\nprints = "keyvalue"\n'
    (folder / "more.conf").write_text("threads = 4\n")
    (folder / "catalog.toml").write_text(CATALOG.replace('path = "squeeze.conf"\n', f"{asks}refuses_twice = true\n"))
    target = made(folder)
    found, states = target.snapshot(), target.states()
    reason = "another file that the program reads has it, and the program refuses a second one"
    assert (states["threads"].running, states["threads"].lock_reason) == (4, reason)
    with pytest.raises(ApplyError, match=reason):
        target.preflight(Config({"threads": 2}))
    target.apply(Config({"window": 1024}))
    assert target.states()["window"].lock_reason == ""
    target.restore(found)
    (folder / "catalog.toml").write_text(CATALOG.replace('path = "squeeze.conf"\n', asks))
    assert made(folder).states()["threads"].lock_reason != reason
