"""How the native driver enters a server that speaks MongoDB's protocol, from the options of its address."""

from __future__ import annotations

from typing import Any

from trimtab.errors import LoadError
from trimtab.records import Endpoint

__all__ = ["COLLECTION", "mongodb_access"]

COLLECTION = "usertable"

_MECHANISM = "SCRAM-SHA-256"


def mongodb_access(endpoint: Endpoint) -> dict[str, Any]:
    """The arguments of the native driver.

    Raises:
        LoadError: another mechanism than SCRAM-SHA-256 is asked for.
    """
    options = endpoint.options
    mechanism = options.get("authMechanism", _MECHANISM)
    if mechanism != _MECHANISM:
        raise LoadError(f"the load engine does not speak authMechanism={mechanism}", hint=f"use a user of {_MECHANISM}")
    source = options.get("authSource")
    return {
        "host": endpoint.host,
        "port": endpoint.port,
        "user": endpoint.user,
        "database": endpoint.database,
        "collection": COLLECTION,
        "password": endpoint.password,
        "settings": [["authSource", source]] if source else [],
        "tls": _tls_mode(endpoint),
        "root_certificates": options.get("tlsCAFile"),
        "certificate": options.get("tlsCertificateKeyFile"),
        "key": options.get("tlsCertificateKeyFile"),
    }


def _tls_mode(endpoint: Endpoint) -> str:
    options = endpoint.options
    if "true" not in (options.get("tls"), options.get("ssl")):
        return "disable"
    if "true" in (options.get("tlsAllowInvalidCertificates"), options.get("tlsInsecure")):
        return "require"
    return "verify-ca" if options.get("tlsAllowInvalidHostnames") == "true" else "verify-full"
