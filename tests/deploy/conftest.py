"""Make the program of scripts/release importable: it is no part of a distribution."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))
