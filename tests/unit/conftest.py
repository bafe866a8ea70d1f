"""Settings of the property tests."""

from hypothesis import HealthCheck, settings

# How fast this machine happens to be is not what a property proves.
settings.register_profile("sayso", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sayso")
