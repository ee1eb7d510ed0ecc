"""A lease that has ended does not begin again."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

from toolcrib.jobs.engine import DEFAULT_SERVED
from toolcrib.jobs.worker_lease import HeartbeatLease


def test_a_lease_that_ends_while_it_is_prolonged_has_ended() -> None:
    looked = threading.Event()

    class Slow(HeartbeatLease):
        def valid(self) -> bool:
            found = super().valid()
            if threading.current_thread() is not threading.main_thread():
                looked.set()
                time.sleep(0.2)
            return found

    store: Any = SimpleNamespace(enroll=lambda *_: None, beat=lambda _: True)
    lease = Slow(store, 10.0, DEFAULT_SERVED)  # the first heartbeat comes after 2 s
    assert looked.wait(60)
    lease.end()
    time.sleep(0.4)
    assert lease._over.is_set() and not lease.valid()
