"""ServeSettings: where and how a server listens, and what it refuses to start as."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError

__all__ = ["PORT", "TOKEN_FILE", "TOKEN_VARIABLE", "ServeSettings", "is_address", "read_token"]

PORT = 1979
TOKEN_FILE = "serve.token"
TOKEN_VARIABLE = "TRIMTAB_TOKEN"
_LEAST_TOKEN = 16
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """How a server listens.

    Attributes:
        host, port: its address.
        token: what requests must bear; "": nothing is asked for.
        names: names and addresses, without port, that a `Host` header may give besides `host` and the loopback ones.
        cert, key: files of a TLS certificate and its key; both or none.
        is_forced: whether an address beyond this machine may be served without a token or without TLS.
        most_body: bytes of a request; as many latencies as a report may hold take 1.25 million at most.
        most_per_s: requests that one address may make in a second; three times as many at once.
        studies: folder of study files that may be started; None: none may.
        sync_s: how long a report may be kept before it survives a loss of power; 0: it is answered only then.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    token: str = ""
    names: tuple[str, ...] = ()
    cert: Path | None = None
    key: Path | None = None
    is_forced: bool = False
    most_body: int = 3 << 19
    most_per_s: int = 2000
    studies: Path | None = None
    sync_s: float = 1.0

    def __post_init__(self) -> None:
        """Checks what would be dangerous.

        Raises:
            UsageError: it is, and nobody has said that it may; or `names` holds what no `Host` header can say.
        """
        for name in self.names:
            if not (_HOST_NAME.fullmatch(name) or is_address(name)):
                raise UsageError(
                    f"--name={name!r} is not the name of a host",
                    hint="give the name that clients have in their URL, such as tuner.example.org, without https:// and port",
                )
        if (self.cert is None) != (self.key is None):
            raise UsageError("TLS needs a certificate and its key", hint="give --cert FILE and --key FILE")
        for path in (self.cert, self.key):
            if path is not None and not path.is_file():
                raise UsageError(f"there is no file={str(path)!r}", hint="give the certificate and its key in PEM form")
        if self.is_local or self.is_forced:
            return
        lacking = [word for word, is_there in (("token", self.token), ("TLS", self.cert)) if not is_there]
        if lacking:
            raise UsageError(
                f"host={self.host!r} can be reached from other machines, and there is no {' and no '.join(lacking)}",
                hint="give --cert and --key (and leave the token on), serve 127.0.0.1 behind SSH or a proxy, or say --insecure",
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        return is_address(self.host) and ipaddress.ip_address(self.host).is_loopback

    @property
    def url(self) -> str:
        """Where clients find it."""
        scheme = "http" if self.cert is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"


def is_address(text: str) -> bool:
    """Whether it is an address of a machine, and no name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def read_token(state_dir: Path, environment: Mapping[str, str] = os.environ) -> tuple[str, bool]:
    """The token, and whether it was made now: of the environment, or of a file of its owner's alone in the state directory.

    Raises:
        UsageError: it is too short to be one, or the file can be read by others or not at all.
    """
    given = environment.get(TOKEN_VARIABLE, "").strip()
    if given:
        hint = f"give {_LEAST_TOKEN} or more letters and digits, such as `openssl rand -hex 24` prints"
        return _long_enough(given, TOKEN_VARIABLE, hint), False
    path = state_dir / TOKEN_FILE
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return _of_file(path), False
    except OSError as error:
        raise UsageError(
            f"cannot make the token file={str(path)!r}: {error.strerror}",
            hint=f"set {TOKEN_VARIABLE}, or give another --state",
        ) from error
    token = secrets.token_urlsafe(32)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(token + "\n")
    except OSError:
        path.unlink()  # on a full disk: what is there of it would be refused from now on
        raise
    return token, True


def _of_file(path: Path) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle, encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(4096).strip()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read the token file={str(path)!r}: {error}", hint="remove it: another one is made"
        ) from error
    if mode & 0o077:
        raise UsageError(
            f"others may read the token file={str(path)!r}: mode={mode & 0o777:o}",
            hint="remove it: another one is made",
        )
    return _long_enough(token, str(path), "remove it: another one is made")


def _long_enough(token: str, where: str, hint: str) -> str:
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"the token of {where} is not a token: {len(token)} characters", hint=hint)
    return token
