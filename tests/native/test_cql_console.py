"""A connection to a Cassandra node for a few questions: what becomes of it when nobody wants the answer any more."""

from __future__ import annotations

import signal
import socket
import threading
import time

import pytest

from trimtab._native import Cql, CqlConsole


def test_ctrl_c_is_heard_while_a_node_is_silent() -> None:
    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        driver = Cql(host="127.0.0.1", port=silent.getsockname()[1])
        began_s = time.monotonic()
        threading.Timer(0.1, interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            CqlConsole(driver, timeout_s=60.0)
        assert time.monotonic() - began_s < 30.0
