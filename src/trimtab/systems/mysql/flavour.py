"""Flavour: which of the two products a server is, and its version; what differs between them is data, not branches elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from trimtab.errors import TargetError
from trimtab.systems.server_catalog import Product as Known
from trimtab.systems.server_catalog import server_catalog

__all__ = ["Flavour", "Product", "read_flavour"]

Product = Literal["mariadb", "mysql"]

_NUMBER = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Flavour:
    """A product and its version.

    Attributes:
        product: "mariadb" or "mysql".
        version: major, minor, patch.
    """

    product: Product
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.known.name} {'.'.join(map(str, self.version))}"

    @property
    def known(self) -> Known:
        """What the catalogue says of the product."""
        return server_catalog("mysql").product[self.product]

    @property
    def replica_status(self) -> str:
        """The statement that has a row for every server that this one replicates from: without ALL, MariaDB shows none of those
        that were given a name (its manual, "SHOW REPLICA STATUS")."""
        word = "REPLICA" if self.version >= self.known.replica_since else "SLAVE"
        return f"SHOW ALL {word}S STATUS" if self.product == "mariadb" else f"SHOW {word} STATUS"


def read_flavour(version: str) -> Flavour:
    """The flavour behind a server's own `version()`.

    Raises:
        TargetError: it cannot be read, or is one that the catalogue does not know; nothing was changed.
    """
    match = _NUMBER.match(version.removeprefix("5.5.5-"))  # MariaDB puts that before its own for very old clients
    product: Product = "mariadb" if "mariadb" in version.lower() else "mysql"
    if match is None:
        raise TargetError(f"the server's version={version!r} cannot be read", hint="is it MySQL or MariaDB?")
    flavour = Flavour(product, (int(match[1]), int(match[2]), int(match[3])))
    low, high = flavour.known.lowest, flavour.known.highest
    if not low <= flavour.version[:2] <= high:
        raise TargetError(
            f"version={flavour} is not known to the catalogue",
            hint=f"{flavour.known.name} {low[0]}.{low[1]} to {high[0]}.{high[1]} is; nothing was changed",
        )
    return flavour
