"""What a private Tomcat is told so that an application of ours runs in it and finds its database."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from trimtab.errors import UsageError
from trimtab.records import Endpoint
from trimtab.workload.base import Deployment
from trimtab.workload.server import is_local
from trimtab.workload.webapp.build import Application

__all__ = ["deployment"]

_RESOURCE = (
    '<Resource name="jdbc/site" type="javax.sql.DataSource" auth="Container" driverClassName="${trimtab.driver}"'
    ' url="${trimtab.url}" username="${trimtab.user}" password="${trimtab.password}" maxWaitMillis="10000"/>'
)
_SCHEMES = {
    "postgresql": ("org.postgresql.Driver", "jdbc:postgresql", "/.s.PGSQL.{port}"),
    "mysql": ("org.mariadb.jdbc.Driver", "jdbc:mariadb", ""),
}
"""Protocol -> driver, scheme of its URLs, and what a unix socket's path has behind the endpoint's host."""

_TRUSTING = ("allow", "prefer", "require")
"""Ways to encrypt that MariaDB's driver has one for: with any certificate, and never without encryption."""

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_SOCKETS = "socketFactory=org.trimtab.socket.UnixSocketFactory"


def deployment(
    application: Application, data: Endpoint, database: str, options: Mapping[str, str] | None = None
) -> Deployment:
    """How the application is run on a database of the server `data`, with further system properties of its own.

    Raises:
        UsageError: the applications do not run on such a server, or their drivers cannot encrypt as its url asks.
    """
    if data.protocol not in _SCHEMES:
        raise UsageError(
            f"application={application.name} does not run on a database of protocol={data.protocol}",
            hint=f"use a target that speaks one of: {', '.join(_SCHEMES)}",
        )
    driver, scheme, behind = _SCHEMES[data.protocol]
    is_socket = data.host.startswith("/")
    where = "localhost" if is_socket else f"[{data.host}]" if ":" in data.host else data.host
    url = f"{scheme}://{where}:{data.port}/{database}?{_encryption(data)}" + (f"&{_SOCKETS}" if is_socket else "")
    if data.protocol == "postgresql" and (session := data.options.get("options")):
        url += f"&options={quote(session, safe='')}"
    values = {
        "trimtab.driver": driver,
        "trimtab.url": url,
        "trimtab.user": data.user,
        "trimtab.password": data.password or "",
        "trimtab.socket": data.host + behind.format(port=data.port) if is_socket else "",
        "common.loader": ",".join(
            f'"{place}"'
            for place in ("${catalina.home}/lib", "${catalina.home}/lib/*.jar", f"{application.libraries}/*.jar")
        ),
        # No jar of ours or of Tomcat holds anything that would have to be looked for at a start.
        "tomcat.util.scan.StandardJarScanFilter.jarsToSkip": "*.jar",
        "package.access": "",
        "package.definition": "",
        **(options or {}),
    }
    lines = "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())
    names = {"applications": str(application.applications), "resource": _RESOURCE}
    return Deployment(names=names, config=lines)


def _encryption(data: Endpoint) -> str:
    """What a URL says so that connections are as safe as those of our own: without a word of the endpoint's, those that nobody
    can listen to are plain, and no key of a server is believed that somebody between may have sent."""
    is_near, roots = is_local(data.host), data.options.get("sslrootcert", "")
    mode = data.options.get("sslmode", "disable" if is_near else "prefer")
    if mode == "disable" or data.host.startswith("/"):
        if data.protocol == "postgresql":
            return "sslmode=disable"
        return "sslMode=disable" + ("&allowPublicKeyRetrieval=true" if is_near else "")
    for name in ("sslcert", "sslkey"):
        if name in data.options:
            raise UsageError(
                f"the application's connections cannot show {name}={data.options[name]!r} of the target's url",
                hint="let its user in by a password, or leave `embedded` out and deploy the application to an installed Tomcat",
            )
    if roots == "system":
        raise UsageError(
            "the application's connections do not know the target's sslrootcert=\"system\"",
            hint="name the file in the target's url: sslrootcert=/etc/ssl/certs/ca-certificates.crt",
        )
    if mode == "require" and roots:
        mode = "verify-ca"  # as libpq does
    if data.protocol == "postgresql":
        return f"sslmode={mode}" + (f"&sslrootcert={quote(roots, safe='/')}" if roots else "")
    return f"sslMode={'trust' if mode in _TRUSTING else mode}" + (f"&serverSslCert={roots}" if roots else "")


def _escaped(value: str) -> str:
    """As a file of Java properties has it: units of UTF-16 for other letters, and a blank that comes first is no indentation."""
    escaped = "".join(_ESCAPES.get(c, c) for c in value)
    escaped = f"\\{escaped}" if escaped.startswith(" ") else escaped
    return "".join(c if c.isascii() else _units(c) for c in escaped)


def _units(letter: str) -> str:
    digits = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{digits[at : at + 4]}" for at in range(0, len(digits), 4))
