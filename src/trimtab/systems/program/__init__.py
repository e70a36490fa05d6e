"""Any program as a target, by a catalogue of the user's."""

from trimtab.systems.program.target import ProgramTarget

__all__ = ["ProgramTarget"]
