"""The tutorial's own lines: a command line, a Python function and a C program are tuned, each of the last two by two clients."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.serve.test_server import Serving, client_programs

pytestmark = [pytest.mark.service, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "tune-your-program.md").read_text(encoding="utf-8")


def block(name: str) -> str:
    """What is marked `<!-- NAME -->`."""
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_tutorial(tmp_path: Path) -> None:
    needs.require("c-compiler", "libcurl")
    (tmp_path / "clients").symlink_to(ROOT / "clients")
    shutil.copytree(client_programs(), tmp_path / "build")  # `make` finds that nothing is left to do
    serving = Serving(tmp_path)
    try:
        bin_dir = Path(sys.executable).parent
        env = {**serving.env, "PATH": f"{bin_dir}:{serving.env['PATH']}"}
        local = {**env, "TRIMTAB_STATE": str(tmp_path / "local")}
        exec_block = block("exec").replace("seq 1 200000", "seq 1 20000")  # what gzip takes is not what this is about
        made = subprocess.run(["sh", "-c", exec_block], cwd=tmp_path, env=local, capture_output=True, text=True)
        assert re.search(r"gzip --keep --force -\d data.txt", made.stdout), made.stdout + made.stderr
        assert "report squeeze" in made.stderr
        script = tmp_path / "program.py"
        script.write_text(block("python"))
        programs = [
            subprocess.Popen([sys.executable, script], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for program in programs:
            printed, _ = program.communicate()
            assert program.returncode == 0
            assert re.match(r"(better|no_improvement) Best\(config=\{'chunk': \d+, 'order': '\w+'\}, gain=", printed)
        made = subprocess.run(["sh", "-c", block("c")], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert made.stdout.count("best: block=") == 2, made.stdout + made.stderr
    finally:
        serving.end()
