"""Trimtab: a configuration auto-tuner whose measurements can be trusted and whose winners are proven.

Importing this package imports no other room and no third-party library; import the room that is needed
(`trimtab.space`, `trimtab.measure`, `trimtab.search`, `trimtab.study`, ...).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["__version__"]

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """`__version__` is that of the installed package, whose one source is Cargo.toml."""
        if name != "__version__":
            raise AttributeError(f"module 'trimtab' has no attribute {name!r}")
        from importlib.metadata import version

        return version("trimtab")
