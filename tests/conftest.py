"""What every test of the suite is run with."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine and a cold cache are no failing laws: neither time limits nor slow first
# examples count, and every run tries the same examples.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")
