"""What holds for every test: property tests have no deadline, for these machines are noisy; and Ctrl-C is heard."""

from __future__ import annotations

import signal
import threading

from hypothesis import settings

settings.register_profile("trimtab", parent=settings(), deadline=None)
settings.load_profile("trimtab")

# A shell starts what runs in its background with SIGINT ignored, and tests send that signal to themselves and to commands.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
