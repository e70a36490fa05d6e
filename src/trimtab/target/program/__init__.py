"""Any program as a target, by a catalogue of the user's."""

from trimtab.target.program.target import ProgramTarget

__all__ = ["ProgramTarget"]
