"""The version and the build time of this tree: the source of every place that states them.

``scripts/release`` writes both values, and then the other places (tools/releasing/places.py).
This module imports nothing, because every start of a process imports it.
"""

VERSION = "0.1.0"

BUILD_TIME = 1_795_219_200_000_000
"""2026-11-21T00:00:00Z, in microseconds since 1970: no correct clock is before this time."""
