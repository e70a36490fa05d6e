"""Debian's own httpd and Tomcat without systemd: a copy of the package's configuration in a folder of a test's own, run by the
package's commands.

Each function makes the files and returns what a [target.NAME] table says of such a server; nothing is started.
"""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["CATALINA", "httpd", "tomcat"]

CATALINA = Path("/usr/share/tomcat10/bin/catalina.sh")
_APACHE = Path("/etc/apache2")
_TOMCAT = Path("/etc/tomcat10")


def httpd(folder: Path, port: int, *, mpm: str = "event", modules: Sequence[str] = ()) -> dict[str, Any]:
    """As `apache2` is installed: its modules and others that a2enmod would add, its site, its conf-enabled."""
    conf, run, pages = folder / "apache2", folder / "run", folder / "html"
    shutil.copytree(_APACHE, conf, symlinks=True)
    for link in (conf / "mods-enabled").glob("mpm_*"):
        link.unlink()
    for name in (f"mpm_{mpm}", *modules):
        for file in (conf / "mods-available").glob(f"{name}.*"):
            (conf / "mods-enabled" / file.name).symlink_to(f"../mods-available/{file.name}")
    for each in (run, run / "socks", folder / "log", pages):
        each.mkdir(mode=0o755, parents=True)
    (pages / "index.html").write_text("It works.\n")
    _edit(conf / "ports.conf", {"Listen 80\n": f"Listen 127.0.0.1:{port}\n"})
    _edit(conf / "sites-available/000-default.conf", {"*:80": f"*:{port}", "/var/www/html": str(pages)})
    _edit(conf / "apache2.conf", {"<Directory /var/www/>": f"<Directory {folder}/>"})
    user = "www-data" if os.geteuid() == 0 else getpass.getuser()
    places = {"PID_FILE": run / "apache2.pid", "RUN_DIR": run, "LOCK_DIR": run, "LOG_DIR": folder / "log"}
    lines = [f"export APACHE_{name}={path}\n" for name, path in places.items()]
    lines += [f"export APACHE_RUN_{name}={user}\n" for name in ("USER", "GROUP")]
    (conf / "envvars").write_text("".join(lines))
    control = f"env APACHE_CONFDIR={conf} {shutil.which('apache2ctl') or '/usr/sbin/apache2ctl'}"
    return {
        "kind": "httpd",
        "files": {"conf": str(conf / "conf-enabled/zz-trimtab.conf"), "head": str(conf / "apache2.conf")},
        "start": f"{control} start",
        "stop": f"{control} stop",
        "process": "apache2",
        "pid_file": str(run / "apache2.pid"),
        "log_file": str(folder / "log/error.log"),
        "health": f"http://127.0.0.1:{port}/",
        "url": f"http://127.0.0.1:{port}/",
        "names": {"control": control},
    }


def tomcat(folder: Path, port: int, *, options: str = "") -> dict[str, Any]:
    """As `tomcat10` is installed, with one page; `options` of the Java machine, one a line."""
    base = folder / "tomcat"
    shutil.copytree(_TOMCAT, base / "conf")
    for each in ("webapps/ROOT", "temp", "work", "logs", "lib"):
        (base / each).mkdir(parents=True)
    (base / "webapps/ROOT/index.html").write_text("It works.\n")
    with (base / "conf/catalina.properties").open("a") as properties:  # looking into every jar takes half of a start
        properties.write("\ntomcat.util.scan.StandardJarScanFilter.jarsToSkip=*.jar\n")
    (base / "conf/jvm.options").write_text(f"# of the Java machine\n{options}")
    _edit(base / "conf/server.xml", {'port="8080"': f'port="{port}" address="127.0.0.1"'})
    pid_file = base / "tomcat.pid"
    control = (
        f"env CATALINA_BASE={base} CATALINA_TMPDIR={base}/temp CATALINA_PID={pid_file}"
        f" CATALINA_OPTS=@{base}/conf/jvm.options {CATALINA}"
    )
    names = {"server": "server.xml", "context": "context.xml", "jvm": "jvm.options"}
    return {
        "kind": "tomcat",
        "files": {channel: str(base / "conf" / name) for channel, name in names.items()},
        "start": f"{control} start",
        "stop": f"{control} stop 30 -force",
        "process": "java",
        "pid_file": str(pid_file),
        "log_file": str(base / "logs/catalina.out"),
        "health": f"http://127.0.0.1:{port}/",
        "url": f"http://127.0.0.1:{port}/",
    }


def _edit(file: Path, words: Mapping[str, str]) -> None:
    text = file.read_text()
    for before, after in words.items():
        assert before in text, f"{before!r} is not in {file}: another version of the package?"
        text = text.replace(before, after)
    file.write_text(text)
