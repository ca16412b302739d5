"""The version and the build time of this tree. All other files copy these values.

``scripts/release`` writes both values here, then into the files that tools/releasing/places.py
lists. This module imports nothing, because every process imports it at its start.
"""

VERSION = "0.1.0"

BUILD_TIME = 1_795_219_200_000_000
"""2026-11-21T00:00:00Z, in microseconds since 1970: no correct clock is before this time."""
