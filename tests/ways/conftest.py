"""Make the program of scripts/ways importable: it is no part of a distribution."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))
