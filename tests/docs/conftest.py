"""Make the sources of the pictures importable: they are no part of the distribution."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))
