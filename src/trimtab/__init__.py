"""Trimtab: a configuration auto-tuner whose measurements can be trusted and whose winners are proven.

Importing this package imports no other room and no third-party library; import the room that is needed
(`trimtab.space`, `trimtab.measure`, `trimtab.search`, `trimtab.study`, ...).
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
