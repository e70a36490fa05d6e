"""What a private Tomcat is told so that an application of ours runs in it and finds its database."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.errors import UsageError
from trimtab.records import Endpoint
from trimtab.workload.base import Deployment
from trimtab.workload.webapp.build import Application

__all__ = ["deployment"]

_RESOURCE = (
    '<Resource name="jdbc/site" type="javax.sql.DataSource" auth="Container" driverClassName="${trimtab.driver}"'
    ' url="${trimtab.url}" username="${trimtab.user}" password="${trimtab.password}" maxWaitMillis="10000"/>'
)
_SCHEMES = {
    "postgresql": ("org.postgresql.Driver", "jdbc:postgresql", "sslmode=disable", "/.s.PGSQL.{port}"),
    "mysql": ("org.mariadb.jdbc.Driver", "jdbc:mariadb", "sslMode=disable&allowPublicKeyRetrieval=true", ""),
}
"""Protocol -> driver, scheme of its URLs, options, and what a unix socket's path has behind the endpoint's host."""

_SOCKETS = "socketFactory=org.trimtab.socket.UnixSocketFactory"


def deployment(
    application: Application, data: Endpoint, database: str, options: Mapping[str, str] | None = None
) -> Deployment:
    """How the application is run on a database of the server `data`, with further system properties of its own.

    Raises:
        UsageError: the applications do not run on such a server.
    """
    if data.protocol not in _SCHEMES:
        raise UsageError(
            f"application={application.name} does not run on a database of protocol={data.protocol}",
            hint=f"use a target that speaks one of: {', '.join(_SCHEMES)}",
        )
    driver, scheme, query, behind = _SCHEMES[data.protocol]
    is_socket = data.host.startswith("/")
    where = "localhost" if is_socket else f"[{data.host}]" if ":" in data.host else data.host
    url = f"{scheme}://{where}:{data.port}/{database}?{query}" + (f"&{_SOCKETS}" if is_socket else "")
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


def _escaped(value: str) -> str:
    """As a file of Java properties has it."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in escaped)
