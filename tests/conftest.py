"""Settings of Hypothesis for all tests."""

from hypothesis import settings

# By default an example that takes more than 200 ms fails, and so does a machine that stalls once
# among some ten thousand examples. What a test shows is no matter of time; the suite's own limit
# ends one that hangs.
settings.register_profile("keyhouse", deadline=None)
settings.load_profile("keyhouse")
