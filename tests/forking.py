"""Runs work in a forked child of this process."""

import os
import warnings
from collections.abc import Callable


def forked(work: Callable[[], object]) -> int:
    """Return 0 if the work ended without an error in a forked child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are threads is the point
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
