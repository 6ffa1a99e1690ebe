"""Properties hold however busy the machine is: no example has a time limit."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
