"""The load generator as plain data in and out: in this process, or in one of its own (`python -m trimtab.load`)."""

from trimtab.load.message import MAGIC, PROTOCOL, read_message, write_message
from trimtab.load.plan import LoadPlan, Part, build_driver, build_model, build_source, launch

__all__ = [
    "MAGIC",
    "PROTOCOL",
    "LoadPlan",
    "Part",
    "build_driver",
    "build_model",
    "build_source",
    "launch",
    "read_message",
    "write_message",
]
