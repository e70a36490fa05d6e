"""What holds for every test: property tests have no deadline, for these machines are noisy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("trimtab", parent=settings(), deadline=None)
settings.load_profile("trimtab")
