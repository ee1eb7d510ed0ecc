"""What every test shares: hypothesis profiles, byte code for child processes, Ctrl-C for child processes."""

import os
import signal

from hypothesis import HealthCheck, settings

settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# Tests start hundreds of Python processes. Without byte code each of them would compile every module that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts background jobs with SIGINT ignored, and children inherit that: tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
