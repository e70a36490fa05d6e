"""Certificates made by openssl: an authority, and what it signs."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.needs import require
from trimtab.systems.account import server_account

__all__ = ["NEW_KEY", "Authority"]

NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
"""For `openssl req`: a key of RSA takes half a second."""

_CONFIG = """[ca]
default_ca = own
[own]
database = index.txt
new_certs_dir = .
default_md = sha256
unique_subject = no
rand_serial = yes
policy = any
[any]
commonName = supplied
"""


@dataclass(frozen=True)
class Authority:
    """An authority in a folder of its own; servers' own users may read what is in it.

    Attributes:
        folder: where all files are.
        name: of its certificate's file, without the ending.
    """

    folder: Path
    name: str = "ca"

    @classmethod
    def made(cls, folder: Path, name: str = "ca") -> Authority:
        """A new one; ends the test where there is no openssl."""
        require("openssl")
        folder.mkdir(mode=0o755, exist_ok=True)
        one = cls(folder, name)
        one._run(
            f"req -x509 {NEW_KEY} -days 2",
            "-subj",
            f"/CN={name}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.crt",
        )
        one._give()
        return one

    @property
    def root(self) -> Path:
        """Its certificate."""
        return self.folder / f"{self.name}.crt"

    def sign_plainly(self, name: str, subject: str, *, key: str = NEW_KEY) -> tuple[Path, Path]:
        """(certificate, key) of X.509's first version, by the recipe in the manuals of PostgreSQL and MySQL; ends the test where
        openssl makes none."""
        self._run(f"req -new {key}", "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        own = f"-CA {self.name}.crt -CAkey {self.name}.key -set_serial 1"
        self._run(f"x509 -req -in {name}.csr -days 2 {own} -out {name}.crt")
        if "Version: 1 " not in self._run(f"x509 -in {name}.crt -noout -text"):
            pytest.skip("openssl makes certificates of version 3")
        self._give()
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"

    def sign(self, name: str, subject: str, *, names: str = "", expired: bool = False) -> tuple[Path, Path]:
        """(certificate, key) of that subject; `names` as in "DNS:db.example"."""
        extensions = self.folder / f"{name}.ext"
        extensions.write_text("basicConstraints = CA:FALSE\n" + (f"subjectAltName = {names}\n" if names else ""))
        (self.folder / "index.txt").write_text("")
        (self.folder / "ca.cnf").write_text(_CONFIG)
        self._run(f"req {NEW_KEY}", "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        span = "-startdate 20200101000000Z -enddate 20200102000000Z" if expired else "-days 2"
        self._run(
            f"ca -batch -config ca.cnf -notext {span} -cert {self.name}.crt -keyfile {self.name}.key "
            f"-in {name}.csr -extfile {name}.ext -out {name}.crt"
        )
        self._give()
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"

    def _run(self, words: str, *more: str) -> str:
        done = subprocess.run(
            ["openssl", *words.split(), *more], cwd=self.folder, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _give(self) -> None:
        account = server_account()
        for path in self.folder.iterdir():
            os.chown(path, account.uid, account.gid)
