"""What every test shares: property tests explore at a desk, and repeat themselves in CI."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
